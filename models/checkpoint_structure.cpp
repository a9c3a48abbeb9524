#include "models/checkpoint_structure.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/write.h"
#include "graph/packed/crumb_graph.h"
#include "graph/quantize/key_cache.h"
#include "models/checkpoint_graph.h"

namespace crumb::models {
namespace {

/// A checkpoint's tensors by name and shape: each is a constant whose values nobody asks for.
class DeclaredWeights final : public WeightSource {
 public:
  DeclaredWeights(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan)
      : checkpoint_(checkpoint) {
    for (const PlannedTensor& planned : plan) by_name_.emplace(planned.entry->name, planned.entry);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, entry] : by_name_) all.emplace_back(name);
    return all;
  }
  bool has(std::string_view name) const override { return by_name_.contains(name); }
  std::vector<size_t> shape(std::string_view name) const override {
    const std::vector<uint64_t>& shape = by_name_.at(name)->shape;
    return {shape.begin(), shape.end()};
  }
  std::vector<float> floats(std::string_view name) const override {
    throw Error("tensor " + std::string(name) + " is declared and not read");
  }
  std::optional<QuantizedTensor> codes(std::string_view name) const override {
    QuantizedTensor declared;
    declared.shape = by_name_.at(name)->shape;
    return declared;
  }
  std::optional<std::string> file(std::string_view path) const override {
    const ModelFile* found = checkpoint_.find_file(path);
    if (!found) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size());
  }
  std::string describe() const override { return "it"; }

 private:
  const Checkpoint& checkpoint_;
  std::map<std::string_view, const TensorEntry*> by_name_;
};

/// Gives an input of a structure its own type, and those who take it the float32 values.
void widen_input(graph::Graph& structure, const std::string& name, graph::ElementType type) {
  const std::string wide = structure.unused_value_name(name + "_float");
  for (graph::Node& node : structure.nodes) std::ranges::replace(node.inputs, name, wide);
  structure.values[wide] = structure.values[name];
  structure.values[name].type = type;
  const auto to = static_cast<std::int64_t>(graph::onnx_number(graph::ElementType::kFloat));
  structure.nodes.insert(structure.nodes.begin(), {.name = structure.unused_node_name(name + "_float"),
                                                   .op = "Cast",
                                                   .version = structure.opset(),
                                                   .inputs = {name},
                                                   .outputs = {wide},
                                                   .attributes = {{"to", to}}});
}

graph::Graph declared_graph(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan) {
  graph::Graph structure = graph::structure_of(graph_of_weights(DeclaredWeights(checkpoint, plan)).graph);
  for (const PlannedTensor& planned : plan) {
    const TensorEntry& entry = *planned.entry;
    if (planned.spec || entry.dtype == DType::kF32) continue;
    if (std::ranges::find(structure.inputs, entry.name) == structure.inputs.end()) continue;
    if (entry.dtype != DType::kF16 && entry.dtype != DType::kBF16 && entry.dtype != DType::kF64) {
      throw Error("tensor " + entry.name + " is kept as " + std::string(dtype_name(entry.dtype)) +
                  ", which graphs do not widen");
    }
    widen_input(structure, entry.name, graph::element_type_of(entry.dtype).value());
  }
  return structure;
}

}  // namespace

Result<std::string> structure_of(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                                 const SpecOrKeep& kv_cache) {
  try {
    graph::Graph structure = declared_graph(checkpoint, plan);
    if (kv_cache)
      structure = graph::with_quantized_cache(graph::infer_shapes(std::move(structure)), *kv_cache);
    return graph::onnx_bytes(structure);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

}  // namespace crumb::models
