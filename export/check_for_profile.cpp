#include "export/check_for_profile.h"

#include "export/hls4ml/layer_types.h"
#include "export/project/scores.h"
#include "export/qonnx/to_qonnx.h"

namespace crumb::exporting {

void check_for_profile(const graph::Graph& graph, const std::string& profile) {
  const Profile consumer = qonnx_profile_named(profile);
  if (consumer != Profile::kHls4ml) {
    (void)to_qonnx(graph, {.profile = consumer});
    return;
  }
  const graph::Graph scores = without_last_softmax(graph);
  hls4ml::refuse_inexact(hls4ml::types_of(to_qonnx(scores, {.profile = consumer})));
}

}  // namespace crumb::exporting
