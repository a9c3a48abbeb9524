#include "ptq/rounding/fisher.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/batches.h"
#include "graph/strided_index.h"
#include "ptq/matrices/weight_rows.h"
#include "ptq/rounding/output_error.h"
#include "ptq/rounding/weighed_codebook.h"

namespace crumb::ptq {
namespace {

using graph::PlannedConstant;
using graph::Tensor;

/// Returns the samples one at a time, if the graph takes them so.
graph::Batches one_by_one(const Setting& setting) {
  return [&setting](const auto& batch) {
    setting.samples([&](const std::vector<Tensor>& inputs) {
      const graph::BatchPlan plan = graph::plan_batch(setting.graph, inputs, 1, setting.batch_axes);
      for (std::int64_t begin = 0; begin == 0 || begin < plan.total; begin += plan.piece) {
        check_interrupt();
        if (plan.whole()) return batch(inputs);
        batch(graph::piece_of(setting.graph, inputs, plan, begin, plan.piece));
      }
    });
  };
}

/// A constant's weights, and the costs of their squared errors.
class WeighedRows {
 public:
  WeighedRows(const Tensor& tensor, const PlannedConstant& constant, std::vector<float> squares)
      : rows_(weight_rows(tensor, constant.axes)), squares_(std::move(squares)) {
    if (!std::ranges::is_sorted(rows_.axes))
      squares_ = graph::permuted(squares_, tensor.shape(), graph::inverse(rows_.axes));
    for (const float square : squares_) all_ += static_cast<double>(square);
  }

  const WeightRows& rows() const { return rows_; }
  bool is_reached() const { return all_ > 0; }
  void damp(double share) { added_ = share * all_ / static_cast<double>(squares_.size()); }
  double importance(std::size_t weight) const { return static_cast<double>(squares_[weight]) + added_; }

  /// Returns the weighed squared error of codes over the weighed squares.
  double share_lost(const FixedScales& scales, std::span<const std::uint8_t> codes) const {
    double lost = 0, all = 0;
    for (std::size_t i = 0; i < rows_.values.size(); ++i) {
      const auto weight = static_cast<double>(rows_.values[i]);
      const auto made =
          static_cast<double>(scales.value(i / scales.columns(), i % scales.columns(), codes[i]));
      lost += importance(i) * (made - weight) * (made - weight);
      all += importance(i) * weight * weight;
    }
    return all > 0 ? lost / all : 0;
  }

 private:
  WeightRows rows_;
  std::vector<float> squares_;
  double all_ = 0, added_ = 0;
};

/// A codebook, and the nearest codes.
struct Palette {
  FixedScales scales;
  std::vector<std::uint8_t> codes;
  double lost;

  Palette(FixedScales found, const WeighedRows& weights, int threads)
      : scales(std::move(found)),
        codes(nearest_codes(scales, weights.rows().values, threads)),
        lost(weights.share_lost(scales, codes)) {}
};

class PaletteSearch {
 public:
  PaletteSearch(const Stage& stage, Setting& setting)
      : setting_(setting),
        damping_(stage.value("damp")),
        report_{.stage = to_string(stage), .measure = "weights by gradients", .layers = {}, .notes = {}} {}

  void find(PlannedConstant& constant, std::vector<float> squares) {
    check_interrupt();
    WeighedRows weights(setting_.graph.initializers.at(constant.value), constant, std::move(squares));
    if (!weights.is_reached()) {
      report_.notes.push_back(constant.value + ": no gradient reaches it, and rounding stays");
      return;
    }
    weights.damp(damping_);
    const std::vector<float>& values = weights.rows().values;
    const FixedScales start(*constant.spec, values, weights.rows().shape, constant.value, setting_.threads);
    const Palette by_spec(start, weights, setting_.threads);
    FixedScales scales = start;
    find_codebook(scales, values, [&](std::size_t row, std::size_t column) {
      return weights.importance(row * start.columns() + column);
    });
    const Palette found(std::move(scales), weights, setting_.threads);
    const Palette& best =
        found.lost <= by_spec.lost ? found : by_spec;  // of very many weights, k-means sees bins
    report_.layers.push_back({.layer = constant.value, .before = by_spec.lost, .after = best.lost});
    constant.rounded = {.tensor = std::make_shared<const QuantizedTensor>(best.scales.with_codes(best.codes)),
                        .axes = weights.rows().axes};
    setting_.palettes.insert(constant.value);
  }

  /// others: the number of constants with other specs.
  StageReport report(std::size_t others) && {
    if (others > 0)
      report_.notes.push_back(count_text(others, "constant") + " of other specs " +
                              (others == 1 ? "keeps" : "keep") + " rounding");
    return std::move(report_);
  }

 private:
  Setting& setting_;
  const double damping_;
  StageReport report_;
};

}  // namespace

void check_gradients(const Stage&, const Setting& setting) {
  if (!setting.squared_gradients) throw usage_error("the stage fisher has nothing here that makes gradients");
}

StageReport fisher(const Stage& stage, Setting& setting) {
  std::vector<PlannedConstant*> palettes, others;
  for (PlannedConstant& constant : setting.plan.constants)
    if (constant.spec && !constant.rounded)  // a stack, which has a palette for each matrix, keeps rounding
      (constant.spec->number->learned && constant.axes.stack == 0 ? palettes : others).push_back(&constant);
  if (palettes.empty())
    throw Error("the stage fisher finds no palette (palette1 to palette8) that has no codes yet" +
                (others.empty()
                     ? ""
                     : ", found " + others[0]->spec->to_string() + " for " + quote_text(others[0]->value)));
  std::set<std::string> names;
  for (const PlannedConstant* palette : palettes) names.insert(palette->value);
  if (setting.progress) setting.progress(0, palettes.size());
  graph::SquaredGradients squares = setting.squared_gradients(setting.graph, names, one_by_one(setting),
                                                              static_cast<std::size_t>(stage.value("draws")));
  PaletteSearch search(stage, setting);
  std::size_t done = 0;
  for (PlannedConstant* palette : palettes) {
    search.find(*palette, std::move(squares.at(palette->value)));
    if (setting.progress) setting.progress(++done, palettes.size());
  }
  return std::move(search).report(others.size());
}

}  // namespace crumb::ptq
