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
#include "ptq/settled_codes.h"
#include "ptq/split.h"

namespace crumb::ptq {
namespace {

struct Row {
  std::string_view name;
  StageReport (*run)(const Stage&, Setting&);
};

constexpr Row kRows[] = {{"adaround", adaround},
                         {"awq", awq},
                         {"batch_norm", batch_norm},
                         {"best", best},
                         {"bias_correction", bias_correction},
                         {"clip", clip},
                         {"equalize", equalize},
                         {"fisher", fisher},
                         {"gpfq", gpfq},
                         {"gptq", gptq},
                         {"low_rank", low_rank},
                         {"outliers", outliers},
                         {"qronos", qronos},
                         {"rotate", rotate},
                         {"smooth", smooth},
                         {"split", split}};

/// Of values in a network that is another in floats now: they are found anew.
void forget_ranges(graph::QuantPlan& plan) {
  for (graph::PlannedEdge& edge : plan.edges)
    if (edge.has_own_scale()) edge.scale = 0;
}

}  // namespace

void require_samples(const Stage& stage, const Setting& setting) {
  if (!setting.engine || !setting.samples)
    throw usage_error("the stage " + stage.name + " needs samples that run through the network: --data");
}

std::vector<StageReport> run_stages(const std::vector<Stage>& stages, Setting& setting) {
  std::vector<StageReport> reports;
  for (const Stage& stage : stages) {
    const Row* found = std::ranges::find(kRows, stage.name, &Row::name);
    if (found == std::end(kRows))
      throw usage_error("the stage " + quote_text(to_string(stage)) + " is for training (crumb train lm)");
    const SettledCodes settled(setting);
    reports.push_back(found->run(stage, setting));
    settled.expect_good(setting, stage);
    if (stage.info().in_floats != InFloats::kStays) forget_ranges(setting.plan);
  }
  return reports;
}

}  // namespace crumb::ptq
