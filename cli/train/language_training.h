// What the verbs that train language models have in common: crumb train lm, crumb recover.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/progress_text.h"
#include "formats/crumb_file/crumb_file.h"
#include "quant/recipe/stages.h"
#include "tasks/language/language_trainer.h"
#include "text/tokenizer.h"

namespace crumb::cli {

struct LanguageTrainingFlags {
  std::string products, schedule = "cosine", states = "f32", teacher_logits, device = "cpu";
  double temperature = 1, average = 0;
  std::int64_t length = 512, steps = 240, warm_up = 15, at_once = 0, top_k = 64;
  std::size_t tokens = 0;
  bool recompute = false;
  bool restart = false;  ///< no flag of this group: whether an unfinished run is dropped
};

/// Adds the flags for how a network learns, and in what memory; a sentence encoder has none of a decoder's.
/// They go into the verb's open group of flags.
void add_language_training_flags(CLI::App& verb, LanguageTrainingFlags& flags, bool is_encoder = false);

/// Adds the flags for where and how steps are computed: they change time and memory, and results in the last
/// digits only.
void add_language_running_flags(CLI::App& verb, LanguageTrainingFlags& flags, bool is_encoder = false);

/// Returns the sequences or lines in a step by default.
inline std::int64_t batch_of(bool is_encoder) { return is_encoder ? 32 : 4; }

/// Whether this process writes what all processes of a training have computed (libtorch/peers.h): the first
/// one does, or the only one.
bool is_writer();

/// Returns what --products says, or what the processor or the device is fastest at.
tasks::Products products_of(const LanguageTrainingFlags& flags);

/// Values of --data: the text that the float network samples from itself, or conversations.
inline constexpr const char* kSynthetic = "synthetic";
inline constexpr const char* kSyntheticChat = "synthetic-chat";
inline bool is_drawn(const std::string& data) { return data == kSynthetic || data == kSyntheticChat; }

/// Sets what the flags say of the request, except its texts.
void take_training_flags(const LanguageTrainingFlags& flags, tasks::LanguageRequest& request);

/// Reads the texts of the request's network, lines for an encoder. `read` gives the model's files. `folder`
/// keeps a sampled text (kSynthetic), synthetic.npy, or conversations (kSyntheticChat), synthetic.jsonl, for
/// a run that goes on. Throws what read_training_text, read_lines and the sampling do, and usage Error where
/// the model has fewer positions than a sequence, or is an encoder and the text is to be sampled. Checks all
/// else of the request before it samples a text.
/// be drawn. Before a text is drawn, all else of the request is checked.
void read_training_texts(const LanguageTrainingFlags& flags, const std::string& data,
                         const std::string& valid, const std::string& folder, const text::ReadFile& read,
                         tasks::LanguageRequest& request);

/// The flags of end_to_end that `crumb train lm` and `crumb merge --train` have in addition to the common
/// ones; a rate of 0 is not given.
struct EndToEnd {
  double rate = 0, scale_rate = 0;
  bool scales_alone = false, learn_adapters = false;
};

/// Returns the stage that the flags describe, without options that do not apply.
Stage end_to_end_stage(const LanguageTrainingFlags& flags, const EndToEnd& more);

/// Returns the stages that made a packed file, by the recipe in it; none where it has no recipe. `name`: for
/// messages.
std::vector<Stage> stages_that_made(const std::map<std::string, std::string>& files, const std::string& name);

/// Throws usage Error where states between layers are to be compared with the float network's, and one of the
/// stages that made the other network has rotated them (rotate, with its streams).
void refuse_turned_states(std::span<const Stage> stages, const tasks::LanguageRequest& request);

/// Makes the process keep the memory that a step frees: the next step needs as much again, and new pages from
/// the system took a fifth of the time.
void keep_memory();

/// Shows the progress of such a training on stderr.
class LanguageProgressLine {
 public:
  /// Returns observers for a run whose highest rate is `rate`; they must not outlive this line.
  tasks::LanguageNews news(double rate);

 private:
  void update(const tasks::LanguageProgress& progress);
  void layer_done(const tasks::LayerLine& line, std::int64_t layers);
  void predicted(std::int64_t done, std::int64_t sequences);
  void loss_rose(const tasks::LossRise& rise, double rate);

  ProgressLine line_;
};

/// Returns a report's measure, perplexity or cosine: "40.12", "0.9731", or "-" for what was not measured.
std::string measure_text(const Json& report, const char* name);

}  // namespace crumb::cli
