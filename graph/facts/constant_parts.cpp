#include "graph/facts/constant_parts.h"

#include <algorithm>

#include "graph/edit.h"
#include "graph/facts/constant_operators.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kLeastCut = 1 << 20;  // elements of a constant that is split, at least, and of a part

/// Returns the initializer that the value is, or is quantized from; null for others.
const Tensor* data_behind(const Graph& graph, const Links& links, const std::string& value,
                          const Node*& node) {
  if (const Tensor* tensor = graph.constant(value)) return tensor;
  const std::size_t producer = links.producer(value);
  if (producer == Links::kNone || !is_quantizer(graph.nodes[producer])) return nullptr;
  node = &graph.nodes[producer];
  return constant_input(graph, *node, 0);
}

}  // namespace

ConstantParts::ConstantParts(const Graph& graph, const ConstantValues& constants, const Links& links,
                             const std::string& value)
    : constants_(constants), value_(value) {
  const Tensor* tensor = data_behind(graph, links, value, node_);
  if (!tensor || tensor->type() != ElementType::kFloat || tensor->size() < 2 * kLeastCut ||
      tensor->shape()[0] < 2)
    return;
  if (node_) {
    for (std::size_t i = 0; i < node_->inputs.size(); ++i) {
      auto found = i == 0 ? std::nullopt : constants.find(node_->inputs[i]);
      if (i > 0 && !found) return;
      parameters_.push_back(found ? std::make_shared<const ConstantValue>(std::move(*found)) : nullptr);
    }
  }
  shape_ = tensor->shape();
  data_.emplace(*tensor);
  row_ = tensor->size() / shape_[0];
  const auto all = static_cast<std::size_t>(shape_[0]);
  rows_ = std::max<std::size_t>(1, static_cast<std::size_t>(kLeastCut / row_));
  count_ = (all + rows_ - 1) / rows_;
}

std::vector<float> ConstantParts::data_of(std::size_t i) const {
  const auto [begin, end] = rows(i);
  const auto row = static_cast<std::size_t>(row_);
  std::vector<float> part((end - begin) * row);
  data_->read(begin * row * sizeof(float), std::as_writable_bytes(std::span(part)));
  return part;
}

std::pair<std::size_t, std::size_t> ConstantParts::rows(std::size_t i) const {
  return {i * rows_, std::min(static_cast<std::size_t>(shape_[0]), (i + 1) * rows_)};
}

std::shared_ptr<const ConstantValue> ConstantParts::parameter(std::size_t input, std::size_t i) const {
  const auto [begin, end] = rows(i);
  return std::make_shared<const ConstantValue>(rows_of(*parameters_[input], shape_, begin, end));
}

ConstantValue rows_of(const ConstantValue& whole, std::span<const std::int64_t> shape, std::size_t begin,
                      std::size_t end) {
  if (shape.empty() || whole.shape.size() != shape.size() || whole.shape[0] != shape[0]) return whole;
  ConstantValue made{.shape = whole.shape, .values = {}, .wide = whole.wide, .whole = whole.whole};
  const std::size_t row = whole.values.size() / static_cast<std::size_t>(shape[0]);
  made.shape[0] = static_cast<std::int64_t>(end - begin);
  made.values.assign(whole.values.begin() + static_cast<std::ptrdiff_t>(begin * row),
                     whole.values.begin() + static_cast<std::ptrdiff_t>(end * row));
  return made;
}

std::optional<ConstantValue> ConstantParts::made_by(const Node& node, std::size_t i,
                                                    std::vector<double> data) const {
  ConstantValue x{.shape = shape_, .values = std::move(data)};
  x.shape[0] = static_cast<std::int64_t>(x.values.size()) / row_;
  ConstantInputs inputs{std::make_shared<const ConstantValue>(std::move(x))};
  for (std::size_t input = 1; input < parameters_.size(); ++input) inputs.push_back(parameter(input, i));
  return constant_from_qonnx(node, inputs);
}

std::optional<ConstantValue> ConstantParts::part(std::size_t i) const {
  if (!is_cut()) return constants_.find(value_);
  const std::vector<float> data = data_of(i);
  if (node_) return made_by(*node_, i, {data.begin(), data.end()});
  ConstantValue made{.shape = shape_, .values = {data.begin(), data.end()}};
  made.shape[0] = static_cast<std::int64_t>(data.size()) / row_;
  return made;
}

std::optional<std::vector<float>> floats_of(const Graph& graph, const ConstantValues& constants,
                                            const Links& links, const std::string& value) {
  const ConstantParts parts(graph, constants, links, value);
  std::vector<float> all;
  for (std::size_t i = 0; i < parts.count(); ++i) {
    const auto part = parts.part(i);
    if (!part) return {};
    if (i == 0) all.reserve(part->values.size() * parts.count());
    all.insert(all.end(), part->values.begin(), part->values.end());
  }
  return all;
}

}  // namespace crumb::graph
