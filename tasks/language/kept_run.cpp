#include "tasks/language/kept_run.h"

#include <torch/serialize/output-archive.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <span>

#include "base/files/checked_file.h"
#include "base/files/inputs.h"
#include "base/files/text.h"
#include "base/json/numbers.h"
#include "libtorch/device.h"
#include "tasks/kept_request.h"

namespace crumb::tasks {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string about(const Json& request, const LanguagePosition& position) {
  Json log = Json::array();
  for (const LanguageLine& line : position.log) log.push_back({line.step, line.loss, line.rate});
  Json layers = Json::array();
  for (const LayerLine& line : position.layers) layers.push_back({line.layer, line.error_before, line.error});
  return Json{{"request", request},
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

void keep_language_run(const fs::path& path, const Json& request, const LanguagePosition& position,
                       torch::nn::Module& network, torch::optim::Optimizer& optimizer,
                       const qat::WeightAverage* average) {
  torch::serialize::OutputArchive archive;
  archive.write("about", c10::IValue(about(request, position)));
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
  // LibTorch's writer would throw again from its destructor, which ends the process.
  std::exception_ptr fault;
  archive.save_to([&](const void* bytes, std::size_t count) {
    try {
      if (!fault) file.append(std::span(static_cast<const std::byte*>(bytes), count));
    } catch (...) {
      fault = std::current_exception();
    }
    return count;
  });
  if (fault) std::rethrow_exception(fault);
  file.commit();
}

std::optional<KeptLanguageRun> KeptLanguageRun::open(const fs::path& path, const Json& request,
                                                     const std::string& device) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return std::nullopt;
  KeptLanguageRun kept;
  Json about;
  const OwnFiles own;
  const CheckedFile file = CheckedFile::open(path).take("the state of the run");
  try {
    const std::string_view bytes = file.text();
    kept.archive_.load_from(bytes.data(), bytes.size(), libtorch::device_named(device));
    c10::IValue text;
    kept.archive_.read("about", text);
    about = Json::parse(text.toStringRef());
    kept.position_ = position_of(about);
  } catch (const std::exception&) {  // from LibTorch and the JSON library
    throw Error("the state of the run in " + quote_text(path.string()) +
                " cannot be read: it is damaged, or none of this version's");
  }
  refuse_other_request(request, about.value("request", Json()));
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
