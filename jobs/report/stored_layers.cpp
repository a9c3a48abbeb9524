#include "jobs/report/stored_layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "analysis/accumulator/check.h"
#include "base/files/counted.h"
#include "export/qcdq/from_qcdq.h"
#include "graph/facts/lift_quantized.h"
#include "graph/onnx/read.h"
#include "jobs/report/page_parts.h"
#include "models/read_graph.h"
#include "quant/packed/packed_tensor.h"
#include "quant/quantizer.h"
#include "quant/tensor_source.h"

namespace crumb::jobs {
namespace {

constexpr std::uint64_t kMostWeights = std::uint64_t{1} << 21;  // that are counted of a layer
constexpr std::size_t kMostBars = 64, kMostLayers = 256;

/// Rows at even distances, and what is needed of them.
class CountedRows {
 public:
  explicit CountedRows(const QuantizedView& tensor) : decoder_(tensor) {
    const std::uint64_t columns = std::max<std::uint64_t>(decoder_.cols(), 1);
    const std::uint64_t most = std::max<std::uint64_t>(kMostWeights / columns, 1);
    step_ = std::max<std::uint64_t>((decoder_.rows() + most - 1) / most, 1);
    values_.resize(decoder_.cols());
    codes_.resize(decoder_.cols());
  }

  template <class Take>
  void each_row_of_values(Take take) {
    for (std::uint64_t row = 0; row < decoder_.rows(); row += step_) {
      decoder_.values(row, 0, values_);
      for (const float value : values_) take(static_cast<double>(value));
    }
  }

  /// Of every bit pattern how often it is there.
  std::array<std::uint64_t, 256> patterns() {
    std::array<std::uint64_t, 256> counts{};
    for (std::uint64_t row = 0; row < decoder_.rows(); row += step_) {
      decoder_.codes(row, 0, codes_);
      for (const std::uint8_t code : codes_) ++counts[code];
    }
    return counts;
  }

  const CodeGrid& grid() const { return decoder_.grid(); }

 private:
  RowDecoder decoder_;
  std::uint64_t step_ = 1;
  std::vector<float> values_;
  std::vector<std::uint8_t> codes_;
};

/// A bar for each code, in the order of what they stand for; neighbours together where there are many.
report::Histogram codes_of(const std::array<std::uint64_t, 256>& patterns, const CodeGrid& grid) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i <= grid.mask; ++i)
    if (!std::isnan(grid.values[i])) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return grid.values[i]; });
  report::Histogram made;
  if (order.empty()) return made;
  made.low = static_cast<double>(grid.values[order.front()]);
  made.high = static_cast<double>(grid.values[order.back()]);
  const std::size_t together = (order.size() + kMostBars - 1) / kMostBars;
  made.counts.resize((order.size() + together - 1) / together);
  for (std::size_t i = 0; i < order.size(); ++i) made.counts[i / together] += patterns[order[i]];
  return made;
}

report::Histogram values_of(CountedRows& rows) {
  report::Histogram made{.low = std::numeric_limits<double>::infinity(),
                         .high = -std::numeric_limits<double>::infinity(),
                         .counts = std::vector<std::uint64_t>(kMostBars)};
  rows.each_row_of_values([&](double value) {
    if (!std::isfinite(value)) return;
    made.low = std::min(made.low, value);
    made.high = std::max(made.high, value);
  });
  if (!(made.low <= made.high)) return {};
  const double width = made.high - made.low;
  rows.each_row_of_values([&](double value) {
    if (!std::isfinite(value)) return;
    const double share = width > 0 ? (value - made.low) / width : .5;
    ++made.counts[std::min(static_cast<std::size_t>(share * kMostBars), kMostBars - 1)];
  });
  return made;
}

void add_layer(const std::string& name, const std::string& format, const QuantizedView& tensor,
               std::uint64_t bytes, StoredModel& model) {
  StoredLayer& layer = model.layers.emplace_back(StoredLayer{.name = name, .format = format, .bytes = bytes});
  layer.shape.assign(tensor.shape.begin(), tensor.shape.end());
  layer.weights = element_count(layer.shape).take(name);
  report::LayerHistograms histograms = histograms_of(tensor);
  histograms.model = model.name;
  histograms.layer = name;
  histograms.format = format;
  model.histograms.push_back(std::move(histograms));
}

void add_packed(const CrumbFile& file, StoredModel& model) {
  for (const PackedTensor& tensor : file.header().tensors) {
    if (!tensor.encoding) continue;
    std::uint64_t bytes = 0;
    for (const std::optional<Blob>& part : tensor.parts) bytes += part ? part->raw : 0;
    add_layer(tensor.name, tensor.spec, LoadedTensor::load(file, tensor).take().view(), bytes, model);
  }
}

void add_network(const graph::Graph& network, StoredModel& model) {
  for (const auto& [name, constant] : network.quantized) {
    const QuantizedTensor& tensor = *constant.tensor;
    const EncodedLayout& layout = tensor.layout;
    add_layer(name, tensor.spec, tensor.view(),
              layout.codes_bytes + layout.scales_bytes + layout.zeros_bytes + layout.codebook_bytes +
                  layout.tensor_scale_bytes,
              model);
  }
}

}  // namespace

report::LayerHistograms histograms_of(const QuantizedView& tensor) {
  CountedRows rows(tensor);
  report::LayerHistograms made;
  const std::array<std::uint64_t, 256> patterns = rows.patterns();
  made.seen = std::accumulate(patterns.begin(), patterns.end(), std::uint64_t{0});
  made.all = tensor.layout.matrix.rows * tensor.layout.matrix.cols;
  // Palettes of a stack differ from matrix to matrix: then a code is its number.
  made.codes = codes_of(patterns, rows.grid());
  made.values = values_of(rows);
  return made;
}

StoredModel stored_model(const std::string& path) {
  StoredModel model{.name = file_name(path)};
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return model;
  if (std::filesystem::path(path).extension() == ".onnx") {
    add_network(graph::lift_quantized(exporting::in_qonnx(graph::read_onnx(path))), model);
  } else if (const TensorSource source = TensorSource::open(path); source.crumb()) {
    add_packed(*source.crumb(), model);
  }
  double bits = 0, weights = 0;
  for (const StoredLayer& layer : model.layers) {
    bits += 8 * static_cast<double>(layer.bytes);
    weights += static_cast<double>(layer.weights);
  }
  if (weights > 0) model.bits_a_weight = bits / weights;
  return model;
}

report::Table accumulators_of(const std::string& path) {
  report::Table table{
      .key = "accumulators",
      .title = "Accumulators",
      .note =
          "The bits that a register needs for every sum that the codes and the range of the input "
          "allow, and those that the file certifies.",
      .columns = {{"layer", "layer"},
                  {"operator", "operator"},
                  {"input", "input"},
                  {"terms", "terms", true},
                  {"worst_min", "worst min", true},
                  {"worst_max", "worst max", true},
                  {"bits_needed", "bits needed", true},
                  {"bits_certified", "certified", true},
                  {"reason", "not covered because"}}};
  const analysis::AccumulatorReport report =
      analysis::check_accumulators(exporting::in_qonnx(models::read_graph(path)));
  const auto number = [](const auto& value) {
    return value ? number_cell(static_cast<double>(*value), 0) : report::Cell();
  };
  for (const analysis::AccumulatorRow& row : report.layers) {
    const auto text = [](const std::optional<IntegerRange>& range) {
      return range ? std::to_string(range->low) + " to " + std::to_string(range->high) : std::string("?");
    };
    std::string input = text(row.input);
    if (row.weight) input += " x " + text(row.weight);
    table.rows.push_back({report::Cell(row.name),
                          report::Cell(row.operands.empty() ? row.op : row.op + " " + row.operands),
                          report::Cell(input), row.length == 0 ? report::Cell() : count_cell(row.length),
                          row.worst ? number_cell(static_cast<double>(row.worst->min), 0) : report::Cell(),
                          row.worst ? number_cell(static_cast<double>(row.worst->max), 0) : report::Cell(),
                          number(row.bits_needed), number(row.bits_certified), report::Cell(row.reason)});
  }
  return table;
}

report::Table stored_table(const std::vector<StoredModel>& models) {
  report::Table table{.key = "stored",
                      .title = "Layers with codes",
                      .note = "Bytes of codes and scales, before compression.",
                      .columns = {{"layer", "layer"},
                                  {"model", "model"},
                                  {"format", "format"},
                                  {"shape", "shape"},
                                  {"weights", "weights", true},
                                  {"bits", "bits a weight", true},
                                  {"bytes", "bytes", true}}};
  for (const StoredModel& model : models)
    for (const StoredLayer& layer : model.layers) {
      const auto weights = static_cast<double>(layer.weights);
      table.rows.push_back(
          {report::Cell(layer.name), report::Cell(model.name), report::Cell(layer.format),
           report::Cell(shape_text(layer.shape)), count_cell(layer.weights),
           weights > 0 ? number_cell(8 * static_cast<double>(layer.bytes) / weights, 3) : report::Cell(),
           count_cell(layer.bytes)});
    }
  return table;
}

void add_histograms(const std::vector<StoredModel>& models, report::Report& page) {
  std::vector<report::LayerHistograms> all;
  for (const StoredModel& model : models)
    all.insert(all.end(), model.histograms.begin(), model.histograms.end());
  if (all.size() > kMostLayers) {
    std::vector<std::uint64_t> sizes;
    for (const report::LayerHistograms& one : all) sizes.push_back(one.all);
    std::ranges::sort(sizes, std::ranges::greater());
    page.notes.push_back("Histograms are of the largest " + std::to_string(kMostLayers) + " of " +
                         count_text(all.size(), "layer") + ".");
    std::size_t equal =
        kMostLayers - static_cast<std::size_t>(std::ranges::count_if(
                          sizes, [&](std::uint64_t size) { return size > sizes[kMostLayers - 1]; }));
    std::erase_if(all, [&](const report::LayerHistograms& one) {
      if (one.all == sizes[kMostLayers - 1] && equal > 0) return --equal, false;
      return one.all <= sizes[kMostLayers - 1];
    });
  }
  page.histograms = std::move(all);
}

}  // namespace crumb::jobs
