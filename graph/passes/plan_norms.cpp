#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "graph/edit.h"
#include "graph/passes/fold_norms.h"
#include "graph/weighted_product.h"

namespace crumb::graph {
namespace {

class NormPlanner {
 public:
  NormPlanner(const Graph& graph, CodedConstants coded) : graph_(graph), links_(graph), coded_(coded) {}

  std::vector<NormFold> plan() {
    std::vector<NormFold> folds;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if ((node.is("RMSNormalization") || node.is("LayerNormalization")) && node.has_output(0))
        folds.push_back(plan_of(i));
    }
    return folds;
  }

 private:
  NormFold plan_of(std::size_t at) {
    NormFold fold{.norm = graph_.nodes[at].name, .node = at};
    products_.clear();
    fold.stays = find_gain(fold);
    if (fold.stays.empty()) fold.stays = find_matrices(fold, graph_.nodes[at].outputs[0]);
    if (fold.stays.empty() && fold.matrices.empty()) fold.stays = "no matrix takes its output";
    if (fold.stays.empty()) fold.stays = shared_matrix(fold);
    return fold;
  }

  /// Returns the sizes of a float32 constant; nothing where it is none.
  std::optional<std::vector<std::int64_t>> sizes(const std::string& name) const {
    if (const Tensor* tensor = graph_.constant(name)) {
      if (tensor->type() != ElementType::kFloat) return {};
      return tensor->shape();
    }
    const auto coded = graph_.quantized.find(name);
    if (coded == graph_.quantized.end() || coded_ == CodedConstants::kStay) return {};
    return coded->second.shape();
  }

  /// Whether the constant has one number for each element of the last axis.
  bool is_row(const std::string& name) const {
    const auto shape = sizes(name);
    return shape && !shape->empty() && shape->back() > 0 &&
           std::all_of(shape->begin(), shape->end() - 1, [](std::int64_t size) { return size == 1; });
  }

  std::string find_gain(NormFold& fold) {
    constexpr const char* kNone =
        "its gain is no float32 constant of one number for each element of the last axis";
    const Node& norm = graph_.nodes[fold.node];
    if (!norm.has_input(1)) return kNone;
    fold.gain = norm.inputs[1];
    fold.gain_at = fold.node;
    if (const std::size_t maker = links_.producer(fold.gain); maker != Links::kNone) {
      const Node& add = graph_.nodes[maker];
      if (!add.is("Add") || add.inputs.size() != 2) return kNone;
      const Tensor* base = constant_input(graph_, add, 1);
      if (!base || base->type() != ElementType::kFloat || base->size() != 1) return kNone;
      fold.base = base->to_floats()[0];
      fold.gain = add.inputs[0];
      fold.gain_at = maker;
      const bool alone = links_.consumers(add.outputs[0]).size() == 1 && !links_.is_output(add.outputs[0]);
      if (!alone || constant_of_ones(fold) + fold.base != 1) return kNone;
    }
    if (!is_row(fold.gain)) return kNone;
    width_ = sizes(fold.gain)->back();
    if (norm.is("LayerNormalization") && norm.has_input(2) &&
        (!is_row(norm.inputs[2]) || sizes(norm.inputs[2])->back() != width_))
      return "its bias is no float32 constant of one number for each element of the last axis";
    return {};
  }

  /// Whether a node returns whole rows of its first input, possibly in another order or number.
  bool keeps_rows(const Node& node, const std::string& value) const {
    if (!node.has_input(0) || node.inputs[0] != value || !node.has_output(0)) return false;
    if (std::ranges::count(node.inputs, value) != 1) return false;
    if (node.is("Identity")) return true;
    if (node.is("Reshape")) {
      const Tensor* shape = constant_input(graph_, node, 1);
      return shape && shape->type() == ElementType::kInt64 && shape->size() > 0 &&
             shape->to_ints().back() == width_;
    }
    if (!node.is("Gather")) return false;
    const auto rank = graph_.rank_of(value);
    const std::int64_t axis = node.int_or("axis", 0);
    return rank && axis != -1 && axis != static_cast<std::int64_t>(*rank) - 1;
  }

  std::string find_matrices(NormFold& fold, const std::string& value) {
    if (links_.is_output(value)) return "its output is the graph's";
    for (const std::size_t i : links_.consumers(value)) {
      const Node& node = graph_.nodes[i];
      if (node.is("Shape") || node.is("Size")) continue;
      std::string why =
          keeps_rows(node, value) ? find_matrices(fold, node.outputs[0]) : find_matrix(fold, i, value);
      if (!why.empty()) return why;
    }
    return {};
  }

  std::string find_matrix(NormFold& fold, std::size_t at, const std::string& value) {
    const Node& node = graph_.nodes[at];
    const bool multiplies = is_matrix_product(node) && node.inputs.size() >= 2 && node.inputs[0] == value &&
                            std::ranges::count(node.inputs, value) == 1 && node.int_or("transA", 0) == 0;
    if (!multiplies) return "its output is taken by " + node.op + ", which is no product with a matrix";
    const auto shape = sizes(node.inputs[1]);
    const auto product = weighted_product(node, shape ? shape->size() : 0);
    if (!shape || product->input_axis >= shape->size() || product->output_axis >= shape->size())
      return "what " + node.op + " multiplies it by is no float32 constant";
    const std::size_t axis = product->input_axis;
    if ((*shape)[axis] != width_)
      return "its gain has " + std::to_string(width_) + " numbers, and the matrix of " + node.op + " takes " +
             std::to_string((*shape)[axis]);
    products_.insert(at);
    const auto found = std::ranges::find(fold.matrices, node.inputs[1], &NormMatrix::name);
    if (found == fold.matrices.end()) {
      fold.matrices.push_back({.name = node.inputs[1], .axis = axis, .products = {at}});
    } else if (found->axis == axis) {
      found->products.push_back(at);
    } else {
      return "two products take its matrix '" + node.inputs[1] + "' along different axes";
    }
    return {};
  }

  /// Returns why a matrix cannot change; empty if all can.
  std::string shared_matrix(const NormFold& fold) const {
    for (const NormMatrix& matrix : fold.matrices) {
      if (links_.is_output(matrix.name)) return "its matrix '" + matrix.name + "' is an output of the graph";
      for (const std::size_t i : links_.consumers(matrix.name)) {
        const Node& node = graph_.nodes[i];
        if (products_.contains(i) && std::ranges::count(node.inputs, matrix.name) == 1) continue;
        return "its matrix '" + matrix.name + "' is taken by " + node.op + ", too";
      }
    }
    return {};
  }

  const Graph& graph_;
  Links links_;
  CodedConstants coded_;
  std::int64_t width_ = 0;          ///< of the current norm
  std::set<std::size_t> products_;  ///< nodes that multiply its output
};

}  // namespace

std::vector<NormFold> plan_norm_folds(const Graph& graph, CodedConstants coded) {
  return NormPlanner(graph, coded).plan();
}

PassRemark remark_of(const NormFold& fold) {
  PassRemark remark{.node = fold.norm, .stays = fold.stays};
  if (!fold.stays.empty()) return remark;
  for (const NormMatrix& matrix : fold.matrices) remark.changed.push_back(matrix.name);
  return remark;
}

std::vector<float> gains_of(const NormFold& fold, const std::vector<float>& constant) {
  std::vector<float> gains = constant;
  if (fold.base != 0) {
    for (float& gain : gains) gain += fold.base;
  }
  return gains;
}

float constant_of_ones(const NormFold& fold) { return 1 - fold.base; }

bool holds_product(float a, float b) {
  if (a == 0 || b == 0) return std::isfinite(a) && std::isfinite(b);
  return std::isnormal(static_cast<float>(static_cast<double>(a) * b));
}

}  // namespace crumb::graph
