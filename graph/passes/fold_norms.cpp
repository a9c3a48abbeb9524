#include "graph/passes/fold_norms.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "graph/passes/scaled_constant.h"
#include "graph/weighted_product.h"

namespace crumb::graph {
namespace {

/// The bias behind a product, or where it would be.
struct ProductBias {
  std::size_t node = 0, input = 0;  ///< the node and input that take it
  std::vector<std::int64_t> shape;
  std::vector<double> values;  ///< one for each output
  double factor = 1;           ///< by which the added bias is multiplied
};

bool all_finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

class NormFolder {
 public:
  explicit NormFolder(Graph& graph) : graph_(graph), links_(graph) {}

  void run(const std::function<bool(const NormFold&)>& is_wanted, std::vector<PassRemark>* remarks) {
    for (NormFold& fold : plan_norm_folds(graph_)) {
      if (!is_wanted(fold)) continue;
      if (fold.stays.empty()) fold.stays = change(fold);
      if (remarks) remarks->push_back(remark_of(fold));
    }
  }

 private:
  /// Folds a norm. Returns why it stays; empty if it was folded. Changes nothing before all is known.
  std::string change(const NormFold& fold) {
    const Tensor& constant = *graph_.constant(fold.gain);
    const std::vector<float> gains = gains_of(fold, constant.to_floats());
    if (!all_finite(gains)) return "its gain is not finite";
    const Tensor* const shift = constant_input(graph_, graph_.nodes[fold.node], 2);
    std::vector<float> bias = shift ? shift->to_floats() : std::vector<float>{};
    if (!all_finite(bias)) return "its bias is not finite";
    if (std::ranges::all_of(bias, [](float b) { return b == 0; })) bias.clear();
    std::optional<std::vector<ProductBias>> biases;
    if (!bias.empty()) biases = biases_behind(fold, bias);
    const bool is_ones = std::ranges::all_of(gains, [](float gain) { return gain == 1; });
    if (is_ones && !biases) return "its gain is ones";
    if (biases) {
      std::ranges::fill(bias, 0.0F);
    } else {  // n g + b = (n + b / g) g
      for (std::size_t i = 0; i < bias.size(); ++i) {
        if (bias[i] == 0) continue;
        bias[i] = static_cast<float>(static_cast<double>(bias[i]) / gains[i]);
        if (!std::isnormal(bias[i]))
          return "its bias can neither go into one behind a matrix nor be divided by its gain";
      }
    }
    std::vector<Tensor> matrices;
    for (const NormMatrix& matrix : fold.matrices) {
      const Tensor& old = *graph_.constant(matrix.name);
      if (!holds(old, matrix.axis, gains))
        return "float32 does not hold '" + matrix.name + "' times its gain";
      matrices.push_back(scaled_along(old, matrix.axis, {gains.begin(), gains.end()}));
    }
    if (biases && !std::ranges::all_of(*biases, [](const ProductBias& b) { return all_finite(rounded(b)); }))
      return "float32 does not hold its bias behind a matrix";

    if (!bias.empty()) put(fold.node, 2, Tensor::floats(shift->shape(), bias));
    put(fold.gain_at, fold.gain_at == fold.node ? 1 : 0,
        Tensor::floats(constant.shape(), std::vector<float>(gains.size(), constant_of_ones(fold))));
    for (std::size_t i = 0; i < matrices.size(); ++i)
      graph_.initializers[fold.matrices[i].name] = std::move(matrices[i]);
    if (biases)
      for (const ProductBias& b : *biases) put(b.node, b.input, Tensor::floats(b.shape, rounded(b)));
    return {};
  }

  static bool holds(const Tensor& matrix, std::size_t axis, const std::vector<float>& gains) {
    const std::vector<float> values = matrix.to_floats();
    const std::size_t stride = stride_along(matrix.shape(), axis);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!holds_product(values[i], gains[i / stride % gains.size()])) return false;
    return true;
  }

  static std::vector<float> rounded(const ProductBias& bias) {
    std::vector<float> values;
    for (const double x : bias.values) values.push_back(static_cast<float>(x));
    return values;
  }

  /// Returns the biases of all products with the norm's bias added; nothing where one has none that could
  /// hold it.
  std::optional<std::vector<ProductBias>> biases_behind(const NormFold& fold,
                                                        const std::vector<float>& bias) const {
    std::vector<ProductBias> made;
    for (const NormMatrix& matrix : fold.matrices) {
      const Tensor& values = *graph_.constant(matrix.name);
      if (values.rank() != 2) return {};
      const std::vector<double> added = product(bias, values, matrix.axis);
      for (const std::size_t at : matrix.products) {
        std::optional<ProductBias> place = bias_of(at, added.size());
        if (!place) return {};
        for (std::size_t i = 0; i < added.size(); ++i) place->values[i] += place->factor * added[i];
        made.push_back(std::move(*place));
      }
    }
    return made;
  }

  static std::vector<double> product(const std::vector<float>& bias, const Tensor& matrix, std::size_t axis) {
    const std::vector<float> values = matrix.to_floats();
    std::vector<double> sums(values.size() / bias.size(), 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t in = axis == 0 ? i / sums.size() : i % bias.size();
      const std::size_t out = axis == 0 ? i % sums.size() : i / bias.size();
      sums[out] += static_cast<double>(bias[in]) * values[i];
    }
    return sums;
  }

  std::optional<ProductBias> bias_of(std::size_t at, std::size_t outputs) const {
    const Node& node = graph_.nodes[at];
    if (weighted_product(node, 2)->bias == kNoInput) {
      const auto consumers = links_.consumers(node.outputs[0]);
      if (consumers.size() != 1 || links_.is_output(node.outputs[0])) return {};
      const Node& add = graph_.nodes[consumers[0]];
      if (!add.is("Add") || add.inputs.size() != 2) return {};
      return bias_at(consumers[0], add.inputs[0] == node.outputs[0] ? 1 : 0, outputs);
    }
    const double beta = node.float_or("beta", 1), alpha = node.float_or("alpha", 1);
    if (beta == 0) return {};
    std::optional<ProductBias> found;
    if (node.has_input(2)) {
      found = bias_at(at, 2, outputs);
    } else {
      found = {.node = at,
               .input = 2,
               .shape = {static_cast<std::int64_t>(outputs)},
               .values = std::vector<double>(outputs, 0)};
    }
    if (found) found->factor = alpha / beta;
    return found;
  }

  /// Returns a constant that adds one number to each output, or one number to all.
  std::optional<ProductBias> bias_at(std::size_t node, std::size_t input, std::size_t outputs) const {
    const Tensor* constant = constant_input(graph_, graph_.nodes[node], input);
    if (!constant || constant->type() != ElementType::kFloat) return {};
    std::vector<std::int64_t> shape = constant->shape();
    if (shape.empty()) shape = {1};
    const auto last = static_cast<std::size_t>(shape.back());
    if (constant->size() != shape.back() || (last != 1 && last != outputs)) return {};
    const std::vector<float> values = constant->to_floats();
    ProductBias bias{.node = node, .input = input};
    for (std::size_t i = 0; i < outputs; ++i) bias.values.push_back(values[last == 1 ? 0 : i]);
    shape.back() = static_cast<std::int64_t>(outputs);
    bias.shape = std::move(shape);
    return bias;
  }

  /// Replaces the constant, under its name if it has no other consumers.
  void put(std::size_t at, std::size_t input, Tensor tensor) {
    std::vector<std::string>& inputs = graph_.nodes[at].inputs;
    if (inputs.size() <= input) inputs.resize(input + 1);
    std::string& name = inputs[input];
    if (!name.empty() && links_.consumers(name).size() == 1 && !links_.is_output(name)) {
      graph_.values[name] = value_of(tensor);
      graph_.initializers[name] = std::move(tensor);
    } else {
      name = add_constant(graph_, (name.empty() ? graph_.nodes[at].name + "_bias" : name) + "_folded",
                          std::move(tensor));
    }
  }

  Graph& graph_;
  Links links_;
};

}  // namespace

Graph fold_norms_where(Graph graph, const std::function<bool(const NormFold&)>& is_wanted,
                       std::vector<PassRemark>* remarks) {
  graph = infer_shapes(sorted(std::move(graph)));
  NormFolder(graph).run(is_wanted, remarks);
  return tidy(std::move(graph));
}

Graph fold_norms(Graph graph, std::vector<PassRemark>* remarks) {
  return fold_norms_where(
      std::move(graph), [](const NormFold&) { return true; }, remarks);
}

}  // namespace crumb::graph
