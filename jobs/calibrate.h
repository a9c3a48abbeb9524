// Calibrates the quantizers of a network's activations on samples, before anything is quantized.
//
//   jobs::Observer silent;
//   const Recipe recipe = parse_recipe("activations: uint8:tensor", "my recipe");
//   const auto report = jobs::calibrate({.input = "net.onnx", .recipe = recipe, .data = {"x.npy"}}, silent);
//   for (const auto& [edge, use] : report.edges) print(edge.value, edge.scale, use.share_saturated());
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/quantize/compare.h"
#include "graph/quantize/plan.h"
#include "jobs/observer.h"
#include "quant/recipe/recipe.h"

namespace crumb::jobs {

struct CalibrateRequest {
  std::string input;  ///< an ONNX network, a TorchScript archive, or a checkpoint whose network is known
  Recipe recipe;      ///< without stages, since these change the activations
  std::vector<std::string> data;             ///< samples, as jobs/quantize.h has them; one at least
  std::vector<std::string> batch_axes = {};  ///< NAME=AXIS: inputs whose samples are not on axis 0
  std::size_t tokens = 0;                    ///< the first tokens of a text; 0: all
  std::string device;  ///< where samples run: "cuda"; "": the CPU, on the runtime where it can
  std::vector<std::string> arguments = {};  ///< of a TorchScript archive: NAME=VALUE, what is no tensor
  int threads = 0;                          ///< 0: those the machine has; the number never changes the result
};

struct CalibratedEdge {
  graph::PlannedEdge edge;  ///< the value, its spec, scale, zero point and the range that was seen
  graph::EdgeUse use;  ///< how many of the float network's values are cut off; 0 with a scale for each token
};

struct CalibrateReport {
  std::vector<CalibratedEdge> edges;  ///< in the order in which the network computes them
  std::vector<std::string> notes;     ///< what the observer was told
};

/// Returns where quantize() of the same network, recipe and samples puts quantizers of activations, and their
/// scales, when no stage changes the activations. Writes nothing. Throws Error, of kind kUsage where the
/// request contradicts itself or the input; throws Interrupted.
CalibrateReport calibrate(const CalibrateRequest& request, Observer& observer);

}  // namespace crumb::jobs
