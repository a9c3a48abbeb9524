#include "graph/batches.h"

#include <algorithm>
#include <set>

#include "base/files/interrupt.h"
#include "base/files/text.h"

namespace crumb::graph {
namespace {

/// Returns the size of an input's or output's axis of samples, or null where it has none.
const Dim* batch_of(const Graph& graph, const std::string& name, const BatchAxes& axes) {
  const Value* value = graph.find(name);
  const auto axis = static_cast<std::size_t>(batch_axis_of(axes, name));
  return value && value->shape && value->shape->size() > axis ? &(*value->shape)[axis] : nullptr;
}

/// Returns the size that all inputs and outputs have there; null where they differ or one is unknown.
const Dim* common_batch(const Graph& graph, const BatchAxes& axes) {
  const Dim* common = nullptr;
  for (const auto* names : {&graph.inputs, &graph.outputs}) {
    if (names == &graph.outputs && !axes.empty()) break;
    for (const std::string& name : *names) {
      const Dim* batch = batch_of(graph, name, axes);
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

/// Whether the shapes agree in every axis but that of samples.
bool rest_agrees(const Shape& expected, const std::vector<std::int64_t>& found, std::size_t samples) {
  if (expected.size() != found.size()) return false;
  for (std::size_t axis = 0; axis < found.size(); ++axis) {
    if (axis != samples && expected[axis].known() && expected[axis].size != found[axis]) return false;
  }
  return true;
}

/// A tensor as `outer` runs of samples, each of `row` bytes a sample.
struct Rows {
  std::size_t outer = 1, row = 0;

  Rows(const Tensor& tensor, std::int64_t axis) {
    for (std::int64_t i = 0; i < axis; ++i)
      outer *= static_cast<std::size_t>(tensor.shape()[static_cast<std::size_t>(i)]);
    const auto samples = static_cast<std::size_t>(tensor.shape()[static_cast<std::size_t>(axis)]);
    row = tensor.size() == 0 ? 0 : tensor.bytes().size() / outer / samples;
  }
};

/// Concatenates pieces along an axis and cuts them to `total` samples; returns the last piece where they do
/// not have samples there.
Tensor stacked(const std::vector<Tensor>& parts, const BatchPlan& plan, std::int64_t axis) {
  const Tensor& first = parts.front();
  const auto at = static_cast<std::size_t>(axis);
  if (plan.whole() || first.rank() <= axis || first.shape()[at] != plan.piece) return parts.back();
  std::vector<std::int64_t> shape = first.shape();
  shape[at] = plan.total;
  const Rows rows(first, axis);
  const std::size_t piece = static_cast<std::size_t>(plan.piece) * rows.row;
  std::vector<std::byte> bytes;
  bytes.reserve(rows.outer * static_cast<std::size_t>(plan.total) * rows.row);
  for (std::size_t run = 0; run < rows.outer; ++run) {
    std::size_t left = static_cast<std::size_t>(plan.total) * rows.row;
    for (const Tensor& part : parts) {
      const auto more = part.bytes().subspan(run * piece, std::min(piece, left));
      bytes.insert(bytes.end(), more.begin(), more.end());
      left -= more.size();
    }
  }
  return {first.type(), std::move(shape), std::move(bytes)};
}

/// Throws Error where an output has no samples on its axis, or where that axis is a guess among several.
void check_output(const std::string& name, const Tensor& made, const BatchPlan& plan) {
  if (plan.axes.empty() || plan.whole()) return;
  const std::int64_t axis = batch_axis_of(plan.axes, name);
  const auto at = static_cast<std::size_t>(axis);
  const bool fits = made.rank() > axis && made.shape()[at] == plan.piece;
  const bool is_guess = !plan.axes.contains(name) && std::ranges::count(made.shape(), plan.piece) > 1;
  if (fits && !is_guess) return;
  throw Error(
      "output " + quote_text(name) + " is " + text_of(made.shape()) + " for " + std::to_string(plan.piece) +
      (plan.piece == 1 ? " sample" : " samples") +
      (fits ? ", which several axes may hold" : ": expected them along axis " + std::to_string(axis)) +
      "; --batch-axis " + name + "=AXIS names " + (fits ? "the right one" : "another"));
}

}  // namespace

Tensor samples_of(const Tensor& tensor, std::int64_t begin, std::int64_t count, std::int64_t axis) {
  const auto at = static_cast<std::size_t>(axis);
  std::vector<std::int64_t> shape = tensor.shape();
  const std::int64_t all = shape[at], there = std::min(count, all - begin);
  const Rows rows(tensor, axis);
  std::vector<std::byte> bytes;
  bytes.reserve(rows.outer * static_cast<std::size_t>(count) * rows.row);
  for (std::size_t run = 0; run < rows.outer; ++run) {
    const auto samples = tensor.bytes().subspan(run * static_cast<std::size_t>(all) * rows.row);
    const auto from = samples.subspan(static_cast<std::size_t>(begin) * rows.row,
                                      static_cast<std::size_t>(there) * rows.row);
    bytes.insert(bytes.end(), from.begin(), from.end());
    const auto last = samples.subspan(static_cast<std::size_t>(begin + there - 1) * rows.row, rows.row);
    for (std::int64_t i = there; i < count; ++i) bytes.insert(bytes.end(), last.begin(), last.end());
  }
  shape[at] = count;
  return {tensor.type(), std::move(shape), std::move(bytes)};
}

std::vector<Tensor> piece_of(const Graph& graph, const std::vector<Tensor>& inputs, const BatchPlan& plan,
                             std::int64_t begin, std::int64_t count) {
  if (plan.whole()) return inputs;
  std::vector<Tensor> piece;
  piece.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    piece.push_back(samples_of(inputs[i], begin, count, batch_axis_of(plan.axes, graph.inputs[i])));
  return piece;
}

BatchPlan plan_batch(const Graph& graph, const std::vector<Tensor>& inputs, std::int64_t most,
                     const BatchAxes& axes) {
  const Dim* batch = common_batch(graph, axes);
  std::set<std::int64_t> totals;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = graph.inputs[i];
    const Value* value = graph.find(name);
    if (!value) continue;
    if (value->type != ElementType::kUnknown && value->type != inputs[i].type()) {
      refuse(graph, name, inputs[i], "");
    }
    if (!value->shape) continue;
    const auto axis = static_cast<std::size_t>(batch_axis_of(axes, name));
    if (!rest_agrees(*value->shape, inputs[i].shape(), axis)) refuse(graph, name, inputs[i], "");
    if (inputs[i].shape().size() <= axis) continue;
    totals.insert(inputs[i].shape()[axis]);
    const Dim& expected = (*value->shape)[axis];
    if (!batch && expected.known() && expected.size != inputs[i].shape()[axis])
      refuse(graph, name, inputs[i], "");
    if (batch && totals.size() > 1) {
      refuse(graph, name, inputs[i],
             ", where another input has " + std::to_string(*totals.begin()) + " samples");
    }
  }
  const std::int64_t total = totals.empty() ? 0 : *totals.begin();
  BatchPlan plan{.total = total, .piece = total, .axes = axes};
  if (!batch || total == 0) return plan;
  plan.piece = !batch->known() ? std::min(total, most) : batch->size == 0 ? total : batch->size;
  return plan;
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
    const std::vector<Tensor> outputs =
        executable.run(piece_of(graph, inputs, plan, begin, plan.piece), watch);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      check_output(graph.outputs[i], outputs[i], plan);
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
  for (const auto& [name, parts] : made)
    results.emplace(name, stacked(parts, plan, batch_axis_of(plan.axes, name)));
  return results;
}

}  // namespace crumb::graph
