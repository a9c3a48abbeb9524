#include "ptq/transforms/open_sites.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ptq/matrices/finite_constants.h"
#include "ptq/rounding/final_constants.h"

namespace crumb::ptq {
namespace {

void expect_finite(const Stage& stage, const graph::Graph& graph, const ScalingSite& site) {
  for (const std::vector<ScaledConstant>* constants : {&site.sources, &site.sinks})
    for (const ScaledConstant& constant : *constants) require_finite(stage.name, graph, constant.name);
}

}  // namespace

std::vector<ScalingSite> open_sites(const Stage& stage, const Setting& setting, bool of_norms) {
  std::vector<ScalingSite> sites = scaling_sites(setting.graph);
  std::erase_if(sites, [&](const ScalingSite& site) { return site.is_norm && !of_norms; });
  const std::size_t have_codes = std::erase_if(sites, [&](const ScalingSite& site) {
    const auto is_rounded = [&](const ScaledConstant& constant) { return has_codes(setting, constant.name); };
    return std::ranges::any_of(site.sources, is_rounded) || std::ranges::any_of(site.sinks, is_rounded);
  });
  if (!sites.empty()) {
    for (const ScalingSite& site : sites) expect_finite(stage, setting.graph, site);
    return sites;
  }
  std::string why;
  if (have_codes > 0)
    why = ": of " + std::to_string(have_codes) +
          " that there are the layers have their codes already; put the stage before those that round (" +
          "as in " + stage.name + ",gptq)";
  throw Error("the stage " + stage.name + " finds no value between layers whose channels can be scaled" +
              why);
}

}  // namespace crumb::ptq
