#include "export/qcdq/linear_parameters.h"

#include <algorithm>
#include <cmath>

#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/qonnx/quant_arithmetic.h"
#include "graph/strided_index.h"

namespace crumb::exporting {

using graph::ConstantValue;
using graph::Graph;
using graph::Node;
using graph::Shape;
using graph::StridedIndex;

namespace {

constexpr std::int64_t kBlockedOpset = 21;
constexpr std::int64_t kMostScales = 1 << 24;  // that a graph's shapes may ask for, whatever its scales are
constexpr std::int64_t kMostZero = 1 << 24;    // float32 holds all integers up to it
constexpr const char* kNoScale = "has a scale that is 0 or no number";

bool are_scales(std::span<const float> scales) {
  return std::ranges::all_of(scales, [](float s) { return std::isfinite(s) && s != 0; });
}

bool is_static(const std::optional<Shape>& shape) {
  return shape && std::ranges::all_of(*shape, &graph::Dim::known);
}

/// The numbers, each as often as a tensor of shape `whole` needs it.
template <class T>
std::vector<T> spread(const std::vector<T>& values, std::span<const std::int64_t> part,
                      std::span<const std::int64_t> whole) {
  auto index = StridedIndex::broadcast(whole, part);
  std::vector<T> all(static_cast<std::size_t>(graph::count_elements(whole).take()));
  for (T& value : all) {
    value = values[index->at()];
    index->next();
  }
  return all;
}

std::vector<std::int64_t> full_rank(std::vector<std::int64_t> shape, std::size_t rank) {
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

/// One number where all are the same.
void collapse(std::vector<std::int64_t>& values, std::vector<std::int64_t>& shape) {
  if (values.empty() || std::ranges::adjacent_find(values, std::not_equal_to()) != values.end()) return;
  values.resize(1);
  shape.clear();
}

}  // namespace

bool LinearParameters::is_shifted() const {
  return std::ranges::any_of(zero, [](std::int64_t z) { return z != 0; });
}

std::map<std::string, graph::Attribute> LinearParameters::attributes() const {
  std::map<std::string, graph::Attribute> made;
  if (has_axis()) made["axis"] = axis;
  if (block > 0) made["block_size"] = block;
  return made;
}

Result<LinearParameters> linear_parameters(const ConstantValue& scale, const ConstantValue& zero,
                                           const std::optional<Shape>& data, std::int64_t opset) {
  LinearParameters made;
  made.scale.assign(scale.values.begin(), scale.values.end());
  made.zero.assign(zero.values.begin(), zero.values.end());
  if (made.scale.empty() || made.zero.empty()) return Failure{"has an empty scale or zero point"};
  if (!are_scales(made.scale)) return Failure{kNoScale};
  std::vector<std::int64_t> scale_shape = scale.shape, zero_shape = zero.shape;
  if (made.scale.size() == 1) scale_shape.clear();
  collapse(made.zero, zero_shape);
  if (made.scale.size() == 1 && made.zero.size() == 1) return made;

  if (!data) return Failure{"has a scale for each index of an axis, and its input's shape is not known"};
  const std::size_t rank = data->size();
  scale_shape = full_rank(std::move(scale_shape), rank);
  zero_shape = full_rank(std::move(zero_shape), rank);
  std::vector<std::int64_t> both(rank, 1);
  const std::string found = " is of shape " + graph::text_of(scale.shape) + ", its zero point of shape " +
                            graph::text_of(zero.shape) + ", which do not broadcast to its input's " +
                            graph::text_of(*data);
  if (scale_shape.size() != rank || zero_shape.size() != rank) return Failure{"its scale" + found};
  for (std::size_t i = 0; i < rank; ++i) {
    both[i] = scale_shape[i] == 1 ? zero_shape[i] : scale_shape[i];
    const bool fits = (*data)[i].known() ? both[i] == 1 || both[i] == (*data)[i].size : true;
    if (!fits || (zero_shape[i] != 1 && zero_shape[i] != both[i])) return Failure{"its scale" + found};
  }
  const auto axes = rank - static_cast<std::size_t>(std::ranges::count(both, 1));
  if (axes > 1) {
    if (opset < kBlockedOpset) {
      return Failure{"has a scale for each group (shape " + graph::text_of(both) +
                     "), which needs operator set 21 (block_size)"};
    }
    if (!is_static(data)) return Failure{"has a scale for each group, and its input's shape is not known"};
    // Every axis whole, but one, which is one block or as many as it has elements.
    std::size_t blocked = rank - 1;
    for (std::size_t i = 0; i < rank; ++i) {
      if (both[i] == 1 && (*data)[i].size != 1) blocked = i;
    }
    made.axis = static_cast<std::int64_t>(blocked);
    made.block = both[blocked] == 1 ? (*data)[blocked].size : 1;
    for (std::size_t i = 0; i < rank; ++i) {
      if (i != blocked) both[i] = (*data)[i].size;
    }
    const auto count = graph::count_elements(both);
    if (!count.ok() || count.value() > kMostScales) {
      return Failure{"has a scale for each group, and would need a tensor of them of shape " +
                     graph::text_of(both)};
    }
  }
  made.scale = spread(made.scale, scale_shape, both);
  made.zero = spread(made.zero, zero_shape, both);
  made.shape = both;
  if (axes == 1) {
    made.axis = std::ranges::find_if(both, [](std::int64_t size) { return size != 1; }) - both.begin();
    made.shape = {both[static_cast<std::size_t>(made.axis)]};
  }
  return made;
}

Result<LinearParameters> parameters_of(const Graph& graph, const Node& node,
                                       const std::optional<Shape>& data) {
  const graph::Tensor* scale = graph::constant_input(graph, node, 1);
  if (!scale) return Failure{"has a scale that is computed"};
  if (scale->type() != graph::ElementType::kFloat) {
    return Failure{"has a scale of type " + std::string(name_of(scale->type())) +
                   "; QONNX's quantizers are float32"};
  }
  const graph::Tensor* zero = graph::constant_input(graph, node, 2);
  if (node.has_input(2) && !zero) return Failure{"has a zero point that is computed"};
  LinearParameters made{.scale = scale->to_floats()};
  made.zero.assign(made.scale.size(), 0);
  if (zero && is_integer(zero->type())) {
    made.zero = zero->to_ints();
    if (made.zero.size() == 1) made.zero.assign(made.scale.size(), made.zero[0]);
  } else if (zero && std::ranges::any_of(zero->to_floats(), [](float z) { return z != 0; })) {
    return Failure{"has a zero point of type " + std::string(name_of(zero->type())) + " that is not 0"};
  }
  if (made.scale.empty() || made.zero.size() != made.scale.size()) {
    return Failure{"has " + std::to_string(made.scale.size()) + " scales and " +
                   std::to_string(made.zero.size()) + " zero points"};
  }
  if (std::ranges::any_of(made.zero, [](std::int64_t z) { return z > kMostZero || z < -kMostZero; })) {
    return Failure{"has a zero point beyond 2^24, which is no float32"};
  }
  if (!are_scales(made.scale)) return Failure{kNoScale};
  const std::int64_t block = node.int_or("block_size", 0);
  if (block < 0) return Failure{"has the block_size " + std::to_string(block)};
  if (made.scale.size() == 1 && block == 0) return made;
  if (!data) return Failure{"has a scale for each index of an axis, and its input's shape is not known"};
  const auto rank = static_cast<std::int64_t>(data->size());
  made.axis = node.int_or("axis", 1);
  if (made.axis < 0) made.axis += rank;
  made.shape = scale->shape();
  made.block = block;
  const Failure misfit{"has scales of shape " + graph::text_of(made.shape) + " along axis " +
                       std::to_string(made.axis) + " of an input of shape " + graph::text_of(*data)};
  if (made.axis < 0 || made.axis >= rank) return misfit;
  const auto axis = static_cast<std::size_t>(made.axis);
  if (block == 0) {
    const bool fits =
        made.shape.size() == 1 && (!(*data)[axis].known() || (*data)[axis].size == made.shape[0]);
    return fits ? Result<LinearParameters>(std::move(made)) : misfit;
  }
  if (!is_static(data)) return Failure{"has scales of blocks, and its input's shape is not known"};
  if (made.shape.size() != data->size()) return misfit;
  for (std::size_t i = 0; i < data->size(); ++i) {
    const std::int64_t size = (*data)[i].size;
    if (made.shape[i] != (i == axis ? size / block + (size % block != 0 ? 1 : 0) : size)) return misfit;
  }
  std::vector<std::int64_t> whole = made.shape;
  whole[axis] = (*data)[axis].size;
  const auto count = graph::count_elements(whole);
  const bool is_constant = node.has_input(0) && graph.constant(node.inputs[0]);
  if (!count.ok() || (!is_constant && made.shape[axis] != 1 && count.value() > kMostScales)) return misfit;
  return made;
}

BroadcastParameters broadcast(const LinearParameters& parameters, const Shape& data) {
  BroadcastParameters made{.scale = parameters.scale,
                           .zero = {parameters.zero.begin(), parameters.zero.end()},
                           .shape = parameters.shape};
  if (parameters.scale.size() == 1) {
    made.shape.clear();
    return made;
  }
  const auto axis = static_cast<std::size_t>(parameters.axis);
  if (parameters.block == 0) {
    made.shape.assign(data.size(), 1);
    made.shape[axis] = parameters.shape[0];
    return made;
  }
  if (parameters.shape[axis] == 1) return made;
  std::vector<std::int64_t> whole = parameters.shape;
  whole[axis] = data[axis].size;
  const auto count = static_cast<std::size_t>(graph::count_elements(whole).take());
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < whole.size(); ++i) inner *= static_cast<std::size_t>(whole[i]);
  const auto size = static_cast<std::size_t>(whole[axis]),
             blocks = static_cast<std::size_t>(parameters.shape[axis]),
             block = static_cast<std::size_t>(parameters.block);
  made.scale.resize(count);
  made.zero.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t outer = i / (inner * size), at = i / inner % size;
    const std::size_t from = (outer * blocks + at / block) * inner + i % inner;
    made.scale[i] = parameters.scale[from];
    made.zero[i] = static_cast<float>(parameters.zero[from]);
  }
  made.shape = std::move(whole);
  return made;
}

GroupedParameters in_groups(const LinearParameters& parameters, std::vector<std::int64_t> shape) {
  const auto axis = static_cast<std::size_t>(parameters.axis);
  const bool has_groups = parameters.block > 1 && parameters.shape[axis] > 1 &&
                          shape[axis] == parameters.shape[axis] * parameters.block;
  if (!has_groups) {
    BroadcastParameters spread = broadcast(parameters, Shape(shape.begin(), shape.end()));
    return {.shape = std::move(shape), .parameters = std::move(spread)};
  }
  shape[axis] = parameters.block;
  shape.insert(shape.begin() + parameters.axis, parameters.shape[axis]);
  BroadcastParameters grouped{.scale = parameters.scale,
                              .zero = {parameters.zero.begin(), parameters.zero.end()},
                              .shape = parameters.shape};
  grouped.shape.insert(grouped.shape.begin() + parameters.axis + 1, 1);
  return {.shape = std::move(shape), .parameters = std::move(grouped)};
}

}  // namespace crumb::exporting
