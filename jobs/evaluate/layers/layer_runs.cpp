#include "jobs/evaluate/layers/layer_runs.h"

#include <algorithm>
#include <cmath>

#include "base/files/interrupt.h"
#include "graph/batches.h"
#include "runtime/session.h"

namespace crumb::jobs {
namespace {

using graph::Graph;
using graph::Tensor;

std::size_t axis_of(const Graph& graph, const graph::BatchAxes& axes, std::size_t input) {
  return static_cast<std::size_t>(graph::batch_axis_of(axes, graph.inputs[input]));
}

std::int64_t samples_in(const Graph& graph, const graph::BatchAxes& axes, const std::vector<Tensor>& inputs) {
  const std::size_t axis = axis_of(graph, axes, 0);
  return !inputs.empty() && inputs[0].shape().size() > axis ? inputs[0].shape()[axis] : 1;
}

}  // namespace

std::optional<std::int64_t> fixed_batch(const Graph& graph, const graph::BatchAxes& axes) {
  const graph::Value* value = graph.inputs.empty() ? nullptr : graph.find(graph.inputs[0]);
  const std::size_t axis = graph.inputs.empty() ? 0 : axis_of(graph, axes, 0);
  if (!value || !value->shape || value->shape->size() <= axis || !(*value->shape)[axis].known()) return {};
  return (*value->shape)[axis].size;
}

LayerSamples take_samples(const graph::Batches& batches, const Graph& graph, const graph::BatchAxes& axes,
                          std::size_t most, std::int64_t together, bool exactly) {
  LayerSamples samples;
  const bool is_open = !fixed_batch(graph, axes);
  const auto add = [&](std::vector<Tensor> piece, std::int64_t count) {
    samples.pieces.push_back(std::move(piece));
    samples.count += static_cast<std::size_t>(count);
  };
  batches([&](const std::vector<Tensor>& inputs) {
    check_interrupt();
    if (samples.count >= most) return;
    const std::int64_t all = samples_in(graph, axes, inputs);
    if (!is_open) return add(inputs, all);
    const auto taken = std::min(all, static_cast<std::int64_t>(most - samples.count));
    for (std::int64_t begin = 0; begin < taken; begin += together) {
      const std::int64_t left = taken - begin, count = exactly ? together : std::min(together, left);
      if (left < count && !samples.pieces.empty()) break;
      std::vector<Tensor> piece;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto axis = static_cast<std::int64_t>(axis_of(graph, axes, i));
        const bool is_cut =
            inputs[i].rank() > axis && inputs[i].shape()[static_cast<std::size_t>(axis)] == all;
        piece.push_back(is_cut ? graph::samples_of(inputs[i], begin, count, axis) : inputs[i]);
      }
      add(std::move(piece), std::min(count, left));
    }
  });
  return samples;
}

ResultLoss::ResultLoss(const Graph& baseline) {
  std::set<std::string> kept;
  for (const runtime::Tie& tie : runtime::find_ties(baseline)) kept.insert(tie.present);
  for (std::size_t i = 0; i < baseline.outputs.size(); ++i)
    if (!kept.contains(baseline.outputs[i])) outputs_.push_back(i);
  sums_.resize(outputs_.size());
  counts_.assign(outputs_.size(), true);
}

void ResultLoss::add(const std::vector<Tensor>& expected, const std::vector<std::optional<Tensor>>& found) {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Tensor& meant = expected[outputs_[i]];
    const Tensor& made = found[outputs_[i]] ? *found[outputs_[i]] : meant;
    counts_[i] = counts_[i] && graph::is_float(meant.type()) && graph::is_float(made.type()) &&
                 meant.shape() == made.shape();
    if (counts_[i]) sums_[i].add(meant.to_floats(), made.to_floats());
  }
}

std::optional<double> ResultLoss::sqnr_db() const {
  std::vector<double> all;
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (counts_[i]) all.push_back(sums_[i].result().sqnr_db);
  if (all.empty()) return {};
  if (all.size() == 1) return all[0];
  double share = 0;
  for (const double db : all) share += std::pow(10.0, -db / 10) / static_cast<double>(all.size());
  return crumb::sqnr_of(share);
}

BaselineRuns::BaselineRuns(const LayeredNetwork& baseline, const LayerSamples& samples,
                           const PrepareGraph& prepare, std::uint64_t bytes)
    : samples_(samples),
      executable_(prepare(baseline.graph())),
      bytes_(bytes),
      kept_(samples.pieces.size()) {}

void BaselineRuns::measure(const std::set<std::string>& values) {
  graph::Watch watch{
      .show = [&](const std::string& value, const Tensor& made) { sizes_[value] = made.byte_count(); },
      .wanted = values};
  const std::vector<Tensor> results = executable_->run(samples_.pieces.front(), watch);
  std::uint64_t all = 0;
  for (const Tensor& result : results) all += result.byte_count() * samples_.pieces.size();
  if (!results_.empty() || all > bytes_) return;
  bytes_ -= all;
  for (std::size_t i = 0; i < samples_.pieces.size(); ++i) {
    check_interrupt();
    results_.push_back(i == 0 ? results : executable_->run(samples_.pieces[i]));
  }
}

std::uint64_t BaselineRuns::bytes_of(const std::string& value) const {
  const auto found = sizes_.find(value);
  return found == sizes_.end() ? 0 : found->second;
}

void BaselineRuns::keep(const std::vector<std::set<std::string>>& wanted) {
  std::set<std::string> all;
  for (const std::set<std::string>& values : wanted) all.insert(values.begin(), values.end());
  measure(all);
  for (const std::set<std::string>& values : wanted) {
    std::uint64_t bytes = 0;
    bool is_known = true;
    for (const std::string& value : values) {
      is_known = is_known && sizes_.contains(value);
      if (!names_.contains(value)) bytes += bytes_of(value) * samples_.pieces.size();
    }
    if (!is_known || bytes > bytes_) continue;
    bytes_ -= bytes;
    names_.insert(values.begin(), values.end());
  }
  for (std::size_t i = 0; i < kept_.size() && !names_.empty(); ++i) kept_[i] = values(i, names_);
}

bool BaselineRuns::has(const std::set<std::string>& values) const {
  return std::ranges::all_of(values, [&](const std::string& value) {
    return names_.contains(value) &&
           std::ranges::all_of(kept_, [&](const auto& piece) { return piece.contains(value); });
  });
}

std::vector<Tensor> BaselineRuns::results(std::size_t piece) const {
  return results_.empty() ? executable_->run(samples_.pieces[piece]) : results_[piece];
}

std::map<std::string, Tensor> BaselineRuns::values(std::size_t piece,
                                                   const std::set<std::string>& wanted) const {
  check_interrupt();
  std::map<std::string, Tensor> made;
  executable_->run(
      samples_.pieces[piece],
      {.show = [&](const std::string& value, const Tensor& tensor) { made.insert_or_assign(value, tensor); },
       .wanted = wanted});
  return made;
}

}  // namespace crumb::jobs
