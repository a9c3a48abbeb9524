#include "ptq/stages.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/files/text.h"
#include "ptq/adaround.h"
#include "ptq/awq.h"
#include "ptq/batch_norm.h"
#include "ptq/best.h"
#include "ptq/bias_correction.h"
#include "ptq/clip.h"
#include "ptq/equalize.h"
#include "ptq/fisher.h"
#include "ptq/gpfq.h"
#include "ptq/gptq.h"
#include "ptq/low_rank.h"
#include "ptq/outliers.h"
#include "ptq/qronos.h"
#include "ptq/rotate.h"
#include "ptq/rounding_stage.h"
#include "ptq/settled_codes.h"
#include "ptq/split.h"

namespace crumb::ptq {
namespace {

struct Row {
  std::string_view name;
  StageReport (*run)(const Stage&, Setting&);
  bool on_samples = false;
  void (*check)(const Stage&, const Setting&) = nullptr;  ///< throws usage Error; null: all is well
};

constexpr Row kRows[] = {{"adaround", adaround, true, check_register},
                         {"awq", awq, true},
                         {"batch_norm", batch_norm, true},
                         {"best", best, true, check_register},
                         {"bias_correction", bias_correction, true},
                         {"clip", clip, true, check_register},
                         {"equalize", equalize},
                         {"fisher", fisher, true, check_gradients},
                         {"gpfq", gpfq, true, check_register},
                         {"gptq", gptq, true, check_register},
                         {"low_rank", low_rank},
                         {"outliers", outliers, false, check_share},
                         {"qronos", qronos, true, check_register},
                         {"rotate", rotate},
                         {"smooth", smooth, true},
                         {"split", split}};

/// Of values in a network that is another in floats now: they are found anew.
void forget_ranges(graph::QuantPlan& plan) {
  for (graph::PlannedEdge& edge : plan.edges)
    if (edge.has_own_scale()) edge.scale = 0;
}

/// What can be said of a stage before any works: those before it may take hours.
const Row& checked_row(const Stage& stage, const Setting& setting) {
  const Row* found = std::ranges::find(kRows, stage.name, &Row::name);
  if (found == std::end(kRows))
    throw usage_error("the stage " + quote_text(to_string(stage)) + " is for training (crumb train lm)");
  if (found->on_samples && (!setting.engine || !setting.samples))
    throw usage_error("the stage " + stage.name + " needs samples that run through the network: --data");
  if (found->check) found->check(stage, setting);
  return *found;
}

}  // namespace

std::vector<StageReport> run_stages(const std::vector<Stage>& stages, Setting& setting) {
  std::vector<const Row*> rows;
  for (const Stage& stage : stages) rows.push_back(&checked_row(stage, setting));
  std::vector<StageReport> reports;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const SettledCodes settled(setting);
    reports.push_back(rows[i]->run(stages[i], setting));
    settled.expect_good(setting, stages[i]);
    if (stages[i].info().in_floats != InFloats::kStays) forget_ranges(setting.plan);
  }
  return reports;
}

}  // namespace crumb::ptq
