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

/// What of a network a choice of formats makes small.
enum class Sensitivity {
  kError,    ///< what is rounded itself: its squared error over its squares
  kHessian,  ///< each layer's outputs: the same of them
  kKl,       ///< predictions: how far they are where one thing alone is rounded to one of the formats
};

/// The squared error of a constant over its squares, rounded by a spec that fits its shape.
double own_error(const QuantSpec& spec, const graph::Tensor& constant, graph::MatrixAxes axes, int threads);

/// The format that things are rounded to, one at a time, to see what becomes of predictions: between the coarsest one, where one
/// tensor can spoil everything, and the middle one, which says less of what coarse ones do. Precondition: there is one.
QuantSpec probe_of(std::vector<QuantSpec> formats);

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

/// The float network's results on the first samples.
class FloatResults {
 public:
  /// The setting must outlive it.
  FloatResults(const Setting& setting, Distance distance, std::size_t samples);

  /// The mean of the distances of another network's results.
  double distance_of(const graph::Graph& network) const;

 private:
  std::vector<std::vector<graph::Tensor>> results_of(const graph::Graph& network) const;

  const Setting& setting_;
  const Distance distance_;
  std::vector<std::vector<graph::Tensor>> inputs_, floats_;
};

/// What brings losses of one kind to another: those of a thing that was probed by its own distance, others by what is usual.
struct Proportion {
  double far = 0, own = 0;  ///< sums over what was probed

  void add(double distance, double loss);
  double usual() const { return own > 0 ? far / own : 1; }
  /// Of a thing whose loss at the probe is this.
  double factor(double distance, double loss) const;
};

/// The distance of the results where each constant of the plan alone is rounded by `spec`, by name; without those that it
/// does not fit.
std::map<std::string, double> distances(const Setting& setting, const QuantSpec& spec,
                                        const FloatResults& floats);

}  // namespace crumb::ptq
