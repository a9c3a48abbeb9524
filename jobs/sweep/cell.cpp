#include "jobs/sweep/cell.h"

#include <algorithm>
#include <new>

#include "analysis/cost/cost.h"
#include "base/files/inputs.h"
#include "base/seconds.h"
#include "graph/facts/bind_shapes.h"
#include "graph/qonnx/quantized_constants.h"
#include "jobs/engines/torchscript_file.h"
#include "jobs/network_report.h"
#include "jobs/quantize.h"
#include "models/read_graph.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using eval::GridRow;

constexpr double kFloatBits = 32;

/// Returns the widest register of all layers (nodes that multiply by weights); leaves out a width that some
/// layer lacks.
eval::RegisterBits widest_of(const analysis::GraphCost& cost) {
  eval::RegisterBits widest{.by_types = 0, .by_weights = 0, .exact = 0};
  const auto widen = [](std::optional<int>& most, std::optional<int> bits) {
    most = most && bits ? std::optional(std::max(*most, *bits)) : std::nullopt;
  };
  bool has_layers = false;
  for (const analysis::NodeCost& node : cost.nodes) {
    if (node.weights == 0) continue;
    has_layers = true;
    if (!node.accumulator) return {};
    widen(widest.by_types, node.accumulator->by_types);
    widen(widest.by_weights, node.accumulator->by_weights);
    widen(widest.exact,
          node.accumulator->exact ? std::optional(node.accumulator->exact->bits()) : std::nullopt);
  }
  return has_layers ? widest : eval::RegisterBits();
}

/// Adds the cost of one sample: open dimensions are 1, as in crumb cost.
void add_cost(const SweepRequest& request, graph::Graph graph, GridRow& row) {
  try {
    const analysis::GraphCost cost = analysis::cost_of(
        graph::bind_shapes(graph::lower_or_fold_quantized(std::move(graph)), request.shapes));
    row.bops = cost.dense.bops_qap;
    row.accumulator = widest_of(cost);
  } catch (const Error& error) {
    row.note += (row.note.empty() ? "" : "; ") + std::string("no cost: ") + error.what();
  }
}

std::string notes_of(const NetworkQuantization& network) {
  std::string notes;
  const auto add = [&](const std::string& note) { notes += (notes.empty() ? "" : "; ") + note; };
  for (const ptq::StageReport& stage : network.stages()) std::ranges::for_each(stage.notes, add);
  std::ranges::for_each(network.plan().notes, add);
  return notes;
}

/// Joins the lines of a message into one.
std::string in_one_line(const std::string& message) {
  std::string line;
  for (const char c : message) {
    if (c != '\n' && c != ' ')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return line;
}

GridRow failed(const SweepCell& cell, const std::string& why) {
  return {.format = cell.format,
          .activations = cell.activations,
          .method = cell.method,
          .note = in_one_line(why),
          .failed = true};
}

}  // namespace

GridRow SweptNetwork::float_row() const {
  const double start = now_seconds();
  GridRow row{.format = "float32", .activations = "keep", .method = "-", .scores = measure_.of_float()};
  row.bits = kFloatBits;
  row.bytes = 0;
  for (const fs::path& path : source_.paths) *row.bytes += fs::file_size(path);
  add_cost(request_, is_torchscript(request_.input) ? source_.graph : models::read_graph(request_.input),
           row);
  row.seconds = now_seconds() - start;
  return row;
}

GridRow SweptNetwork::row(const SweepCell& cell, const fs::path& file) const {
  const double start = now_seconds();
  GridRow row{.format = cell.format, .activations = cell.activations, .method = cell.method};
  try {
    fill(cell, file, row);
  } catch (const Error& error) {
    row = failed(cell, error.what());
  } catch (const std::bad_alloc&) {
    row = failed(cell, "out of memory");
  }
  if (row.failed || !request_.keep_files) {
    refuse_input(file);
    fs::remove(file);
  }
  row.seconds = now_seconds() - start;
  return row;
}

void SweptNetwork::fill(const SweepCell& cell, const fs::path& file, GridRow& row) const {
  {
    NetworkQuantization network(source_, cell.recipe,
                                {.data = request_.data,
                                 .batch_axes = request_.batch_axes,
                                 .tokens = request_.tokens,
                                 .pairs = request_.pairs,
                                 .device = request_.device,
                                 .threads = request_.threads,
                                 .plan = plan_options_of(exporting::Profile::kQonnx, cell.recipe)},
                                observer_);
    const graph::Graph quantized = network.run();
    const double bits = bits_a_weight(reports_of(network.prepared(), network.plan(), nullptr));
    if (bits > 0) row.bits = bits;
    row.note = notes_of(network);
    write_packed_network(source_, quantized, cell.recipe, file, network.changed_files());
  }
  row.bytes = fs::file_size(file);
  if (request_.keep_files) row.file = file.filename().string();
  add_cost(request_, models::read_graph(file), row);
  row.scores = measure_.of(file.string());
}

}  // namespace crumb::jobs
