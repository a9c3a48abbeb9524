#include "analysis/accumulator/weight_codes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "graph/operator_traits.h"
#include "graph/strided_index.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr int kMostSteps = 8;  // Mul and Reshape behind each other

/// Levels in units; nothing where one is no whole number of them.
bool count_units(std::span<const double> levels, double unit, std::vector<std::int64_t>& codes) {
  constexpr double kMost = 9007199254740992;  // 2^53: every one of them is exact
  codes.reserve(levels.size());
  for (const double level : levels) {
    const double code = level / unit;
    if (!std::isfinite(code) || std::fabs(code) > kMost || std::trunc(code) != code) return false;
    codes.push_back(static_cast<std::int64_t>(code));
  }
  return true;
}

double unit_of(const NumberFormat& number) {
  if (number.grid == Grid::kHalfInteger) return 0.5;
  return number.grid == Grid::kMinifloat ? std::exp2(1 - number.bias - number.mantissa_bits) : 1;
}

/// Scale and block of each element, in the order of the value.
Result<WeightCodes> codes_of(const graph::QuantizedConstant& constant) {
  const QuantizedTensor& tensor = *constant.tensor;
  const NumberFormat& number = *tensor.encoding.number;
  if (number.grid == Grid::kCodebook) return Failure{std::string(number.name) + " is a codebook, no grid"};
  WeightCodes made{.shape = constant.shape(), .unit = unit_of(number)};
  const std::vector<float> floats = levels_of(constant);
  const std::vector<double> levels(floats.begin(), floats.end());
  if (!count_units(levels, made.unit, made.codes)) {
    return Failure{"its zero points are no whole numbers of steps (" + tensor.spec + ")"};
  }
  const RowDecoder decoder(tensor.view());
  for (std::uint64_t block = 0; block < tensor.layout.blocks(); ++block) {
    made.scale.push_back(decoder.scale(block));
  }
  if (made.scale.size() <= 1) return made;
  const Ints stored(tensor.shape.begin(), tensor.shape.end());
  const std::uint64_t columns = std::max<std::uint64_t>(tensor.layout.matrix.cols, 1);
  graph::StridedIndex at = graph::StridedIndex::permuted(stored, constant.axes);
  made.group.resize(made.codes.size());
  for (std::uint32_t& group : made.group) {
    const std::uint64_t row = at.at() / columns, column = at.at() % columns;
    group = static_cast<std::uint32_t>(tensor.layout.first_block(row) + column / tensor.encoding.block_cols);
    at.next();
  }
  return made;
}

/// What a quantizer makes, or what is whole by its type.
Result<WeightCodes> codes_of(const graph::ConstantValue& constant, const graph::ValueType& type) {
  WeightCodes made{.shape = constant.shape};
  if (constant.levels.empty()) {
    if (!type.levels || !type.type.is_integer()) return Failure{kNoWeightQuantizer};
    made.scale = {1};
    if (!count_units(constant.values, 1, made.codes)) return Failure{"its weights are no whole numbers"};
    return made;
  }
  if (type.levels) made.unit = type.levels->unit();
  if (!count_units(constant.levels, made.unit, made.codes)) {
    return Failure{"its weights are no whole numbers of steps"};
  }
  made.scale = constant.scale;
  if (made.scale.size() <= 1) return made;
  auto at = graph::StridedIndex::broadcast(constant.shape, constant.scale_shape);
  if (!at) return Failure{"its scales do not fit its weights"};
  made.group.resize(made.codes.size());
  for (std::uint32_t& group : made.group) {
    group = static_cast<std::uint32_t>(at->at());
    at->next();
  }
  return made;
}

/// Minifloats that no format of ours has: values over scale.
Result<WeightCodes> codes_of_float_quant(const graph::ConstantValue& made_by,
                                         const std::optional<graph::ConstantValue>& scale,
                                         const graph::ValueType& type) {
  if (!type.levels || !scale) return Failure{"its FloatQuant has no grid of known numbers"};
  WeightCodes made{.shape = made_by.shape, .scale = scale->values, .unit = type.levels->minifloat};
  auto at = graph::StridedIndex::broadcast(made_by.shape, scale->shape);
  if (!at) return Failure{"its scales do not fit its weights"};
  std::vector<double> levels;
  for (const double value : made_by.values) {
    const double by = scale->values[at->at()], level = std::round(value / by / made.unit) * made.unit;
    if (static_cast<float>(level * by) != static_cast<float>(value))
      return Failure{"its weights are no numbers of FloatQuant's grid"};
    levels.push_back(level);
    made.group.push_back(static_cast<std::uint32_t>(at->at()));
    at->next();
  }
  if (!count_units(levels, made.unit, made.codes)) return Failure{"its weights are no numbers of its grid"};
  return made;
}

}  // namespace

WeightReader::WeightReader(const graph::Graph& lifted, const graph::Graph& lowered,
                           const graph::ConstantValues& constants,
                           const std::map<std::string, graph::ValueType>& types)
    : lifted_(lifted), lowered_(lowered), constants_(constants), types_(types), links_(lowered) {}

Result<WeightCodes> WeightReader::find(const std::string& value) const { return find(value, 0); }

Result<WeightCodes> WeightReader::find(const std::string& value, int depth) const {
  if (const auto kept = lifted_.quantized.find(value); kept != lifted_.quantized.end()) {
    return codes_of(kept->second);
  }
  const auto constant = constants_.find(value);
  if (!constant) return Failure{"its weights cannot be computed"};
  const auto known = types_.find(value);
  const graph::ValueType type = known == types_.end() ? graph::ValueType() : known->second;
  const std::size_t producer = links_.producer(value);
  const graph::Node* node = producer == graph::Links::kNone ? nullptr : &lowered_.nodes[producer];
  if (constant->levels.empty() && node) {
    if ((node->is("Mul") || node->is("Div")) && depth < kMostSteps) return multiplied(*node, depth);
    if (node->is("Transpose") && depth < kMostSteps) return transposed(*node, depth);
    if (is_any(*node, graph::trait::kReshapes) && depth < kMostSteps) {
      auto codes = find(node->inputs[0], depth + 1);
      if (codes.ok()) codes.value().shape = constant->shape;
      return codes;
    }
    if (node->is("FloatQuant", graph::kQonnxDomain))  // with a scale: else it would have no value
      return codes_of_float_quant(*constant, constants_.find(node->inputs[1]), type);
  }
  return codes_of(*constant, type);
}

Result<WeightCodes> WeightReader::transposed(const graph::Node& node, int depth) const {
  auto found = find(node.inputs[0], depth + 1);
  if (!found.ok()) return found;
  WeightCodes made = found.take();
  Ints reversed(made.shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const Ints perm = node.ints_or("perm", reversed);
  if (!graph::is_permutation(perm, made.shape.size())) return Failure{"its weights cannot be computed"};
  made.codes = graph::permuted(made.codes, made.shape, perm);
  if (!made.group.empty()) made.group = graph::permuted(made.group, made.shape, perm);
  made.shape = graph::permuted_shape(made.shape, perm);
  return made;
}

/// An integer view: codes times their scales.
Result<WeightCodes> WeightReader::multiplied(const graph::Node& node, int depth) const {
  const bool divides = node.op == "Div";
  for (const std::size_t i : {0u, 1u}) {
    if (node.inputs.size() != 2 || (divides && i == 1)) break;
    auto codes = find(node.inputs[i], depth + 1);
    const auto factor = constants_.find(node.inputs[1 - i]);
    if (!codes.ok() || !factor) continue;
    WeightCodes made = codes.take();
    auto at = graph::StridedIndex::broadcast(made.shape, factor->shape);
    if (!at || std::ranges::any_of(factor->values, [](double f) { return !(f > 0); })) continue;
    std::map<std::pair<std::uint32_t, std::size_t>, std::uint32_t> groups;
    std::vector<double> scale;
    std::vector<std::uint32_t> group(made.codes.size());
    for (std::size_t e = 0; e < made.codes.size(); ++e, at->next()) {
      const std::uint32_t old = made.group.empty() ? 0 : made.group[e];
      const auto [place, fresh] =
          groups.emplace(std::pair(old, at->at()), static_cast<std::uint32_t>(scale.size()));
      const double by = factor->values[at->at()];
      if (fresh) scale.push_back(divides ? made.scale[old] / by : made.scale[old] * by);
      group[e] = place->second;
    }
    made.scale = std::move(scale);
    made.group = made.scale.size() > 1 ? std::move(group) : std::vector<std::uint32_t>();
    return made;
  }
  return Failure{kNoWeightQuantizer};
}

}  // namespace crumb::analysis
