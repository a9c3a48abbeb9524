#include "cli/train/usual_rate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/text/fixed.h"
#include "base/text/number.h"
#include "graph/quantize/plan.h"
#include "ptq/rounding/rounding_errors.h"
#include "runtime/engine.h"

namespace crumb::cli {
namespace {

/// Rates over the relative error: the best ones for SmolLM2 and MiniLM at two to four bits
/// (docs/recovery.md).
constexpr double kFromRounding = 0.001, kBehindCodes = 0.0004;
constexpr double kLeast = 1e-5;

/// Returns the mean over all matrices that become codes; 0 where none does.
double share_lost(const tasks::LanguageRequest& request) {
  const runtime::Engine engine(request.compute.threads);
  ptq::Setting setting{.graph = graph::prepare(request.network, request.recipe, &engine),
                       .plan = {},
                       .threads = request.compute.threads};
  setting.plan = graph::plan_quantizers(setting.graph, request.recipe);
  const std::map<std::string, double> errors = ptq::rounding_errors(setting);
  double all = 0;
  for (const auto& [matrix, error] : errors) all += error;
  return errors.empty() ? 0 : all / static_cast<double>(errors.size());
}

double in_two_digits(double rate) {
  const int behind_point = rate < 1e-4 ? 6 : 5;
  return parse_number<double>(fixed(rate, behind_point)).value_or(rate);
}

}  // namespace

UsualRate usual_rate(const tasks::LanguageRequest& request) {
  if (request.steps.scales_alone || !request.supervision.has_floats) return {};
  const double lost = share_lost(request);
  if (lost == 0) return {};
  const double wanted = std::sqrt(lost) * (request.start.network ? kBehindCodes : kFromRounding);
  return {.rate = in_two_digits(std::clamp(wanted, kLeast, kFloatRate)), .lost = lost};
}

}  // namespace crumb::cli
