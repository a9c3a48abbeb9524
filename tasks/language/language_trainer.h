// Decoders and sentence encoders that train with quantizers in the loop, behind an interface without LibTorch: every weight,
// scale and gain learns to predict what the float network predicts, or the next token, or to give its vectors, end to end.
//
// What the float network says of every token of a text is worth more than the text (distillation of logits, Hinton et al.,
// arXiv:1503.02531; LLM-QAT, Liu et al., arXiv:2305.17888): a two-bit network that rounding destroyed comes back by it.
//
// Everything that is drawn follows from the seed and from the step: the same request gives the same bits on the same kind of
// processor with as many threads, also when it was cut off and goes on from what it kept.
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

/// Layers one after the other, before all of them together: each learns, on what the quantized layers before it give, to give
/// what the float layer gives on what the float ones do (EfficientQAT, Chen et al. 2024, arXiv:2407.11062). The error of a
/// token is taken relative to its own size, and that of a sequence's first is left out: a few tokens have states that are
/// hundreds of times as large as the others'.
struct BlockWise {
  std::int64_t passes = 0;      ///< over the sequences; 0: nothing is trained so
  std::int64_t sequences = 40;  ///< of the text, from its beginning
  double rate = 3e-4;           ///< of AdamW
  double scale_rate = 1e-3;     ///< of the scales of codes
  bool scales_alone =
      false;  ///< codes of LanguageRequest::start stay; scales learn, norms, and what is in floats
  /// Weights move by the signs of their gradients instead, of which all steps together make half a step of the grid at most, so that
  /// each is rounded to one of the values beside it (SignRound, Cheng et al. 2023, arXiv:2309.05516). `rate` is that of the rest.
  bool signs = false;
};

/// An adapter that learns on a frozen base, instead of the network by itself.
struct Recovery {
  graph::Graph base;  ///< the quantized decoder, as its file holds it, with the request's network's inputs
  qat::AdapterOptions options;
  AdapterStart start = AdapterStart::kZero;
  AdapterRanks ranks = AdapterRanks::kEven;
  graph::AdapterType type = graph::AdapterType::kBfloat16;  ///< that it is kept as, in the end
};

/// What the float network predicts, kept in a file (tasks/language/teachers/kept_teacher.h); for LanguageLoss::kDivergence.
struct TeacherFile {
  std::filesystem::path file;  ///< empty: the network is in memory
  std::int64_t top = 64;       ///< tokens of each position, where the file is made
};

struct LanguageRequest {
  graph::Graph network;  ///< a decoder of models/decoder.h or an encoder, in floats
  LanguageText text;     ///< of a decoder: to train by, at least a sequence
  std::string drawn;     ///< how the text was drawn from the network, for states; empty: it was not
  LanguageText valid;    ///< to measure by, at least a sequence; empty: nothing is measured
  std::vector<std::vector<std::int64_t>> lines,
      valid_lines;                    ///< the same of an encoder: of each line its tokens
  std::optional<std::int64_t> first;  ///< the token in front of every sequence, where the tokenizer puts one
  Recipe recipe;                      ///< of a network that learns by itself
  /// The network in codes that such a one begins as, instead of `network`, which it then learns from alone.
  std::optional<graph::Graph> start;
  std::string start_by;  ///< the stages that made it, for states and reports; empty: none did
  std::optional<Recovery> recovery;
  LanguageLoss loss = LanguageLoss::kDivergence;
  TeacherFile teacher = {};
  bool has_floats =
      true;  ///< false: `network` is the recovery's base, or of drawn weights: nothing to learn from
  double temperature = 1;     ///< of both networks' logits, of kDivergence
  std::int64_t length = 512;  ///< tokens of a sequence, the first one included
  std::int64_t batch = 4;     ///< sequences, or lines, of a step
  std::int64_t at_once = 0;   ///< sequences that run at a time: gradients of a step add up; 0: all
  bool recomputes = false;    ///< what is inside layers, in the backward pass, instead of keeping it
  std::int64_t steps = 240;
  bool scales_alone = false;    ///< steps leave codes as they are; scales learn, norms, and what is in floats
  bool learn_adapters = false;  ///< those that the beginning has learn along, else they stay as they are
  BlockWise block_wise;
  std::int64_t warm_up = 15;  ///< steps in which the rate grows; then it goes by the schedule
  RateSchedule schedule = RateSchedule::kCosine;
  double rate = 5e-4;     ///< of AdamW, the highest
  double scale_rate = 0;  ///< of the scales of codes, likewise; 0: the same
  double average = 0;  ///< the decay of an average of what learns, which is what is kept in the end; 0: none
  double most_gradient = 1;  ///< norm of all gradients of a step, above which they shrink to it
  std::uint64_t seed = 0;    ///< of the order of sequences
  Products products = Products::kFloat32;
  OptimizerStates states = OptimizerStates::kFloat32;
  std::string device = "cpu";  ///< or "cuda", "cuda:1": where steps are computed and what is measured
  int threads = 0;             ///< 0: LibTorch's own choice
};

struct LanguageLine {
  std::int64_t step = 0;  ///< that is done, from 1
  double loss = 0;        ///< in nats a token, before the step
  double rate = 0;
};

/// What block-wise training did to a layer.
struct LayerLine {
  std::int64_t layer = 0;  ///< from 0
  double error_before = 0,
         error = 0;  ///< relative, squared, the mean over tokens: before its training and after
};

struct LanguageProgress {
  LanguageLine line;
  std::int64_t steps = 0;
  std::int64_t tokens = 0;      ///< of a step
  double seconds_per_step = 0;  ///< of this process' steps, the mean

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds_per_step; }
};

/// What a run says while it goes on.
struct LanguageNews {
  std::function<void(const LanguageProgress&)> progress;  ///< after every step
  std::function<void(const LayerLine&, std::int64_t layers)>
      layer_done;  ///< after every layer that was trained by itself
  std::function<void(std::int64_t done, std::int64_t sequences)> predicted;  ///< that the teacher's file gets
  /// Behind the step that made it so (LossWatch); again at the start of a run that goes on from behind there.
  std::function<void(const LossRise&)> loss_rose;
};

struct LanguageHooks {
  LanguageNews news;
  std::function<bool()> wants_state;  ///< asked after every step
  /// The file from which an unfinished run goes on, and in which it is kept; empty: none. It stays when the run is done.
  std::filesystem::path state;
};

struct LanguageOutcome {
  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

  graph::Graph quantized;
  std::vector<LayerLine> layers;  ///< of block-wise training
  std::vector<LanguageLine> log;
  std::int64_t trained_tokens = 0;
  bool is_first =
      true;  ///< of the processes that trained together: false: another one has the results, and nothing is here
  /// Of `valid` the perplexity, or of `valid_lines` the mean cosine to the float network's vectors: the float network's, that of
  /// the quantized one before training, behind its layers' own or with the adapter as it starts (not measured where that is
  /// zero), and after.
  double float_measure = kNotMeasured, first_measure = kNotMeasured, middle_measure = kNotMeasured,
         measure = kNotMeasured;
};

class LanguageTrainer {
 public:
  virtual ~LanguageTrainer() = default;

  /// Those that this processor, or that device, is fastest at. Throws usage Error where there is no such device.
  virtual Products fast_products(const std::string& device) const = 0;

  /// Throws what train() would whatever codes it begins with: before stages make them, or a text is drawn. Throws usage Error where
  /// parts of the request do not go together, Error where a text has no sequence or the recipe does not fit the network.
  virtual void check(const LanguageRequest& request) const = 0;

  /// Throws Error where there are too few tokens, the recipe does not fit or the loss is no finite number, Interrupted where
  /// a person asked to stop, after the state was kept; usage Error where that is another request's.
  virtual LanguageOutcome train(const LanguageRequest& request, const LanguageHooks& hooks) = 0;
};

/// One for the process.
LanguageTrainer& language_trainer();

}  // namespace crumb::tasks
