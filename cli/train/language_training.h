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
  bool restart = false;  ///< no flag of these: whether an unfinished run is dropped
};

/// How a network learns, and in what memory; a sentence encoder's are without those of decoders. In the
/// verb's group of flags that is open.
void add_language_training_flags(CLI::App& verb, LanguageTrainingFlags& flags, bool is_encoder = false);

/// Where and how steps are computed: what takes time and memory, and changes no more than last digits.
void add_language_running_flags(CLI::App& verb, LanguageTrainingFlags& flags, bool is_encoder = false);

/// Of a step, where the command says nothing.
inline std::int64_t batch_of(bool is_encoder) { return is_encoder ? 32 : 4; }

/// Whether this process writes what all that train together have computed (libtorch/peers.h): the first, or
/// the only one.
bool is_writer();

/// --products, or what the processor or the device is fastest at.
tasks::Products products_of(const LanguageTrainingFlags& flags);

/// --data: the text that the float network draws from itself, or conversations.
inline constexpr const char* kSynthetic = "synthetic";
inline constexpr const char* kSyntheticChat = "synthetic-chat";
inline bool is_drawn(const std::string& data) { return data == kSynthetic || data == kSyntheticChat; }

/// Sets what the flags say of the request, but for its texts.
void take_training_flags(const LanguageTrainingFlags& flags, tasks::LanguageRequest& request);

/// Reads the texts of the request's network, of an encoder lines. `read` gives the model's files; `folder`
/// keeps a text that is drawn (kSynthetic), synthetic.npy, or conversations (kSyntheticChat),
/// synthetic.jsonl, for a run that goes on. Throws what read_training_text, read_lines and the drawing do,
/// and usage Error where the model has fewer positions than a sequence, or is an encoder and the text is to
/// be drawn. Before a text is drawn, all else of the request is checked.
void read_training_texts(const LanguageTrainingFlags& flags, const std::string& data,
                         const std::string& valid, const std::string& folder, const text::ReadFile& read,
                         tasks::LanguageRequest& request);

/// What flags of `crumb train lm` and `crumb merge --train` say of end_to_end beside the common ones; a rate
/// of 0 is not given.
struct EndToEnd {
  double rate = 0, scale_rate = 0;
  bool scales_alone = false, learn_adapters = false;
};

/// Flags as the stage says them, but for what it is without.
Stage end_to_end_stage(const LanguageTrainingFlags& flags, const EndToEnd& more);

/// Those that made a packed file, by the recipe that lies in it; none where it has none. `name`: for
/// messages.
std::vector<Stage> stages_that_made(const std::map<std::string, std::string>& files, const std::string& name);

/// Throws usage Error where states between layers are to be compared with the float network's, and one of the
/// stages that made the other network has rotated them (rotate, with its streams).
void refuse_turned_states(std::span<const Stage> stages, const tasks::LanguageRequest& request);

/// What a step gives back stays with the process: the next one asks for as much again, and new pages from the
/// system took a fifth of the time.
void keep_memory();

/// How far such a training is, on stderr.
class LanguageProgressLine {
 public:
  /// Of a run whose highest rate is `rate`; must not outlive this line.
  tasks::LanguageNews news(double rate);

 private:
  void update(const tasks::LanguageProgress& progress);
  void layer_done(const tasks::LayerLine& line, std::int64_t layers);
  void predicted(std::int64_t done, std::int64_t sequences);
  void loss_rose(const tasks::LossRise& rise, double rate);

  ProgressLine line_;
};

/// A report's measure, perplexity or cosine: "40.12", "0.9731", or "-" for what was not measured.
std::string measure_text(const Json& report, const char* name);

}  // namespace crumb::cli
