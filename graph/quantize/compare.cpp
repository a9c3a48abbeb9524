#include "graph/quantize/compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/qonnx/quantized_constants.h"
#include "graph/quantize/statistics.h"

namespace crumb::graph {
namespace {

class OutputSum {
 public:
  void add(const Tensor& original, const Tensor& quantized) {
    const std::vector<float> a = original.to_floats(), b = quantized.to_floats();
    sum_.add(a, b);
    values_ += a.size();
    not_finite_before_ += not_finite(a);
    not_finite_ += not_finite(b);
    if (original.rank() != 2 || original.shape()[1] < 2) return;
    const auto width = static_cast<std::size_t>(original.shape()[1]);
    for (std::size_t row = 0; row + width <= a.size(); row += width) {
      same_ += index_of_largest(a, row, width) == index_of_largest(b, row, width);
      ++rows_;
    }
  }

  OutputAgreement result(const std::string& output) const {
    OutputAgreement agreement{.output = output,
                              .distortion = sum_.result(),
                              .values = values_,
                              .not_finite = not_finite_,
                              .not_finite_before = not_finite_before_,
                              .top1 = {}};
    if (rows_ > 0) agreement.top1 = static_cast<double>(same_) / static_cast<double>(rows_);
    return agreement;
  }

 private:
  static std::uint64_t not_finite(const std::vector<float>& values) {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(values, [](float value) { return !std::isfinite(value); }));
  }
  static std::ptrdiff_t index_of_largest(const std::vector<float>& values, std::size_t row,
                                         std::size_t width) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row);
    return std::max_element(begin, begin + static_cast<std::ptrdiff_t>(width)) - begin;
  }

  DistortionSum sum_;
  std::uint64_t same_ = 0, rows_ = 0, values_ = 0, not_finite_ = 0, not_finite_before_ = 0;
};

void count(const PlannedEdge& edge, const Tensor& values, EdgeUse& use) {
  for (const float x : values.to_floats()) {
    ++use.values;
    use.saturated += edge.has_own_scale() && saturates(edge.spec, edge.scale, edge.zero_point, x);
  }
}

/// Inputs without elements, as a cache's past is, in the sizes that the graph takes: a smaller one may have
/// fewer heads.
std::vector<Tensor> as_taken_by(const Graph& graph, std::vector<Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value* const wanted = graph.find(graph.inputs[i]);
    std::vector<std::int64_t> shape = inputs[i].shape();
    if (inputs[i].size() != 0 || !wanted || !wanted->shape || wanted->shape->size() != shape.size()) continue;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if ((*wanted->shape)[axis].known()) shape[axis] = (*wanted->shape)[axis].size;
    if (count_elements(shape).take() == 0) inputs[i] = inputs[i].reshaped(std::move(shape));
  }
  return inputs;
}

}  // namespace

GraphComparison compare(const Graph& original, const Graph& quantized, const QuantPlan& plan,
                        const Engine& engine, const Batches& batches, const CompareOptions& options) {
  const auto before = engine.prepare(original);
  const auto after = engine.prepare(options.takes_codes ? quantized : lower_or_fold_quantized(quantized));
  GraphComparison result;
  result.edges.resize(plan.edges.size());
  std::map<std::string, std::size_t> edges;
  for (std::size_t i = 0; i < plan.edges.size(); ++i) edges[plan.edges[i].value] = i;
  const auto see = [&](const std::string& value, const Tensor& made) {
    const auto found = edges.find(value);
    if (found != edges.end()) count(plan.edges[found->second], made, result.edges[found->second]);
  };
  Watch watch{.show = see, .wanted = std::set<std::string>()};
  for (const auto& [value, edge] : edges) watch.wanted->insert(value);
  std::vector<OutputSum> sums(original.outputs.size());
  std::vector<bool> is_float(original.outputs.size(), true), is_reshaped(original.outputs.size(), false);
  batches([&](const std::vector<Tensor>& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) see(quantized.inputs[i], inputs[i]);
    const std::vector<Tensor> expected = before->run(as_taken_by(original, inputs)),
                              found = after->run(inputs, watch);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      is_reshaped[i] = is_reshaped[i] || found[i].shape() != expected[i].shape();
      is_float[i] =
          is_float[i] && graph::is_float(expected[i].type()) && found[i].size() == expected[i].size();
      if (is_float[i]) sums[i].add(expected[i], found[i]);
    }
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (is_reshaped[i]) result.reshaped.push_back(original.outputs[i]);
    if (is_float[i]) result.outputs.push_back(sums[i].result(original.outputs[i]));
  }
  return result;
}

}  // namespace crumb::graph
