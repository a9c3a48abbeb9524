// Trains for the command line, behind an interface without LibTorch: first the float network, which then
// trains longer for comparison, then the same network with quantizers in the loop, which is frozen into a
// graph.
//
// Everything random in a run follows from its seed and its position, and the run computes on one thread: the
// same request gives the same bits, also when it was cut off and goes on from what it stored.
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

/// A run's phases: the float network; the same network trained longer, for as long as the quantized one and
/// in the same way, for comparison; the quantized network, which begins where the first phase ended.
inline constexpr std::string_view kFloatPhase = "float", kLongerPhase = "float longer",
                                  kQuantizedPhase = "quantized";

struct TrainRequest {
  std::string task;  ///< one of kTasks; kOwnTask: that of `own`
  std::shared_ptr<const OwnNetwork> own;
  std::string network;         ///< one of the task's; empty: its first
  std::filesystem::path data;  ///< the folder with data files
  Recipe recipe;
  /// Whether the first and the last layer have 8-bit weights and inputs, by rules after the recipe's.
  bool eight_bit_ends = true;
  /// Whether the first layer's input is not quantized, by a rule after the recipe's.
  bool float_input = false;
  /// Whether the task's network normalises its raw numbers with whole numbers and powers of two alone, and
  /// its input says which whole numbers they are. A user's own networks are taken as they are.
  bool fixed_point_input = false;
  bool all_layers = false;  ///< the recipe's accumulator goal holds for these two layers as well
  int epochs = -1;          ///< with quantizers; -1: the task's default
  int float_epochs = -1;    ///< before quantizers; -1: the task's default
  std::int64_t batch = 0;   ///< samples in a step; 0: the task's default
  double rate = 0;          ///< learning rate with quantizers, where the cosine begins; 0: the task's default
  std::uint64_t seed = 0;
  /// Only the first phase: TrainOutcome::float_network instead of a quantized one.
  bool float_only = false;
  bool float_longer = true;  ///< whether there is the second phase
  /// Widths of registers that wrap around and add up the inner layers' products, to be tried on the test set
  /// after training.
  std::vector<int> wrap_bits;
};

/// One line of a run's log.
struct EpochLine {
  std::string phase;                ///< kFloatPhase, kLongerPhase, kQuantizedPhase
  int epoch = 0;                    ///< from 1
  double loss = 0;                  ///< mean over the epoch
  double metric = 0;                ///< on the test set
  std::vector<double> others = {};  ///< of the outputs that learn after the first
};

struct TrainProgress {
  std::string_view phase;
  int epoch = 0, epochs = 0;
  double loss = 0;    ///< so far in this epoch
  double metric = 0;  ///< of the epoch before; NaN in the first
  double done = 0;    ///< share of all steps
};

/// What a run reports, and what it is given. All may be empty.
struct TrainHooks {
  std::function<void(const TrainProgress&)> progress;  ///< after every step
  /// Takes the network as it would be frozen before the first step; throws where training it is of no use.
  std::function<void(const graph::Graph&)> check;
  std::function<bool()> wants_state;  ///< called after every step: whether keep() shall be called
  std::function<void(const std::string& state)> keep;
  std::string state;  ///< what keep() was given; empty: from the beginning
  /// Whether runs of one process that differ only in their quantizers train their float network once.
  bool shares_float = false;
};

struct WrappedMetric {
  int bits = 0;
  double metric = 0;
};

/// Arrays by the names of inputs or outputs.
using NamedArrays = std::vector<std::pair<std::string, graph::Tensor>>;

/// The float network, and samples to quantize it and to score it by, along the network's own axes.
struct NetworkWithSamples {
  graph::Graph graph;
  NamedArrays calibration;      ///< of the training samples, at most kCalibrationSamples
  NamedArrays inputs, targets;  ///< of the test set; targets of outputs that have labels
};

/// The scores of one output that learns.
struct OutputScores {
  std::string name, metric;
  double weight = 1;
  bool is_held = false;  ///< to what the network of the file gives
  double float_metric = 0, quantized_metric = 0;
  std::optional<double> longer_metric;
};

inline constexpr std::int64_t kCalibrationSamples = 1024;

struct TrainOutcome {
  std::string metric;  ///< "accuracy", "psnr", "character accuracy", "mse" (less is better)
  double float_metric = 0, quantized_metric = 0;
  /// The float network's, after it trained as long and in the same way as the quantized one; none where the
  /// request leaves that out.
  std::optional<double> longer_metric;
  std::vector<OutputScores> outputs;  ///< where several learn: all of them, the first one's as above
  std::vector<std::pair<std::string, double>> references;  ///< methods without training: "bicubic"
  int epochs = 0, float_epochs = 0;
  std::string network, stands_for;  ///< the paper whose table it is a miniature of; "": none
  Recipe recipe;                    ///< with the rules for the first and the last layer
  graph::Graph quantized;
  std::optional<NetworkWithSamples>
      float_network;  ///< for a request with float_only; then nothing is quantized
  std::vector<std::pair<std::string, graph::Tensor>> float_weights;  ///< by name
  std::vector<EpochLine> log;
  std::vector<WrappedMetric> wrapped;
  std::optional<qat::LearnedWidths> widths;  ///< where they are learned
  std::optional<double> pruned;  ///< share of the elements of weights that have a goal; none where none has
  std::int64_t repaired = 0;     ///< steps of exact repair in the last epoch's passes
};

class Trainer {
 public:
  virtual ~Trainer() = default;

  /// Several threads may call it at once. Throws usage Error for an unknown task or network, and where the
  /// state is another request's; Error where data are missing or the recipe does not fit; Interrupted when a
  /// person asked to stop, after keep().
  virtual TrainOutcome train(const TrainRequest& request, const TrainHooks& hooks) = 0;
};

/// Returns the process's trainer.
Trainer& trainer();

}  // namespace crumb::tasks
