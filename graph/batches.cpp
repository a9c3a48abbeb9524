#include "graph/batches.h"

#include <algorithm>
#include <set>

#include "base/files/interrupt.h"
#include "base/files/text.h"

namespace crumb::graph {
namespace {

/// Returns axis 0 of an input or output, or null where it has none.
const Dim* batch_of(const Graph& graph, const std::string& name) {
  const Value* value = graph.find(name);
  return value && value->shape && !value->shape->empty() ? &value->shape->front() : nullptr;
}

/// Returns axis 0 of all inputs and outputs; null where they differ or one is unknown.
const Dim* common_batch(const Graph& graph) {
  const Dim* common = nullptr;
  for (const auto* names : {&graph.inputs, &graph.outputs}) {
    for (const std::string& name : *names) {
      const Dim* batch = batch_of(graph, name);
      if (!batch || (!batch->known() && batch->symbol.empty())) return nullptr;
      if (common && !(*common == *batch)) return nullptr;
      common = batch;
    }
  }
  return common;
}

[[noreturn]] void refuse(const Graph& graph, const std::string& name, const Tensor& found,
                         const std::string& why) {
  const Value& value = *graph.find(name);
  throw Error("input " + quote_text(name) + ": expected " + std::string(name_of(value.type)) + " " +
              (value.shape ? text_of(*value.shape) : "of any shape") + ", found " +
              std::string(name_of(found.type())) + " " + text_of(found.shape()) + why);
}

/// Whether the shapes agree behind axis 0.
bool rest_agrees(const Shape& expected, const std::vector<std::int64_t>& found) {
  if (expected.size() != found.size()) return false;
  for (std::size_t axis = 1; axis < found.size(); ++axis) {
    if (expected[axis].known() && expected[axis].size != found[axis]) return false;
  }
  return true;
}

std::size_t row_bytes(const Tensor& tensor) {
  return tensor.size() == 0 ? 0 : tensor.bytes().size() / static_cast<std::size_t>(tensor.shape()[0]);
}

/// Concatenates pieces and cuts them to `total` rows; returns the last piece where their rows are not
/// samples.
Tensor stacked(const std::vector<Tensor>& parts, const BatchPlan& plan) {
  const Tensor& first = parts.front();
  if (plan.whole() || first.rank() == 0 || first.shape()[0] != plan.piece) return parts.back();
  std::vector<std::int64_t> shape = first.shape();
  shape[0] = plan.total;
  const std::size_t needed = static_cast<std::size_t>(plan.total) * row_bytes(first);
  std::vector<std::byte> bytes;
  bytes.reserve(needed);
  for (const Tensor& part : parts) {
    const auto more = part.bytes().first(std::min(part.bytes().size(), needed - bytes.size()));
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return {first.type(), std::move(shape), std::move(bytes)};
}

}  // namespace

Tensor samples_of(const Tensor& tensor, std::int64_t begin, std::int64_t count) {
  std::vector<std::int64_t> shape = tensor.shape();
  const std::int64_t there = std::min(count, shape[0] - begin);
  const std::size_t row = row_bytes(tensor);
  const auto from =
      tensor.bytes().subspan(static_cast<std::size_t>(begin) * row, static_cast<std::size_t>(there) * row);
  std::vector<std::byte> bytes(from.begin(), from.end());
  const auto last = tensor.bytes().subspan(static_cast<std::size_t>(begin + there - 1) * row, row);
  for (std::int64_t i = there; i < count; ++i) bytes.insert(bytes.end(), last.begin(), last.end());
  shape[0] = count;
  return {tensor.type(), std::move(shape), std::move(bytes)};
}

BatchPlan plan_batch(const Graph& graph, const std::vector<Tensor>& inputs, std::int64_t most) {
  const Dim* batch = common_batch(graph);
  std::set<std::int64_t> totals;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = graph.inputs[i];
    const Value* value = graph.find(name);
    if (!value) continue;
    if (value->type != ElementType::kUnknown && value->type != inputs[i].type()) {
      refuse(graph, name, inputs[i], "");
    }
    if (!value->shape) continue;
    if (!rest_agrees(*value->shape, inputs[i].shape())) refuse(graph, name, inputs[i], "");
    if (inputs[i].rank() == 0) continue;
    totals.insert(inputs[i].shape()[0]);
    const Dim& expected = value->shape->front();
    if (!batch && expected.known() && expected.size != inputs[i].shape()[0])
      refuse(graph, name, inputs[i], "");
    if (batch && totals.size() > 1) {
      refuse(graph, name, inputs[i],
             ", where another input has " + std::to_string(*totals.begin()) + " samples");
    }
  }
  const std::int64_t total = totals.empty() ? 0 : *totals.begin();
  if (!batch || total == 0) return {total, total};
  if (batch->known()) return {total, batch->size == 0 ? total : batch->size};
  return {total, std::min(total, most)};
}

std::map<std::string, Tensor> run_batch(const Graph& graph, const Executable& executable,
                                        const std::vector<Tensor>& inputs, const BatchPlan& plan,
                                        const BatchOptions& options) {
  std::map<std::string, std::vector<Tensor>> made;
  Watch watch;
  if (options.all_values) {
    watch.show = [&](const std::string& name, const Tensor& value) { made[name].push_back(value); };
  }
  for (std::int64_t begin = 0; begin == 0 || begin < plan.total; begin += plan.piece) {
    check_interrupt();
    std::vector<Tensor> piece;
    piece.reserve(inputs.size());
    for (const Tensor& input : inputs) {
      piece.push_back(plan.whole() ? input : samples_of(input, begin, plan.piece));
    }
    const std::vector<Tensor> outputs = executable.run(piece, watch);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::vector<Tensor>& parts = made[graph.outputs[i]];
      if (parts.size() * static_cast<std::size_t>(std::max<std::int64_t>(plan.piece, 1)) <=
          static_cast<std::size_t>(begin)) {
        parts.push_back(outputs[i]);  // unless the watch showed it, or the graph names it twice
      }
    }
    if (options.progress) options.progress(std::min(plan.total, begin + plan.piece));
    if (plan.piece == 0) break;
  }
  std::map<std::string, Tensor> results;
  for (const auto& [name, parts] : made) results.emplace(name, stacked(parts, plan));
  return results;
}

}  // namespace crumb::graph
