#include "tasks/language/request/request_fields.h"

#include <span>

#include "base/checksum.h"
#include "base/files/mapped_file.h"
#include "tasks/language/text/checksums.h"

namespace crumb::tasks {
namespace {

using Json = nlohmann::ordered_json;

class Declarations {
 public:
  void decides(const std::string& name, Json value) { fields_.deciding[name] = std::move(value); }
  template <class T>
  void does_not_matter(const std::string& name, const T&) {
    fields_.indifferent.insert(name);
  }
  RequestFields take() { return std::move(fields_); }

 private:
  RequestFields fields_;
};

std::uint32_t checksum(const std::vector<std::vector<std::int64_t>>& lines) {
  std::uint32_t sum = 0;
  for (const auto& line : lines) {
    const std::int64_t size = static_cast<std::int64_t>(line.size());  // where a line ends matters as well
    sum = crc32_of(std::as_bytes(std::span(line)), crc32_of(std::as_bytes(std::span(&size, 1)), sum));
  }
  return sum;
}

/// Returns "in memory", or the file's size and checksum: detects another file under its name, and the same
/// file elsewhere.
Json known(const std::filesystem::path& file) {
  if (file.empty()) return "in memory";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return "a file that is not made yet";
  const MappedFile mapped = MappedFile::open(file).take();
  return std::to_string(mapped.size()) + " bytes, CRC-32 " + std::to_string(crc32_of(mapped.bytes()));
}

void declare(const BlockWise& block_wise, Declarations& fields) {
  const auto& [passes, sequences, rate, scale_rate, scales_alone, signs] = block_wise;
  fields.decides("block_wise.passes", passes);
  fields.decides("block_wise.sequences", sequences);
  fields.decides("block_wise.rate", rate);
  fields.decides("block_wise.scale_rate", scale_rate);
  fields.decides("block_wise.scales_alone", scales_alone);
  fields.decides("block_wise.signs", signs);
}

void declare(const TeacherFile& teacher, Declarations& fields) {
  const auto& [file, top] = teacher;
  fields.decides("teacher", known(file));
  fields.decides("teacher.top", file.empty() ? Json() : Json(top));
}

void declare(const qat::AdapterOptions& options, Declarations& fields) {
  const auto& [name, rank, alpha, rslora, targets, seed] = options;
  fields.decides("adapter", name);
  fields.decides("adapter.rank", rank);
  fields.decides("adapter.alpha", alpha);
  fields.decides("adapter.rslora", rslora);
  fields.decides("adapter.targets", targets);
  fields.decides("adapter.seed", seed);
}

void declare(const Recovery& recovery, Declarations& fields) {
  const auto& [base, options, start, ranks, type] = recovery;
  fields.decides("base", checksum_with_codes(base));
  declare(options, fields);
  fields.decides("adapter.init", name_of(start));
  fields.decides("adapter.ranks", name_of(ranks));
  fields.decides("adapter.type", graph::name_of(type));
}

void declare(const LanguageSamples& samples, Declarations& fields) {
  const auto& [text, drawn, valid, lines, valid_lines, unpooled, first, length] = samples;
  fields.decides("text", checksum_of(text));
  fields.decides("drawn", drawn);
  fields.decides("valid", checksum_of(valid));
  fields.decides("lines", checksum(lines));
  fields.decides("valid_lines", checksum(valid_lines));
  if (unpooled > 0) fields.decides("unpooled", unpooled);  // runs from before there was one go on
  fields.decides("first", first ? Json(*first) : Json());
  fields.decides("length", length);
}

void declare(const LanguageStart& start, Declarations& fields) {
  const auto& [network, by] = start;
  fields.decides("start", network ? Json(checksum_with_codes(*network)) : Json());
  fields.decides("stages", by);
}

void declare(const Supervision& supervision, Declarations& fields) {
  const auto& [loss, teacher, has_floats, temperature] = supervision;
  fields.decides("loss", name_of(loss));
  declare(teacher, fields);
  fields.decides("has_floats", has_floats);
  fields.decides("temperature", temperature);
}

void declare(const LanguageSteps& steps, Declarations& fields) {
  const auto& [count, batch, at_once, recomputes, scales_alone, learn_adapters, seed] = steps;
  fields.decides("steps", count);
  fields.decides("batch", batch);
  fields.decides("at_once", at_once);
  fields.does_not_matter("recomputes", recomputes);
  fields.decides("scales_alone", scales_alone);
  fields.decides("learn_adapters", learn_adapters);
  fields.decides("seed", seed);
}

void declare(const OptimizerOptions& optimizer, Declarations& fields) {
  const auto& [warm_up, schedule, rate, scale_rate, average, most_gradient, states] = optimizer;
  fields.decides("warm_up", warm_up);
  fields.decides("schedule", name_of(schedule));
  fields.decides("rate", rate);
  fields.decides("scale_rate", scale_rate);
  fields.decides("average", average);
  fields.decides("most_gradient", most_gradient);
  fields.decides("optimizer_states", name_of(states));
}

void declare(const ComputeOptions& compute, int all_threads, Declarations& fields) {
  const auto& [products, device, threads] = compute;
  fields.decides("products", name_of(products));
  fields.decides("device", device);
  fields.decides("threads", threads > 0 ? threads : all_threads);
}

void declare(const LanguageRequest& request, int all_threads, Declarations& fields) {
  const auto& [network, samples, recipe, start, recovery, supervision, block_wise, steps, optimizer,
               compute] = request;
  fields.decides("network", checksum_of_floats(network));
  declare(samples, fields);
  fields.decides("recipe", to_yaml(recipe));
  declare(start, fields);
  fields.decides("recovery", recovery.has_value());
  if (recovery) declare(*recovery, fields);
  declare(supervision, fields);
  declare(block_wise, fields);
  declare(steps, fields);
  declare(optimizer, fields);
  declare(compute, all_threads, fields);
}

}  // namespace

RequestFields fields_of(const LanguageRequest& request, int processes, int threads) {
  Declarations fields;
  declare(request, threads, fields);
  fields.decides("processes", processes);
  return fields.take();
}

}  // namespace crumb::tasks
