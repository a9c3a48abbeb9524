#include "tasks/language/kept_run.h"

#include <torch/serialize/output-archive.h>
#include <torch/utils.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <span>

#include "base/checksum.h"
#include "base/files/checked_file.h"
#include "base/files/inputs.h"
#include "base/files/text.h"
#include "base/json/numbers.h"
#include "libtorch/device.h"
#include "tasks/kept_request.h"
#include "tasks/language/checksums.h"

namespace crumb::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::uint32_t checksum(const std::vector<std::vector<std::int64_t>>& lines, std::uint32_t before) {
  for (const auto& line : lines) before = crc32_of(std::as_bytes(std::span(line)), before);
  return before;
}

/// By key, among the request's own.
void add_recovery(const Recovery& recovery, Json& request) {
  const qat::AdapterOptions& options = recovery.options;
  request["base"] = checksum_with_codes(recovery.base);
  request["adapter"] = options.name;
  request["rank"] = options.rank;
  request["alpha"] = options.alpha;
  request["rslora"] = options.rslora;
  request["targets"] = options.targets;
  request["init"] = name_of(recovery.start);
  request["ranks"] = name_of(recovery.ranks);
  request["type"] = graph::name_of(recovery.type);
}

/// Everything that decides a run's result.
Json request_json(const LanguageRequest& request, int processes) {
  Json json{
      {"network", checksum_of_floats(request.network)},
      {"text", checksum(request.valid_lines,
                        checksum(request.lines, checksum_of(request.valid, checksum_of(request.text))))},
      {"first", request.first.value_or(-1)},
      {"recipe", to_yaml(request.recipe)},
      {"loss", name_of(request.loss)},
      {"teacher", request.teacher.file.empty() ? "in memory" : "kept"},
      {"temperature", request.temperature},
      {"length", request.length},
      {"batch", request.batch},
      {"at_once", request.at_once},
      {"steps", request.steps},
      {"scales_alone", request.scales_alone},
      {"learn_adapters", request.learn_adapters},
      {"warm_up", request.warm_up},
      {"schedule", name_of(request.schedule)},
      {"rate", request.rate},
      {"scale_rate", request.scale_rate},
      {"average", request.average},
      {"most_gradient", request.most_gradient},
      {"block_wise", Json::array({request.block_wise.passes, request.block_wise.sequences,
                                  request.block_wise.rate, request.block_wise.scale_rate,
                                  request.block_wise.scales_alone, request.block_wise.signs})},
      {"seed", request.seed},
      {"products", name_of(request.products)},
      {"optimizer_states", name_of(request.states)},
      {"device", request.device},
      {"processes", processes},
      {"threads", request.threads > 0 ? request.threads : at::get_num_threads()}};
  if (request.start) json["start"] = checksum_with_codes(*request.start);
  json["stages"] = request.start_by;
  json["drawn"] = request.drawn;
  if (request.recovery) add_recovery(*request.recovery, json);
  return json;
}

std::string about(const LanguageRequest& request, int processes, const LanguagePosition& position) {
  Json log = Json::array();
  for (const LanguageLine& line : position.log) log.push_back({line.step, line.loss, line.rate});
  Json layers = Json::array();
  for (const LayerLine& line : position.layers) layers.push_back({line.layer, line.error_before, line.error});
  return Json{{"request", request_json(request, processes)},
              {"layers", std::move(layers)},
              {"middle_measure", json_number(position.middle_measure)},
              {"step", position.step},
              {"first_measure", json_number(position.first_measure)},
              {"log", std::move(log)}}
      .dump();
}

LanguagePosition position_of(const Json& about) {
  LanguagePosition position;
  position.step = about.at("step");
  for (const auto& [key, value] : {std::pair("first_measure", &position.first_measure),
                                   std::pair("middle_measure", &position.middle_measure)})
    if (about.at(key).is_number()) *value = about.at(key);
  for (const Json& line : about.at("layers"))
    position.layers.push_back({.layer = line.at(0), .error_before = line.at(1), .error = line.at(2)});
  for (const Json& line : about.at("log"))
    position.log.push_back({.step = line.at(0), .loss = line.at(1), .rate = line.at(2)});
  return position;
}

}  // namespace

std::uint32_t checksum_of(const LanguageRequest& request) {
  const std::string text = request_json(request, 0).dump();
  return crc32_of(std::as_bytes(std::span(text)));
}

void keep_language_run(const fs::path& path, const LanguageRequest& request, int processes,
                       const LanguagePosition& position, torch::nn::Module& network,
                       torch::optim::Optimizer& optimizer, const qat::WeightAverage* average) {
  torch::serialize::OutputArchive archive;
  archive.write("about", c10::IValue(about(request, processes, position)));
  torch::serialize::OutputArchive modules(archive.compilation_unit());
  network.save(modules);
  archive.write("network", modules);
  torch::serialize::OutputArchive steps(archive.compilation_unit());
  optimizer.save(steps);
  archive.write("optimizer", steps);
  if (average) {
    archive.write("average_steps", c10::IValue(average->steps()));
    archive.write("averages", c10::IValue(average->averages()));
  }
  CheckedFileWriter file(path);
  // LibTorch's writer would throw again while it is taken apart, which ends the process.
  std::exception_ptr fault;
  archive.save_to([&](const void* bytes, std::size_t count) {
    try {
      if (!fault) file.append(std::span(static_cast<const std::byte*>(bytes), count));
    } catch (const Error&) {
      fault = std::current_exception();
    }
    return count;
  });
  if (fault) std::rethrow_exception(fault);
  file.commit();
}

std::optional<KeptLanguageRun> KeptLanguageRun::open(const fs::path& path, const LanguageRequest& request,
                                                     int processes) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return std::nullopt;
  KeptLanguageRun kept;
  Json about;
  const OwnFiles own;
  const CheckedFile file = CheckedFile::open(path).take("the state of the run");
  try {
    const std::string_view bytes = file.text();
    kept.archive_.load_from(bytes.data(), bytes.size(), libtorch::device_named(request.device));
    c10::IValue text;
    kept.archive_.read("about", text);
    about = Json::parse(text.toStringRef());
    kept.position_ = position_of(about);
  } catch (const std::exception&) {  // LibTorch's and the JSON library's
    throw Error("the state of the run in " + quote_text(path.string()) +
                " cannot be read: it is damaged, or none of this version's");
  }
  refuse_other_request(request_json(request, processes), about.value("request", Json()));
  return kept;
}

void KeptLanguageRun::load(torch::nn::Module& network) {
  torch::serialize::InputArchive part;
  archive_.read("network", part);
  network.load(part);
}

void KeptLanguageRun::load(qat::WeightAverage& average) {
  c10::IValue steps, averages;
  archive_.read("average_steps", steps);
  archive_.read("averages", averages);
  average.restore(averages.toTensorVector(), steps.toInt());
}

void KeptLanguageRun::load(torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive part;
  archive_.read("optimizer", part);
  optimizer.load(part);
}

}  // namespace crumb::tasks
