#include "tasks/train/state.h"

#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tasks/kept_request.h"

namespace crumb::tasks {
namespace {

using Json = nlohmann::ordered_json;

Json log_json(const std::vector<EpochLine>& log) {
  Json lines = Json::array();
  for (const EpochLine& line : log)
    lines.push_back({line.phase, line.epoch, line.loss, line.metric, line.others});
  return lines;
}

std::string about(const RunState& state) {
  const Json json{{"request", state.request},      {"phase", state.phase},
                  {"epoch", state.position.epoch}, {"step", state.position.step},
                  {"loss", state.position.loss},   {"float_metrics", state.float_metrics},
                  {"log", log_json(state.log)},    {"longer_metrics", state.longer_metrics}};
  return json.dump();
}

RunState parse_about(const std::string& text) {
  const Json json = Json::parse(text);
  RunState state{.request = json.at("request"),
                 .phase = json.at("phase"),
                 .position = {.epoch = json.at("epoch"), .step = json.at("step"), .loss = json.at("loss")},
                 .float_metrics = json.at("float_metrics"),
                 .longer_metrics = json.at("longer_metrics"),
                 .log = {}};
  for (const Json& line : json.at("log")) {
    state.log.push_back({.phase = line.at(0),
                         .epoch = line.at(1),
                         .loss = line.at(2),
                         .metric = line.at(3),
                         .others = line.at(4)});
  }
  return state;
}

}  // namespace

std::string pack_state(const RunState& state, torch::nn::Module& float_module, torch::nn::Module* network,
                       const std::vector<at::Tensor>& start, torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  archive.write("about", c10::IValue(about(state)));
  torch::serialize::OutputArchive floats(archive.compilation_unit());
  float_module.save(floats);
  archive.write("float", floats);
  if (network) {
    torch::serialize::OutputArchive quantized(archive.compilation_unit());
    network->save(quantized);
    archive.write("network", quantized);
  }
  if (!start.empty()) archive.write("start", c10::IValue(c10::List<at::Tensor>(start)));
  torch::serialize::OutputArchive steps(archive.compilation_unit());
  optimizer.save(steps);
  archive.write("optimizer", steps);
  std::ostringstream out;
  archive.save_to(out);
  return std::move(out).str();
}

PackedState::PackedState(const std::string& bytes) {
  try {
    std::istringstream in(bytes);
    archive_.load_from(in);
    c10::IValue text;
    archive_.read("about", text);
    state_ = parse_about(text.toStringRef());
  } catch (const std::exception&) {  // from LibTorch and the JSON library
    throw Error("the state of the run cannot be read: it is damaged, or none of this version's");
  }
}

void PackedState::check(const Json& request) const {
  refuse_other_request(request, Json::parse(state_.request, nullptr, false));
}

torch::serialize::InputArchive PackedState::part(const std::string& name) {
  torch::serialize::InputArchive part;
  archive_.read(name, part);
  return part;
}

void PackedState::load_float(torch::nn::Module& module) {
  auto archive = part("float");
  module.load(archive);
}

void PackedState::load_network(torch::nn::Module& network) {
  auto archive = part("network");
  network.load(archive);
}

std::vector<at::Tensor> PackedState::start() {
  c10::IValue tensors;
  archive_.read("start", tensors);
  return tensors.toTensorVector();
}

void PackedState::load_optimizer(torch::optim::Optimizer& optimizer) {
  auto archive = part("optimizer");
  optimizer.load(archive);
}

}  // namespace crumb::tasks
