// Trains decoders and sentence encoders with quantizers in the loop, behind an interface without LibTorch.
// Every weight, scale and gain learns, end to end, to predict what the float network predicts, or the next
// token, or to give the float network's vectors.
//
// The float network's predictions for every token of a text are worth more than the text (distillation of
// logits, Hinton et al., arXiv:1503.02531; LLM-QAT, Liu et al., arXiv:2305.17888): they restore a two-bit
// network that rounding destroyed.
//
// Everything random follows from the seed and the step: the same request gives the same bits on the same kind
// of processor with as many threads, also when it was cut off and goes on from what it stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "graph/adapters.h"
#include "graph/graph.h"
#include "qat/adapter_options.h"
#include "quant/recipe/recipe.h"
#include "tasks/language/request/language_choices.h"
#include "tasks/language/steps/loss_watch.h"
#include "tasks/language/steps/rate_schedule.h"
#include "tasks/language/text/language_text.h"

namespace crumb::tasks {

/// Trains layers one after the other, before all of them together. From what the quantized layers before it
/// give, each layer learns to give what the float layer gives from the float layers' outputs (EfficientQAT,
/// Chen et al. 2024, arXiv:2407.11062). The error of a token is relative to the token's own size, and a
/// sequence's first token is left out: a few tokens have states that are hundreds of times as large as the
/// others'.
struct BlockWise {
  std::int64_t passes = 0;      ///< passes over the sequences; 0: no block-wise training
  std::int64_t sequences = 40;  ///< the first ones of the text
  double rate = 3e-4;           ///< AdamW's
  double scale_rate = 1e-3;     ///< for the scales of codes
  bool scales_alone =
      false;  ///< codes of LanguageRequest::start.network stay; scales, norms and floats learn
  /// Weights move by the signs of their gradients instead. All steps together make at most half a step of the
  /// grid, so that each weight is rounded to one of the two nearest values (SignRound, Cheng et al. 2023,
  /// arXiv:2309.05516). `rate` is for everything else.
  bool signs = false;
};

/// Trains an adapter on a frozen base, instead of the network itself.
struct Recovery {
  graph::Graph base;  ///< the quantized decoder as in its file, with the inputs of the request's network
  qat::AdapterOptions options;
  AdapterStart start = AdapterStart::kZero;
  AdapterRanks ranks = AdapterRanks::kEven;
  graph::AdapterType type = graph::AdapterType::kBfloat16;  ///< the type in which it is stored in the end
};

/// The float network's predictions, stored in a file (tasks/language/teachers/kept_teacher.h); for
/// LanguageLoss::kDivergence.
struct TeacherFile {
  std::filesystem::path file;  ///< empty: the network is in memory
  std::int64_t top = 64;       ///< tokens for each position, when the file is made
};

/// What a network trains on and is measured on. Of a decoder texts, of an encoder lines.
struct LanguageSamples {
  LanguageText text;   ///< at least a sequence
  std::string drawn;   ///< how the text was drawn from the network, for states; empty: it was not
  LanguageText valid;  ///< to measure by, at least a sequence; empty: nothing is measured
  std::vector<std::vector<std::int64_t>> lines, valid_lines;  ///< of each line its tokens
  std::size_t unpooled = 0;  ///< first tokens of each line that the encoder's pooling leaves out: a prompt's
  std::optional<std::int64_t> first;  ///< the token in front of every sequence, where the tokenizer puts one
  std::int64_t length = 512;          ///< tokens of a sequence, the first one included
};

/// The network in codes that training begins with, in place of the one in floats, from which it then only
/// learns.
struct LanguageStart {
  std::optional<graph::Graph> network;
  std::string by;  ///< the stages that made it, for states and reports; empty: none did
};

/// What the network learns from.
struct Supervision {
  LanguageLoss loss = LanguageLoss::kDivergence;
  TeacherFile teacher = {};
  /// False: the request's network is the recovery's base, or has drawn weights: there is nothing to learn
  /// from.
  bool has_floats = true;
  double temperature = 1;  ///< of both networks' logits, of kDivergence
};

struct LanguageSteps {
  std::int64_t count = 240;
  std::int64_t batch = 4;       ///< sequences, or lines, of a step
  std::int64_t at_once = 0;     ///< sequences that run at a time: gradients of a step add up; 0: all
  bool recomputes = false;      ///< what is inside layers, in the backward pass, instead of keeping it
  bool scales_alone = false;    ///< codes stay as they are; scales learn, norms, and what is in floats
  bool learn_adapters = false;  ///< those of the start learn along, else they stay as they are
  std::uint64_t seed = 0;       ///< of the order of sequences
};

/// AdamW.
struct OptimizerOptions {
  std::int64_t warm_up = 15;  ///< steps in which the rate grows; then it goes by the schedule
  RateSchedule schedule = RateSchedule::kCosine;
  double rate = 5e-4;     ///< the highest
  double scale_rate = 0;  ///< of the scales of codes, likewise; 0: the same
  double average = 0;  ///< the decay of an average of what learns, which is what is kept in the end; 0: none
  double most_gradient = 1;  ///< norm of all gradients of a step, above which they shrink to it
  OptimizerStates states = OptimizerStates::kFloat32;
};

struct ComputeOptions {
  Products products = Products::kFloat32;
  std::string device = "cpu";  ///< or "cuda", "cuda:1": where steps are computed and what is measured
  int threads = 0;             ///< 0: LibTorch's own choice
};

struct LanguageRequest {
  graph::Graph network;  ///< a decoder of models/decoder.h or an encoder, in floats
  LanguageSamples samples;
  Recipe recipe;  ///< of a network that learns by itself
  LanguageStart start;
  std::optional<Recovery> recovery;
  Supervision supervision;
  BlockWise block_wise;
  LanguageSteps steps;
  OptimizerOptions optimizer;
  ComputeOptions compute;
};

struct LanguageLine {
  std::int64_t step = 0;  ///< the step that is done, from 1
  double loss = 0;        ///< in nats a token, before the step
  double rate = 0;
};

/// The result of block-wise training for a layer.
struct LayerLine {
  std::int64_t layer = 0;  ///< from 0
  double error_before = 0,
         error = 0;  ///< relative squared error, mean over tokens: before the layer's training and after
};

struct LanguageProgress {
  LanguageLine line;
  std::int64_t steps = 0;
  std::int64_t tokens = 0;      ///< tokens in a step
  double seconds_per_step = 0;  ///< mean over this process' steps

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds_per_step; }
};

/// What a run reports while it runs.
struct LanguageNews {
  std::function<void(const LanguageProgress&)> progress;  ///< after every step
  std::function<void(const LayerLine&, std::int64_t layers)>
      layer_done;  ///< after each layer of block-wise training
  std::function<void(std::int64_t done, std::int64_t sequences)> predicted;  ///< of the teacher's file
  /// Called after the step in which the loss rose (LossWatch); called again when a run goes on from a later
  /// step.
  std::function<void(const LossRise&)> loss_rose;
};

struct LanguageHooks {
  LanguageNews news;
  std::function<bool()> wants_state;  ///< asked after every step
  /// The file from which an unfinished run goes on, and in which it is stored; empty: none. It stays when the
  /// run is done.
  std::filesystem::path state;
};

struct LanguageOutcome {
  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

  graph::Graph quantized;
  std::vector<LayerLine> layers;  ///< those of block-wise training
  std::vector<LanguageLine> log;
  std::int64_t trained_tokens = 0;
  bool is_first =
      true;  ///< false: another of the processes that trained together has the results, and nothing is here
  /// The perplexity on `valid`, or the mean cosine to the float network's vectors on `valid_lines`: of the
  /// float network; of the quantized one before training; after block-wise training, or with the adapter as
  /// it starts (not measured where that is zero); and after training.
  double float_measure = kNotMeasured, first_measure = kNotMeasured, middle_measure = kNotMeasured,
         measure = kNotMeasured;
};

class LanguageTrainer {
 public:
  virtual ~LanguageTrainer() = default;

  /// Returns the products that this processor, or that device, is fastest at. Throws usage Error where there
  /// is no such device.
  virtual Products fast_products(const std::string& device) const = 0;

  /// Throws what train() would throw whatever codes it begins with. Call it before stages make them, or a
  /// text is sampled. Throws usage Error where parts of the request do not go together, Error where a text
  /// has no sequence or the recipe does not fit the network.
  virtual void check(const LanguageRequest& request) const = 0;

  /// Throws Error where there are too few tokens, the recipe does not fit or the loss is not finite; usage
  /// Error where the state is another request's; Interrupted, after it has stored the state, where a person
  /// asked to stop.
  virtual LanguageOutcome train(const LanguageRequest& request, const LanguageHooks& hooks) = 0;
};

/// Returns the process's trainer.
LanguageTrainer& language_trainer();

}  // namespace crumb::tasks
