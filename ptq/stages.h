// Quantizing without training: what a recipe's stages (quant/recipe/stages.h) do to a network before its constants become codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/engine.h"
#include "graph/gradient_engine.h"
#include "graph/graph.h"
#include "graph/quantize/calibrate.h"
#include "graph/quantize/plan.h"
#include "quant/recipe/stages.h"

namespace crumb::ptq {

class LayerStore;

/// graph::GradientEngine's, by the loss that the samples have.
using SquaredGradientsOf =
    std::function<graph::SquaredGradients(const graph::Graph&, const std::set<std::string>& constants,
                                          const graph::Batches& batches, std::size_t draws)>;

/// What a stage finds, and changes.
struct Setting {
  graph::Graph graph;     ///< in floats, prepared (graph::prepare); what stages add computes the same network
  graph::QuantPlan plan;  ///< made for it: what will become codes, of which spec, and codes that stages chose
  int threads = 0;        ///< 0: those the machine has; never changes a number
  const graph::Engine* engine = nullptr;  ///< that samples run on; null where there are none
  graph::Batches samples = {};            ///< inputs of the graph; empty where there are none
  std::uint64_t memory = std::uint64_t{1}
                         << 28;  ///< bytes of samples on their way; more lie in a temporary file
  /// Layers: before a stage's first, where some may be done, and as they are done.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
  LayerStore* store = nullptr;  ///< of codes that were found on samples; null: they stay in memory
  SquaredGradientsOf squared_gradients = {};  ///< empty where nothing makes them
  bool is_lenient =
      false;  ///< a layer that takes inf or NaN on samples keeps rounding, and a note says so; else Error
  bool rolls_back = false;  ///< a stage behind which the outputs lose more on samples is undone
  /// Constants whose codes are the nearest in a codebook that a stage found: one behind it may choose others under that codebook.
  std::set<std::string> palettes = {};
};

/// What a stage did to one matrix: a squared error, as a share of what it is an error of.
struct LayerReport {
  std::string layer;  ///< the constant
  double before = 0;  ///< rounded alone
  double after = 0;
  std::optional<double> tried = std::nullopt;  ///< of stages that round: by what the stage found, kept or not
};

struct StageReport {
  std::string stage;                ///< with its options
  std::string measure;              ///< what the errors are of: "matrices", "outputs"
  std::vector<LayerReport> layers;  ///< as the graph has them
  std::vector<std::string> notes;   ///< what a person should know
  /// What the network's outputs lose before it and behind it, squared errors over their squares (network_loss.h); where stages are
  /// rolled back, and it was measured.
  std::optional<double> loss_before = std::nullopt, loss_after = std::nullopt;
  bool rolled_back = false;  ///< the network lost more behind it, and is what it was before
};

/// All of them, in order. Where `rolls_back`, one behind which the network's outputs lose more on the samples leaves it as it was,
/// but for those that keep registers. Throws usage Error, before any works, where one is of training, lacks samples, or has options that do not
/// go together; Error where one finds nothing to do.
std::vector<StageReport> run_stages(const std::vector<Stage>& stages, Setting& setting);

}  // namespace crumb::ptq
