#include "jobs/squared_gradients.h"

#include "jobs/engines/open_engine.h"

namespace crumb::jobs {

ptq::SquaredGradientsOf squared_gradients_by(graph::SampleLoss loss, const std::string& device) {
  return [=](const graph::Graph& graph, const std::set<std::string>& constants, const graph::Batches& batches,
             std::size_t draws) {
    return open_gradient_engine().squared_gradients(
        graph, batches,
        {.constants = constants, .loss = loss, .draws = draws, .device = device.empty() ? "cpu" : device});
  };
}

}  // namespace crumb::jobs
