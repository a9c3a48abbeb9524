// Quantizing without training: what a recipe's stages (quant/recipe/stages.h) do to a network before its
// constants become codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/batch_axes.h"
#include "graph/engine.h"
#include "graph/gradient_engine.h"
#include "graph/graph.h"
#include "graph/quantize/calibrate.h"
#include "graph/quantize/plan.h"
#include "quant/recipe/stages.h"

namespace crumb::ptq {

class LayerStore;

/// Computes graph::GradientEngine's squared gradients, of the loss that fits the samples.
using SquaredGradientsOf =
    std::function<graph::SquaredGradients(const graph::Graph&, const std::set<std::string>& constants,
                                          const graph::Batches& batches, std::size_t draws)>;

/// What a stage takes and changes. A stage that shrinks (quant/recipe/stages.h) finds no plan: what it leaves
/// in `graph`, prepared and with the same inputs and outputs, is then planned.
struct Setting {
  graph::Graph graph;     ///< float, prepared (graph::prepare); what stages add computes the same network
  graph::QuantPlan plan;  ///< the graph's: specs of constants that become codes, and codes so far
  int threads = 0;        ///< 0: as many as the machine has; results do not depend on it
  const graph::Engine* engine = nullptr;  ///< runs samples; null if there are none
  graph::Batches samples = {};            ///< inputs of the graph; empty if there are none
  graph::BatchAxes batch_axes = {};       ///< where inputs have samples
  std::uint64_t memory = std::uint64_t{1}
                         << 28;  ///< bytes of samples between layers; a temporary file takes more
  /// Called with layers done: before a stage's first layer, which may have been done earlier, and after each.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
  LayerStore* store = nullptr;                ///< stores codes chosen with samples; null: they stay in memory
  SquaredGradientsOf squared_gradients = {};  ///< empty if nothing computes them
  bool is_lenient =
      false;  ///< a layer whose samples hold inf or NaN keeps rounding, with a note; false: an Error
  bool rolls_back = false;  ///< undo a stage after which the outputs lose more on samples
  /// Constants with the nearest codes in a codebook that a stage found: a later stage may choose others with
  /// that codebook.
  std::set<std::string> palettes = {};
};

/// What a stage did to one matrix: squared errors relative to what `measure` names.
struct LayerReport {
  std::string layer;  ///< the constant
  double before = 0;  ///< with rounding alone
  double after = 0;
  std::optional<double> tried = std::nullopt;  ///< of stages that round: with the stage's codes, kept or not
};

struct StageReport {
  std::string stage;                ///< with its options
  std::string measure;              ///< what errors are relative to: "matrices", "outputs"
  std::vector<LayerReport> layers;  ///< in the graph's order
  std::vector<std::string> notes;   ///< for people
  /// Squared errors of the network's outputs over their squares before and after the stage (network_loss.h),
  /// if stages can be rolled back and it was measured.
  std::optional<double> loss_before = std::nullopt, loss_after = std::nullopt;
  bool rolled_back = false;  ///< the network lost more after the stage, which was undone
};

using RunStage = StageReport (*)(const Stage&, Setting&);

/// A stage of a program's own: recipes and quantizing know it for as long as this object lives
/// (OwnStageInfo).
class OwnStage {
 public:
  /// on_samples: it is refused where there are none.
  OwnStage(StageInfo info, RunStage run, bool on_samples = false);
  ~OwnStage();
  OwnStage(const OwnStage&) = delete;
  OwnStage& operator=(const OwnStage&) = delete;

 private:
  OwnStageInfo info_;
  std::string_view name_;
};

/// Runs stages that shrink, in order, before there is a plan. Throws as run_stages() does, and Error where
/// one changes names or number of the network's inputs or outputs.
std::vector<StageReport> shrink(const std::vector<Stage>& stages, Setting& setting);

/// Runs all stages in order; none of them shrinks. With `rolls_back`, undoes a stage after which the
/// network's outputs lose more on the samples, except stages that guarantee accumulator widths. Throws usage
/// Error, before any stage runs, where one is for training, lacks samples, or has options that exclude each
/// other; Error where one finds nothing to do.
std::vector<StageReport> run_stages(const std::vector<Stage>& stages, Setting& setting);

}  // namespace crumb::ptq
