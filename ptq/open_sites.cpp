#include "ptq/open_sites.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"

namespace crumb::ptq {

std::vector<ScalingSite> open_sites(const Stage& stage, const Setting& setting, bool of_norms) {
  std::set<std::string> rounded;
  for (const graph::PlannedConstant& constant : setting.plan.constants)
    if (constant.rounded) rounded.insert(constant.value);
  std::vector<ScalingSite> sites = scaling_sites(setting.graph);
  std::erase_if(sites, [&](const ScalingSite& site) {
    const auto is_rounded = [&](const ScaledConstant& constant) { return rounded.contains(constant.name); };
    return (site.is_norm && !of_norms) || std::ranges::any_of(site.sources, is_rounded) ||
           std::ranges::any_of(site.sinks, is_rounded);
  });
  if (sites.empty())
    throw Error("the stage " + stage.name + " finds no value between layers whose channels can be scaled");
  return sites;
}

}  // namespace crumb::ptq
