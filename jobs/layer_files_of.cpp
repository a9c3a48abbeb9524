#include "jobs/layer_files_of.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/checksum.h"
#include "base/files/input_file.h"
#include "base/files/output_file.h"
#include "base/files/text.h"
#include "quant/checkpoint/run_journal.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;

/// Returns the regular file that a path is, or those directly inside it, in order.
std::set<fs::path> files_at(const fs::path& path) {
  std::error_code none;
  if (!fs::is_directory(path, none))
    return fs::is_regular_file(path, none) ? std::set{path} : std::set<fs::path>{};
  std::set<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path))
    if (entry.is_regular_file()) files.insert(entry.path());
  return files;
}

/// Rises where the same samples give other codes than before, so that no run mixes both.
constexpr int kMethods = 1;

/// Returns the checksum of what is to be rounded, and by which methods: names, specs, shapes, and values of
/// constants that are in none of the files that identify the run.
std::uint32_t checksum_of(const ptq::Setting& setting, bool is_checkpoint) {
  std::string text = "methods " + std::to_string(kMethods) + "\n";
  for (const graph::PlannedConstant& constant : setting.plan.constants)
    text += constant.value + " " + (constant.spec ? constant.spec->to_string() : "") + "\n";
  std::uint32_t sum = crc32_of(text);
  for (const auto& [name, tensor] : setting.graph.initializers) {
    const std::string what = name + graph::text_of(std::span(tensor.shape()));
    sum = crc32_of(std::as_bytes(std::span(what)), sum);
    // The run's identity holds a checkpoint's files.
    if (!is_checkpoint || !tensor.is_unread()) sum = crc32_of(tensor.held().bytes(), sum);
  }
  return sum;
}

RunIdentity identity_of(const QuantizeRequest& request, const Recipe& recipe, const Checkpoint* checkpoint,
                        const ptq::Setting& setting) {
  RunIdentity identity{.version = CRUMB_VERSION,
                       .work = "rounds layers on samples",
                       .recipe = to_yaml(recipe),
                       .plan = checksum_of(setting, checkpoint != nullptr),
                       .inputs = checkpoint ? inputs_of(*checkpoint) : std::vector<RunIdentity::Input>{}};
  if (request.tokens > 0) identity.recipe += "tokens: " + std::to_string(request.tokens) + "\n";
  if (request.pairs) identity.recipe += "pairs\n";
  if (!request.device.empty()) identity.recipe += "device: " + request.device + "\n";
  const auto add = [&](const fs::path& input) {
    for (const fs::path& path : files_at(input))
      identity.inputs.push_back(input_of(InputFile::open(path).take()));
  };
  if (!checkpoint) add(request.input);
  for (const std::string& data : request.data) {
    std::error_code none;
    add(fs::exists(data, none) ? data : data.substr(data.find('=') + 1));
  }
  return identity;
}

/// Whether the stage keeps the codes that it finds.
bool is_kept(const Stage& stage) { return stage.info().rounds; }

}  // namespace

void refuse_stage_fields(const QuantizeRequest& request, const Recipe& recipe, const Observer& observer) {
  if (!(request.resume || request.memory > 0) || std::ranges::any_of(recipe.stages, is_kept)) return;
  throw usage_error(
      observer.spelled(request.resume ? "resume" : "memory") + " is for checkpoints, and " +
      quote_text(request.input) +
      " is taken for a graph because of what is said of its network; of a graph it is for stages "
      "that round on samples, as gptq");
}

std::unique_ptr<ptq::LayerFiles> layer_files_of(const QuantizeRequest& request, const Recipe& recipe,
                                                const Checkpoint* checkpoint, const ptq::Setting& setting,
                                                Observer& observer) {
  if (std::ranges::none_of(recipe.stages, is_kept)) {
    const OutputFile lock(request.output);
    RunJournal::discard(request.output);
    return nullptr;
  }
  const RunIdentity identity = identity_of(request, recipe, checkpoint, setting);
  auto files = std::make_unique<ptq::LayerFiles>(request.output, identity, request.resume);
  if (files->continued() > 0)
    observer.note("continuing after " + std::to_string(files->continued()) +
                  " layers that an earlier run finished");
  else if (request.resume)
    observer.note("there is nothing to continue; starting afresh");
  return files;
}

}  // namespace crumb::jobs
