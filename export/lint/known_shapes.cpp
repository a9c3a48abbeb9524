#include "export/lint/known_shapes.h"

#include <algorithm>
#include <functional>

#include "export/lint/subject.h"
#include "models/graph/passes/passes.h"

namespace crumb::exporting {
namespace {

constexpr std::int64_t kMostNumbers = 64;  // of a list that may be a shape
constexpr int kMostRounds = 16;            // one for each shape that depends on another

/// A list of integers, or one number without axes.
struct Integers {
  std::vector<std::int64_t> values;
  bool is_scalar = false;

  Tensor tensor() const {
    return is_scalar ? Tensor::scalar(values[0])
                     : Tensor::ints({static_cast<std::int64_t>(values.size())}, values);
  }
};

class Arithmetic {
 public:
  explicit Arithmetic(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes) {
      if (!node.domain.empty() || node.outputs.size() != 1) continue;
      if (auto made = result(node)) known_[node.outputs[0]] = std::move(*made);
    }
  }

  const std::map<std::string, Integers>& known() const { return known_; }

 private:
  std::optional<Integers> input(const Node& node, std::size_t i) const {
    if (!node.has_input(i)) return {};
    if (const auto found = known_.find(node.inputs[i]); found != known_.end()) return found->second;
    const Tensor* constant = graph_.constant(node.inputs[i]);
    if (!constant || constant->rank() > 1 || constant->size() > kMostNumbers) return {};
    if (!graph::is_integer(constant->type())) return {};
    return Integers{constant->to_ints(), constant->rank() == 0};
  }

  std::optional<Integers> result(const Node& node) const {
    if (node.op == "Shape") return shape(node);
    if (node.op == "Gather") return gather(node);
    if (node.op == "Concat") return concat(node);
    if (node.op == "Unsqueeze" || node.op == "Squeeze") return reshaped(node);
    if (node.op == "Identity") return input(node, 0);
    if (node.op == "Cast") {
      const bool is_long = node.int_or("to", 0) == onnx_number(graph::ElementType::kInt64);
      return is_long ? input(node, 0) : std::nullopt;
    }
    if (node.op == "Add")
      return combined(node, [](auto a, auto b, auto* c) { return __builtin_add_overflow(a, b, c); });
    if (node.op == "Sub")
      return combined(node, [](auto a, auto b, auto* c) { return __builtin_sub_overflow(a, b, c); });
    if (node.op == "Mul")
      return combined(node, [](auto a, auto b, auto* c) { return __builtin_mul_overflow(a, b, c); });
    return {};
  }

  std::optional<Integers> shape(const Node& node) const {
    const auto found = node.has_input(0) ? shape_of(graph_, node.inputs[0]) : std::nullopt;
    if (!found || node.has("start") || node.has("end")) return {};
    Integers sizes;
    for (const graph::Dim& dim : *found) {
      if (!dim.known()) return {};
      sizes.values.push_back(dim.size);
    }
    return sizes;
  }

  std::optional<Integers> gather(const Node& node) const {
    const auto data = input(node, 0), indices = input(node, 1);
    if (!data || !indices || data->is_scalar || node.int_or("axis", 0) != 0) return {};
    Integers made{.is_scalar = indices->is_scalar};
    const auto count = static_cast<std::int64_t>(data->values.size());
    for (const std::int64_t index : indices->values) {
      if (index < -count || index >= count) return {};
      made.values.push_back(data->values[static_cast<std::size_t>(index < 0 ? index + count : index)]);
    }
    return made;
  }

  std::optional<Integers> concat(const Node& node) const {
    Integers made;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto part = input(node, i);
      if (!part || part->is_scalar) return {};
      made.values.insert(made.values.end(), part->values.begin(), part->values.end());
    }
    if (static_cast<std::int64_t>(made.values.size()) > kMostNumbers) return {};
    return made;
  }

  /// A number becomes a list of one, or the other way round.
  std::optional<Integers> reshaped(const Node& node) const {
    const auto data = input(node, 0);
    const Value* made = graph_.find(node.outputs[0]);
    if (!data || data->values.size() != 1 || !made || !made->shape || made->shape->size() > 1) return {};
    return Integers{data->values, made->shape->empty()};
  }

  template <class F>
  std::optional<Integers> combined(const Node& node, F overflows) const {
    const auto a = input(node, 0), b = input(node, 1);
    if (!a || !b || a->values.empty() || b->values.empty()) return {};
    const std::size_t count = std::max(a->values.size(), b->values.size());
    Integers made{.is_scalar = a->is_scalar && b->is_scalar};
    for (const Integers* part : {&*a, &*b}) {
      if (part->values.size() != 1 && part->values.size() != count) return {};
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t value = 0;
      if (overflows(a->values[i % a->values.size()], b->values[i % b->values.size()], &value)) return {};
      made.values.push_back(value);
    }
    return made;
  }

  const Graph& graph_;
  std::map<std::string, Integers> known_;
};

}  // namespace

graph::Graph with_shapes(graph::Graph graph) {
  graph = graph::infer_shapes(std::move(graph));
  std::size_t before = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    const Arithmetic arithmetic(graph);
    if (arithmetic.known().size() == before) break;
    before = arithmetic.known().size();
    // Inference sees constants in place of the nodes that compute them.
    Graph folded = graph;
    std::erase_if(folded.nodes, [&](const Node& node) {
      return node.outputs.size() == 1 && arithmetic.known().contains(node.outputs[0]);
    });
    for (const auto& [name, integers] : arithmetic.known()) {
      folded.initializers.emplace(name, integers.tensor());
    }
    graph.values = graph::infer_shapes(std::move(folded)).values;
  }
  return graph;
}

}  // namespace crumb::exporting
