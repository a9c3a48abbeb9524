// Measures on samples what rounding one matrix costs a network, by which formats are chosen for a budget
// (quant/budget/budget.h).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "ptq/stages.h"

namespace crumb::ptq {

/// Which error a choice of formats minimizes.
enum class Sensitivity {
  kError,    ///< of the rounded weights or inputs: squared error over squares
  kHessian,  ///< of each layer's outputs: squared error over squares
  kKl,       ///< of predictions: their distance if a single weight or input is rounded to one of the formats
};

/// Returns the squared error over squares of a constant rounded by a spec. Precondition: the spec fits its
/// shape.
double own_error(const QuantSpec& spec, const graph::Tensor& constant, graph::MatrixAxes axes, int threads);

/// Returns the format to which weights and inputs are rounded, one at a time, to see the effect on
/// predictions: between the coarsest one, where one tensor can spoil everything, and the middle one, which
/// tells less about coarse ones. Precondition: there is one.
QuantSpec probe_of(std::vector<QuantSpec> formats);

/// The squared error of a layer's outputs over their squares, tr((Q - W) H (Q - W)^T) / tr(W H W^T), H being
/// the second moments of its inputs in the float network: for each layer (sampled_layers.h) of the plan, for
/// each of the specs that fit its shape.
using OutputErrors = std::map<std::string, std::map<std::string, double>>;  ///< by constant, by spec

/// Precondition: the setting has an engine and samples. Throws Error where values are not finite.
OutputErrors output_errors(const Setting& setting, const std::vector<QuantSpec>& specs);

/// A distance of a network's results from the float network's.
using Distance =
    std::function<double(const std::vector<graph::Tensor>& floats, const std::vector<graph::Tensor>& found)>;

/// Returns the squared error over the squares of all values.
double relative_distance(const std::vector<graph::Tensor>& floats, const std::vector<graph::Tensor>& found);

/// Returns the mean Kullback-Leibler divergence of predictions from logits [..., vocabulary], the first
/// result. Leaves out the first half of the positions, which have little context.
double prediction_distance(const std::vector<graph::Tensor>& floats, const std::vector<graph::Tensor>& found);

/// The float network's results on the first samples.
class FloatResults {
 public:
  /// Precondition: the setting outlives this.
  FloatResults(const Setting& setting, Distance distance, std::size_t samples);

  /// Returns the mean distance of another network's results.
  double distance_of(const graph::Graph& network) const;

 private:
  std::vector<std::vector<graph::Tensor>> results_of(const graph::Graph& network) const;

  const Setting& setting_;
  const Distance distance_;
  std::vector<std::vector<graph::Tensor>> inputs_, floats_;
};

/// Converts losses of one kind to another: by the measured distance for what was probed, else by the usual
/// ratio.
struct Proportion {
  double far = 0, own = 0;  ///< sums over what was probed

  void add(double distance, double loss);
  double usual() const { return own > 0 ? far / own : 1; }
  /// Returns the factor for a weight or input with this loss at the probe.
  double factor(double distance, double loss) const;
};

/// Returns the distance of the results if only one constant of the plan is rounded by `spec`, by its name;
/// without constants that it does not fit.
std::map<std::string, double> distances(const Setting& setting, const QuantSpec& spec,
                                        const FloatResults& floats);

}  // namespace crumb::ptq
