// What it costs a network when one matrix is rounded, measured on samples: by which formats are chosen for a budget
// (quant/budget/budget.h).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// The squared error of a layer's outputs over their squares, tr((Q - W) H (Q - W)^T) / tr(W H W^T), H the second moments of what it
/// takes in the float network: for each layer (sampled_layers.h) of the plan, for each of the specs that fit its shape.
using OutputErrors = std::map<std::string, std::map<std::string, double>>;  ///< by constant, by spec

/// Precondition: the setting has an engine and samples. Throws Error where values are not finite.
OutputErrors output_errors(const Setting& setting, const std::vector<QuantSpec>& specs);

/// How far results of a network are from those of the float one.
using Distance =
    std::function<double(const std::vector<graph::Tensor>& floats, const std::vector<graph::Tensor>& found)>;

/// Of all values, the squared error over the squares.
double relative_distance(const std::vector<graph::Tensor>& floats, const std::vector<graph::Tensor>& found);

/// The mean Kullback-Leibler divergence of predictions, from logits [..., vocabulary], the first result; the first half of
/// the places, which have little before them, is left out.
double prediction_distance(const std::vector<graph::Tensor>& floats, const std::vector<graph::Tensor>& found);

/// The distance on the first samples where each constant of the plan alone is rounded by `spec`, by name; without those that it
/// does not fit.
std::map<std::string, double> distances(const Setting& setting, const QuantSpec& spec,
                                        const Distance& distance, std::size_t samples);

}  // namespace crumb::ptq
