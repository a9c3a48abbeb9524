#include "ptq/stages.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/files/text.h"
#include "ptq/precision/network_loss.h"
#include "ptq/rounding/adaround.h"
#include "ptq/rounding/best.h"
#include "ptq/rounding/clip.h"
#include "ptq/rounding/final_constants.h"
#include "ptq/rounding/fisher.h"
#include "ptq/rounding/gpfq.h"
#include "ptq/rounding/gptq.h"
#include "ptq/rounding/qronos.h"
#include "ptq/rounding/rounding_stage.h"
#include "ptq/transforms/awq.h"
#include "ptq/transforms/batch_norm.h"
#include "ptq/transforms/bias_correction.h"
#include "ptq/transforms/equalize.h"
#include "ptq/transforms/low_rank.h"
#include "ptq/transforms/outliers.h"
#include "ptq/transforms/rotate.h"
#include "ptq/transforms/split.h"

namespace crumb::ptq {
namespace {

struct Row {
  std::string_view name;
  RunStage run;
  bool on_samples = false;
  void (*check)(const Stage&, const Setting&) = nullptr;  ///< throws usage Error; null: all is well
  bool corrects = false;  ///< only improves the network's outputs: undone if they lose by it
};

/// Rounding happens when constants become codes.
StageReport rounding(const Stage& stage, Setting&) {
  return {.stage = to_string(stage), .measure = "matrices", .layers = {}, .notes = {}};
}

constexpr Row kRows[] = {{"adaround", adaround, true, check_register},
                         {"awq", awq, true},
                         {"batch_norm", batch_norm, true, nullptr, true},
                         {"best", best, true, check_register},
                         {"bias_correction", bias_correction, true, nullptr, true},
                         {"clip", clip, true, check_register},
                         {"equalize", equalize},
                         {"fisher", fisher, true, check_gradients},
                         {"gpfq", gpfq, true, check_register},
                         {"gptq", gptq, true, check_register},
                         {"low_rank", low_rank},
                         {"outliers", outliers, false, check_share},
                         {"qronos", qronos, true, check_register},
                         {"rotate", rotate},
                         {"rounding", rounding},
                         {"smooth", smooth, true},
                         {"split", split}};

std::vector<Row>& own_rows() {
  static std::vector<Row> rows;
  return rows;
}

const Row* find_row(std::string_view name) {
  if (const Row* found = std::ranges::find(kRows, name, &Row::name); found != std::end(kRows)) return found;
  const auto own = std::ranges::find(own_rows(), name, &Row::name);
  return own == own_rows().end() ? nullptr : &*own;
}

/// Ranges of values in another float network: they have to be found anew.
void forget_ranges(graph::QuantPlan& plan) {
  for (graph::PlannedEdge& edge : plan.edges)
    if (edge.has_own_scale()) edge.scale = 0;
}

/// Checks a stage before any runs: those before it may take hours.
const Row& checked_row(const Stage& stage, const Setting& setting) {
  const Row* found = find_row(stage.name);
  if (!found)
    throw usage_error("the stage " + quote_text(to_string(stage)) + " is for training (crumb train lm)");
  if (found->on_samples && (!setting.engine || !setting.samples))
    throw usage_error("the stage " + stage.name + " needs samples that run through the network: --data");
  if (found->check) found->check(stage, setting);
  return *found;
}

/// What a stage may change in a setting, as it was before.
struct Before {
  explicit Before(const Setting& setting)
      : graph(setting.graph), plan(setting.plan), palettes(setting.palettes) {}

  void bring_back(Setting& setting) {
    setting.graph = std::move(graph);
    setting.plan = std::move(plan);
    setting.palettes = std::move(palettes);
  }

  graph::Graph graph;
  graph::QuantPlan plan;
  std::set<std::string> palettes;
};

std::string decibels(double loss) {
  if (!std::isfinite(loss)) return "inf or NaN";
  if (!(loss > 0)) return "nothing";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f dB", -10 * std::log10(loss));
  return text;
}

/// A stage that prepares weights shows its worth after the rounding that follows, and a rounding method is a
/// request: the report has both figures for these. Nobody requests the usual rounding (lenient); a register
/// width is a guarantee.
bool may_be_undone(const Row& row, const Stage& stage, const Setting& setting) {
  return (row.corrects || setting.is_lenient) && !stage.options.contains("accumulator");
}

/// Runs one stage at a time and measures what the network loses.
class JudgedStages {
 public:
  explicit JudgedStages(Setting& setting)
      : setting_(setting), judges_(setting.rolls_back && setting.engine && setting.samples) {}

  StageReport run(const Row& row, const Stage& stage) {
    if (!judges_) return run_one(row, stage);
    if (!is_measured_) loss_ = network_loss(setting_);
    is_measured_ = true;
    if (!loss_) {
      StageReport report = run_one(row, stage);
      if (!stage.info().rounds && !std::exchange(is_said_, true))  // stages that round decide layer by layer
        report.notes.emplace_back(
            "not measured at the network's outputs: in floats it does not lie in memory as a whole");
      return report;
    }
    Before before(setting_);
    StageReport report = run_one(row, stage);
    report.loss_before = loss_;
    report.loss_after = network_loss(setting_);
    if (!report.loss_after) return report;  // the network grew too large to be measured
    if (!(*report.loss_after > *loss_) || !may_be_undone(row, stage, setting_)) {
      loss_ = report.loss_after;
      return report;
    }
    before.bring_back(setting_);
    report.rolled_back = true;
    report.notes.insert(report.notes.begin(), "rolled back: on the samples the network's outputs have " +
                                                  decibels(*report.loss_after) + " behind it, and " +
                                                  decibels(*loss_) + " without it");
    return report;
  }

 private:
  StageReport run_one(const Row& row, const Stage& stage) {
    const FinalConstants before(setting_);
    StageReport report = row.run(stage, setting_);
    before.expect_good(setting_, stage);
    if (stage.info().in_floats != InFloats::kStays) forget_ranges(setting_.plan);
    return report;
  }

  Setting& setting_;
  const bool judges_;
  bool is_measured_ = false, is_said_ = false;
  std::optional<double> loss_;
};

}  // namespace

OwnStage::OwnStage(StageInfo info, RunStage run, bool on_samples)
    : info_(std::move(info)), name_(stage_infos().back().name) {
  own_rows().push_back({.name = name_, .run = run, .on_samples = on_samples});
}

OwnStage::~OwnStage() {
  std::erase_if(own_rows(), [&](const Row& row) { return row.name == name_; });
}

std::vector<StageReport> shrink(const std::vector<Stage>& stages, Setting& setting) {
  std::vector<const Row*> rows;
  for (const Stage& stage : stages) rows.push_back(&checked_row(stage, setting));
  std::vector<StageReport> reports;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::vector<std::string> inputs = setting.graph.inputs, outputs = setting.graph.outputs;
    reports.push_back(rows[i]->run(stages[i], setting));
    if (setting.graph.inputs != inputs || setting.graph.outputs != outputs)
      throw Error("the stage " + quote_text(to_string(stages[i])) +
                  " gave the network other inputs or outputs; what shrinks keeps them");
  }
  return reports;
}

std::vector<StageReport> run_stages(const std::vector<Stage>& stages, Setting& setting) {
  for (const Stage& stage : stages)
    if (stage.info().in_floats == InFloats::kShrinks)
      throw usage_error("the stage " + quote_text(to_string(stage)) +
                        " makes a smaller network, which crumb quantize alone does, before it plans");
  std::vector<const Row*> rows;
  for (const Stage& stage : stages) rows.push_back(&checked_row(stage, setting));
  std::vector<StageReport> reports;
  JudgedStages judged(setting);
  for (std::size_t i = 0; i < stages.size(); ++i) reports.push_back(judged.run(*rows[i], stages[i]));
  return reports;
}

}  // namespace crumb::ptq
