// Training from the command line, behind an interface without LibTorch: first the float network, which is then trained on
// to be compared with, then the same network with quantizers in the loop, then the graph that it froze into.
//
// Everything that a run draws at random follows from its seed and from where it stands, and it computes on one thread:
// the same request gives the same bits, also when it was cut off and goes on from what it kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "qat/weights/learned_widths.h"
#include "quant/recipe/recipe.h"
#include "tasks/train/own_network.h"

namespace crumb::tasks {

inline constexpr std::string_view kTasks[] = {"digits", "jets", "ocr", "sr"};
inline constexpr std::string_view kOwnTask = "own";

/// A run's phases: the float network; the same trained on for as long as the quantized one and in the same way, to be
/// compared with it; the quantized network, which begins where the first ended.
inline constexpr std::string_view kFloatPhase = "float", kLongerPhase = "float longer",
                                  kQuantizedPhase = "quantized";

struct TrainRequest {
  std::string task;  ///< of kTasks; kOwnTask: `own`
  std::shared_ptr<const OwnNetwork> own;
  std::string network;         ///< of the task's; empty: its first
  std::filesystem::path data;  ///< the folder with data files
  Recipe recipe;
  /// Whether the first and the last layer have 8-bit weights and inputs, by rules behind the recipe's.
  bool eight_bit_ends = true;
  /// Whether the first layer takes what is not quantized, by a rule behind the recipe's.
  bool float_input = false;
  /// Whether the task's network takes its raw numbers by whole numbers and powers of two alone, and its input says which
  /// whole numbers they are. Networks of one's own do what they do.
  bool fixed_point_input = false;
  bool all_layers = false;  ///< the recipe's accumulator is for those two as well
  int epochs = -1;          ///< with quantizers; -1: the task's own
  int float_epochs = -1;    ///< before; -1: the task's own
  std::int64_t batch = 0;   ///< samples of a step; 0: the task's own
  double rate = 0;          ///< of learning, with quantizers, where the cosine begins; 0: the task's own
  std::uint64_t seed = 0;
  /// Only the first phase: TrainOutcome::float_network instead of a quantized one.
  bool float_only = false;
  /// Registers in which the products of the inner layers are added up, wrapping around, on the test set, when training
  /// is over.
  std::vector<int> wrap_bits;
};

/// One line of a run's log.
struct EpochLine {
  std::string phase;  ///< kFloatPhase, kLongerPhase, kQuantizedPhase
  int epoch = 0;      ///< from 1
  double loss = 0;    ///< mean of the epoch
  double metric = 0;  ///< on the test set
};

struct TrainProgress {
  std::string_view phase;
  int epoch = 0, epochs = 0;
  double loss = 0;    ///< so far in this epoch
  double metric = 0;  ///< of the epoch before; NaN in the first
  double done = 0;    ///< share of all steps
};

/// What a run tells, and what it is told. All may be empty.
struct TrainHooks {
  std::function<void(const TrainProgress&)> progress;  ///< after every step
  /// Given the network as it would be frozen before the first step; throws where it would be of no use.
  std::function<void(const graph::Graph&)> check;
  std::function<bool()> wants_state;  ///< asked after every step: whether keep() shall be called
  std::function<void(const std::string& state)> keep;
  std::string state;  ///< what keep() was given; empty: from the beginning
  /// Runs of one process that differ in what quantizes alone train their float network once.
  bool shares_float = false;
};

struct WrappedMetric {
  int bits = 0;
  double metric = 0;
};

/// The float network, and samples to quantize it and to score it by.
struct NetworkWithSamples {
  graph::Graph graph;
  graph::Tensor calibration;      ///< of the training samples, at most kCalibrationSamples
  graph::Tensor inputs, targets;  ///< of the test set
};

inline constexpr std::int64_t kCalibrationSamples = 1024;

struct TrainOutcome {
  std::string metric;  ///< "accuracy", "psnr", "character accuracy", "mse" (less is better)
  double float_metric = 0, quantized_metric = 0;
  double longer_metric =
      0;  ///< of the float network, trained on as long and in the same way as the quantized one
  std::vector<std::pair<std::string, double>> references;  ///< what needs no training: "bicubic"
  int epochs = 0, float_epochs = 0;
  std::string network, stands_for;  ///< of which paper's table it is a miniature; "": of none
  Recipe recipe;                    ///< with the rules for the first and the last layer
  graph::Graph quantized;
  std::optional<NetworkWithSamples>
      float_network;  ///< of a request that wants nothing else; then nothing is quantized
  std::vector<std::pair<std::string, graph::Tensor>> float_weights;  ///< by name
  std::vector<EpochLine> log;
  std::vector<WrappedMetric> wrapped;
  std::optional<qat::LearnedWidths> widths;  ///< where they are learned
  std::optional<double> pruned;  ///< share of the elements of weights that have a goal; none where none has
  std::int64_t repaired = 0;     ///< steps that the exact bound took in the last epoch's passes
};

class Trainer {
 public:
  virtual ~Trainer() = default;

  /// Several at once, from several threads. Throws usage Error where there is no such task or network, and where the
  /// state is that of another request; Error where data are missing, where the recipe does not fit, Interrupted
  /// when a person asked to stop, after keep().
  virtual TrainOutcome train(const TrainRequest& request, const TrainHooks& hooks) = 0;
};

/// One for the process.
Trainer& trainer();

}  // namespace crumb::tasks
