#include "cli/consumer_profile.h"

#include <algorithm>

#include "export/hls4ml/layer_types.h"
#include "export/project/scores.h"
#include "export/qonnx/to_qonnx.h"
#include "quant/quant_spec.h"

namespace crumb::cli {

void use_profile(const std::string& profile, RecipeFlags& flags) {
  const bool is_scheme =
      std::ranges::any_of(schemes(), [&](const Scheme& scheme) { return scheme.name == profile; });
  if (is_scheme) flags.base = profile;
}

void check_for_profile(const graph::Graph& graph, const std::string& profile) {
  const exporting::Profile consumer = exporting::qonnx_profile_named(profile);
  if (consumer != exporting::Profile::kHls4ml) {
    (void)exporting::to_qonnx(graph, {.profile = consumer});
    return;
  }
  const graph::Graph scores = exporting::without_last_softmax(graph);
  exporting::hls4ml::refuse_inexact(
      exporting::hls4ml::types_of(exporting::to_qonnx(scores, {.profile = consumer})));
}

}  // namespace crumb::cli
