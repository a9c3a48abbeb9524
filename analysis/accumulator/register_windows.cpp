// Convolutions in registers, channels first and last: the windows that a node's attributes say.
#include <algorithm>

#include "analysis/accumulator/register_call.h"
#include "graph/window.h"

namespace crumb::analysis {
namespace {

WindowSteps steps_of(const RegisterCall& call, const Sizes& x) {
  const Sizes& w = call.layer.weight_shape();
  const bool is_transposed = call.layer.kind() == ProductLayer::Kind::kTransposed;
  const Sizes kernel(w.begin() + (is_transposed ? 3 : 2), w.end());
  if (x.size() < 3 || x.size() != kernel.size() + 2) {
    call.fail("cannot convolve shape " + graph::text_of(x) + " by a kernel of " + graph::text_of(kernel));
  }
  Sizes input(x.begin() + 2, x.end());
  if (!is_transposed) {
    graph::Window window = graph::window_of(call.node, input, kernel);
    return {std::move(input), std::move(window.output), std::move(window.strides),
            std::move(window.dilations), std::move(window.begin)};
  }
  Sizes strides = graph::sizes_attribute(call.node, "strides", kernel.size(), 1);
  Sizes dilations = graph::sizes_attribute(call.node, "dilations", kernel.size(), 1);
  graph::KeptResult kept = graph::kept_of(call.node, input, kernel, strides, dilations);
  return {std::move(input), std::move(kept.output), std::move(strides), std::move(dilations),
          std::move(kept.begin)};
}

}  // namespace

RegisterSums convolve_in_registers(const RegisterCall& call) {
  SimulatedLayer& layer = call.layer;
  const auto channels_first = [&](Integers x) {
    if (call.node.domain != graph::kChannelsLastDomain || x.rank() < 3) return x;
    return moved(x, x.rank() - 1, 1);
  };
  if (layer.has_computed_weight()) {
    Integers w = channels_first(call.codes_of(1, true));
    layer.set_codes(std::move(w.values), std::move(w.shape));
  }
  const Integers x = channels_first(call.codes_of(0, false));
  const WindowSteps steps = steps_of(call, x.shape);
  const Sizes& w = layer.weight_shape();
  const std::int64_t groups = std::max<std::int64_t>(1, call.node.int_or("group", 1)),
                     inputs = layer.kind() == ProductLayer::Kind::kTransposed ? w[0] * w[1] : w[1] * groups;
  if (x.shape[1] != inputs)
    call.fail("the input has " + std::to_string(x.shape[1]) + " channels, expected " +
              std::to_string(inputs));
  const auto channels = static_cast<std::int64_t>(layer.channels());
  if (channels % groups != 0)
    call.fail(std::to_string(channels) + " channels are no " + std::to_string(groups) + " equal groups");
  RegisterSums made{{{x.shape[0], channels}, {}}, {{1, channels}, layer.result_scale()}};
  made.sums.shape.insert(made.sums.shape.end(), steps.output.begin(), steps.output.end());
  made.scale.shape.resize(made.sums.rank(), 1);
  made.sums.values.resize(elements_of(made.sums.shape));
  layer.convolve(x.values, steps, made.sums.values, call.threads);
  if (layer.has_computed_weight()) made.scale = one_scale_of(layer);
  return made;
}

}  // namespace crumb::analysis
