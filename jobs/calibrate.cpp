#include "jobs/calibrate.h"

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "jobs/network_quantization.h"

namespace crumb::jobs {
namespace {

void refuse_what_changes_values(const CalibrateRequest& request, const Observer& observer) {
  if (request.data.empty())
    throw usage_error("calibrating needs " + observer.spelled("data") +
                      ", samples like those that the network will see");
  if (!request.recipe.stages.empty())
    throw usage_error("the stage " + request.recipe.stages.front().name +
                      " may change what flows, and the network is calibrated as it is; expected a recipe "
                      "without stages");
  refuse_training_fields(request.recipe);
}

}  // namespace

CalibrateReport calibrate(const CalibrateRequest& request, Observer& observer) {
  const InputWatch watch;
  refuse_what_changes_values(request, observer);
  refuse_packed(request.input);
  Notes notes(observer);
  const NetworkSource source = open_network(request.input, "its activations are to be calibrated", notes,
                                            {.inputs = request.data,
                                             .inputs_field = observer.spelled("data"),
                                             .arguments = request.arguments,
                                             .batch_axes = request.batch_axes});
  NetworkQuantization network(source, request.recipe,
                              {.data = request.data,
                               .batch_axes = request.batch_axes,
                               .tokens = request.tokens,
                               .device = request.device,
                               .threads = request.threads,
                               .plan = plan_options_of(exporting::Profile::kQonnx, request.recipe)},
                              observer);
  network.calibrate();
  const std::vector<graph::EdgeUse> uses = network.uses_of_edges();
  CalibrateReport report;
  const graph::QuantPlan& plan = network.plan();
  for (std::size_t i = 0; i < plan.edges.size(); ++i) report.edges.push_back({plan.edges[i], uses[i]});
  for (const std::string& note : plan.notes) notes.say(note);
  report.notes = notes.all();
  return report;
}

}  // namespace crumb::jobs
