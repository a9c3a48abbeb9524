// Which layers of a model, put back to eight bits or to floats, bring its results nearest to the baseline's.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "jobs/evaluate/layers/changed_network.h"
#include "jobs/evaluate/layers/layer_runs.h"
#include "jobs/evaluate_layer.h"

namespace crumb::jobs {

/// A layer to put back.
struct AdvisedLayer {
  LayerPair pair;
  std::string name;                    ///< EvaluateLayer's
  std::vector<std::string> constants;  ///< EvaluateLayer's
};

/// SQNR of the results of a changed model (ResultLoss).
using MeasureModel = std::function<std::optional<double>(const graph::Graph& changed)>;

/// Tries each layer with weights of int8:channel, where it has fewer bits, and in floats; of both takes the
/// eight bits where they gain nearly as much. Puts the advice, its best `most`, and what it gains together
/// into `made`, whose sqnr_db is the model's own. What gains less than a hundredth of a dB is left out.
void advise(const std::vector<AdvisedLayer>& layers, std::size_t most, const MeasureModel& measure,
            int threads, EvaluateLayers& made);

/// "--set 'conv1.weight=int8:channel'": a flag of crumb quantize that reaches this constant alone, quoted for
/// a shell.
std::string set_flag(const std::string& constant, const std::string& spec);

}  // namespace crumb::jobs
