#include "ptq/samples/sample_stream.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/choose.h"
#include "graph/edit.h"
#include "graph/part.h"

namespace crumb::ptq {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;

/// How many stations samples must pass before a value can be computed.
class Depths {
 public:
  std::size_t of(const Node& node) const {
    std::size_t depth = 0;
    for (const std::string& input : node.inputs) {
      const auto found = depths_.find(input);
      if (found != depths_.end()) depth = std::max(depth, found->second);
    }
    return depth;
  }
  std::size_t of(const std::string& value) const {
    const auto found = depths_.find(value);
    return found == depths_.end() ? 0 : found->second;
  }
  void set(const Node& node, std::size_t depth) {
    for (const std::string& output : node.outputs)
      if (!output.empty()) depths_[output] = depth;
  }

 private:
  std::map<std::string, std::size_t> depths_;
};

/// What lies in branches counts as made where the Choose is: no sample is held in the middle of a branch,
/// which another sample may not take.
void move_to_choose(const Graph& graph, Depths& depths) {
  if (!graph::has_choose(graph)) return;
  const graph::Sides sides(graph, graph.outputs);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!sides.is_on_one(i)) continue;
    std::size_t at = sides.of(i);
    while (sides.side(at).around != graph::Sides::kOutside) at = sides.side(at).around;
    depths.set(graph.nodes[i], depths.of(graph.nodes[sides.side(at).choose].outputs[0]));
  }
}

}  // namespace

std::vector<Station> stations_of(const Graph& graph, const std::vector<SampledLayer>& layers) {
  std::map<std::size_t, std::vector<SampledLayer>> by_node;
  for (const SampledLayer& layer : layers) by_node[layer.node].push_back(layer);
  std::vector<Station> stations;
  Depths depths;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::size_t depth = depths.of(node);
    if (const auto here = by_node.find(i); here != by_node.end()) {
      // A layer at depth d depends on d stations: it goes to the last existing station, or a new one.
      const std::size_t station = std::max(depth, stations.empty() ? 0 : stations.size() - 1);
      if (station == stations.size()) stations.emplace_back();
      for (SampledLayer& layer : here->second) stations[station].layers.push_back(std::move(layer));
      depth = station + 1;
    }
    depths.set(node, depth);
  }
  move_to_choose(graph, depths);
  for (const Node& node : graph.nodes) {
    const std::size_t taken_at = depths.of(node.outputs.empty() ? std::string() : node.outputs[0]);
    if (taken_at >= stations.size()) continue;  // behind the last station
    for (const std::string& input : node.inputs) {
      const std::size_t made = depths.of(input);
      // Known from station `made` on, needed on the way to station `taken_at`.
      if (made == 0) continue;
      for (std::size_t s = made; s < taken_at; ++s) {
        std::vector<std::string>& kept = stations[s].kept;
        if (std::ranges::find(kept, input) == kept.end()) kept.push_back(input);
      }
    }
  }
  return stations;
}

SampleStream::SampleStream(Graph graph, const std::vector<Station>& stations, const graph::Engine& engine,
                           std::uint64_t memory)
    : graph_(std::move(graph)), stations_(stations), engine_(engine), before_(memory), after_(memory) {}

void SampleStream::advance() {
  std::swap(before_, after_);
  if (!after_.empty()) throw Error("a sample did not come to the last layers");
  const Station& station = stations_[next_++];
  const std::vector<std::string> held = std::exchange(kept_, station.kept);
  wanted_.clear();
  for (const SampledLayer& layer : station.layers)
    if (std::ranges::find(wanted_, layer.input) == wanted_.end()) wanted_.push_back(layer.input);
  outputs_.clear();
  for (const std::vector<std::string>* names : {&kept_, &wanted_}) {
    for (const std::string& name : *names) {
      const bool is_there = std::ranges::find(held, name) != held.end() ||
                            std::ranges::find(graph_.inputs, name) != graph_.inputs.end() ||
                            std::ranges::find(outputs_, name) != outputs_.end();
      if (!is_there) outputs_.push_back(name);
    }
  }
  taken_ = held;
  part_.reset();
  inputs_.clear();
  if (outputs_.empty()) return;
  Graph part = graph::part_of(graph_, held, outputs_);
  inputs_ = part.inputs;
  part_ = engine_.prepare(std::move(part));
}

std::map<std::string, Tensor> SampleStream::run(const std::vector<Tensor>& inputs) {
  std::map<std::string, Tensor> known;
  for (std::size_t i = 0; i < inputs.size(); ++i) known[graph_.inputs[i]] = inputs[i];
  if (!taken_.empty()) {
    if (before_.empty()) throw Error("more samples come than before");
    std::vector<Tensor> held = before_.take();
    for (std::size_t i = 0; i < held.size(); ++i) known[taken_[i]] = std::move(held[i]);
  }
  if (part_) {
    std::vector<Tensor> given;
    for (const std::string& name : inputs_) given.push_back(known.at(name));
    std::vector<Tensor> made = part_->run(given);
    for (std::size_t i = 0; i < made.size(); ++i) known[outputs_[i]] = std::move(made[i]);
  }
  if (!kept_.empty()) {
    std::vector<Tensor> kept;
    for (const std::string& name : kept_) kept.push_back(known.at(name));
    after_.put(std::move(kept));
  }
  std::map<std::string, Tensor> brought;
  for (const std::string& name : wanted_) brought[name] = known.at(name);
  return brought;
}

void SampleStream::set_constant(const std::string& name, graph::QuantizedConstant codes) {
  graph::set_codes(graph_, name, std::move(codes));
}

void SampleStream::set_constant(const std::string& name, Tensor values) {
  graph_.quantized.erase(name);
  graph_.initializers[name] = std::move(values);
}

}  // namespace crumb::ptq
