#include "cli/train_lm.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>

#include "base/files/text.h"
#include "base/seconds.h"
#include "cli/notes.h"
#include "cli/open_engine.h"
#include "cli/output.h"
#include "cli/packed_files.h"
#include "cli/training_text.h"
#include "formats/checkpoint/decoder_config.h"
#include "models/checkpoint_graph.h"
#include "models/weight_source.h"
#include "quant/tensor_source.h"
#include "text/text_tokenizer.h"
#include "training/language_run.h"

namespace crumb::cli {
namespace {

constexpr std::int64_t kBatch = 4;
constexpr double kRate = 5e-4;

constexpr std::array kOfLanguage = {"--model",      "--teacher",        "--temperature", "--length",
                                    "--steps",      "--warm-up",        "--tokens",      "--products",
                                    "--block-wise", "--block-sequences"};
constexpr std::array kOfOthers = {"--labels",       "--loss",       "--profile",  "--network", "--epochs",
                                  "--float-epochs", "--all-layers", "--data-dir", "--sweep",   "--seeds"};

/// A line that changes on a terminal, else one every few seconds.
class LanguageProgressLine {
 public:
  ~LanguageProgressLine() {
    if (terminal_ && shown_) std::fprintf(stderr, "\r\x1b[K");
  }

  void update(const tasks::LanguageProgress& progress) {
    const double now = now_seconds();
    const double left = static_cast<double>(progress.steps - progress.line.step) * progress.seconds_per_step;
    if (now - last_ < (terminal_ ? 0.2 : 5.0)) return;
    last_ = now;
    const std::string text = "step " + std::to_string(progress.line.step) + " of " +
                             std::to_string(progress.steps) + ", loss " + fixed(progress.line.loss, 4) +
                             ", " + fixed(progress.tokens_per_second(), 0) + " tokens/s, " + fixed(left, 0) +
                             " s left";
    say(text);
  }

  void layer_done(const tasks::LayerLine& line, std::int64_t layers) {
    say("layer " + std::to_string(line.layer + 1) + " of " + std::to_string(layers) + ", error " +
        fixed(line.error_before, 4) + " to " + fixed(line.error, 4));
  }

 private:
  void say(const std::string& text) {
    std::fprintf(stderr, terminal_ ? "\r\x1b[K%s" : "%s\n", text.c_str());
    std::fflush(stderr);
    shown_ = true;
  }

  bool terminal_ = isatty(STDERR_FILENO) != 0, shown_ = false;
  double last_ = now_seconds();
};

tasks::Teacher teacher_named(const std::string& name) {
  if (name == "float") return tasks::Teacher::kFloat;
  if (name == "none") return tasks::Teacher::kNone;
  throw usage_error("--teacher " + quote_text(name) + ": expected float or none");
}

tasks::Products products_named(const std::string& name) {
  if (name.empty()) return open_language_trainer().fast_products();
  if (name == "f32") return tasks::Products::kFloat32;
  if (name == "bf16") return tasks::Products::kBfloat16;
  throw usage_error("--products " + quote_text(name) + ": expected f32 or bf16");
}

/// What a step gives back stays with the process: the next one asks for as much again, and new pages from the system took a
/// fifth of the time.
void keep_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

Recipe language_recipe(const RecipeFlags& flags) {
  if (!flags.has_base()) throw usage_error("training lm needs --weights SPEC, --scheme or --recipe");
  return recipe_of(flags);
}

void print_report(const Json& report, const std::string& folder) {
  const auto perplexity = [](const Json& value) {
    return value.is_number() ? fixed(value, 2) : std::string("-");
  };
  std::vector<std::string> head{"perplexity", "float", "rounded"},
      row{"", perplexity(report.at("float")), perplexity(report.at("rounded"))};
  if (report.contains("block_wise")) {
    head.emplace_back("layer by layer");
    row.push_back(perplexity(report.at("block_wise")));
  }
  head.emplace_back("trained");
  row.push_back(perplexity(report.at("quantized")));
  print_table({head, row});
  std::cout << report.at("steps") << " steps, " << report.at("trained_tokens") << " tokens, "
            << fixed(report.at("seconds"), 0) << " s: " << folder
            << "/{model.crumb, log.jsonl, report.json}, " << fixed(report.at("bytes").get<double>() / 1e6, 2)
            << " MB\n";
}

}  // namespace

void add_language_flags(CLI::App& verb, LanguageFlags& flags) {
  verb.add_option("--model", flags.model,
                  "Of lm: the decoder in floats, a Hugging Face folder or a GGUF file");
  verb.add_option(
      "--teacher", flags.teacher,
      "Of lm: whose predictions are learned: float, the network's own in floats, or none, then the text's "
      "tokens (float)");
  verb.add_option("--temperature", flags.temperature, "Of lm: of both networks' predictions (1)")
      ->check(CLI::PositiveNumber);
  verb.add_option("--length", flags.length, "Of lm: tokens of a sequence (512)")
      ->check(CLI::Range(2, 1 << 20));
  verb.add_option("--steps", flags.steps, "Of lm: steps (240)")->check(CLI::NonNegativeNumber);
  verb.add_option("--warm-up", flags.warm_up, "Of lm: steps in which the rate grows (15)")
      ->check(CLI::NonNegativeNumber);
  verb.add_option("--block-wise", flags.block_passes,
                  "Of lm: first each layer by itself, so many passes over the text's first sequences (0)")
      ->check(CLI::NonNegativeNumber);
  verb.add_option("--block-sequences", flags.block_sequences, "Of lm: these sequences (40)")
      ->check(CLI::PositiveNumber);
  verb.add_option(
      "--products", flags.products,
      "Of lm: what matrices are multiplied as in training steps, f32 or bf16 (bf16 where the processor "
      "has it)");
  verb.add_option("--tokens", flags.tokens, "Of lm: the first N tokens of the text (all)")
      ->check(CLI::PositiveNumber);
}

void refuse_flags_of_others(const CLI::App& verb, bool is_language) {
  const auto refuse = [&](const auto& names, const char* why) {
    for (const char* name : names)
      if (verb.get_option(name)->count() > 0) throw usage_error(std::string(name) + why);
  };
  if (is_language)
    refuse(kOfOthers, " is not for training a language model");
  else
    refuse(kOfLanguage, " is for training a language model (crumb train lm)");
}

void train_language_model(const LanguageWish& wish) {
  const LanguageFlags& flags = wish.flags;
  if (flags.model.empty()) throw usage_error("training lm needs --model FOLDER or FILE.gguf");
  if (wish.data.empty()) throw usage_error("training lm needs --data TEXT");
  const Recipe recipe = language_recipe(wish.recipe);
  const TensorSource source = TensorSource::open(flags.model);
  if (source.checkpoint() == nullptr)
    throw usage_error(
        "--model " + quote_text(flags.model) +
        " is a packed file; training begins with floats (crumb dequantize makes a folder of it)");
  Notes notes;
  note_folder(*source.checkpoint(), notes);
  const auto weights = models::weights_of(source);
  const auto read = [&](std::string_view path) { return weights->file(path); };
  const std::optional<std::string> config = read("config.json");
  if (!config) throw usage_error("--model " + quote_text(flags.model) + " holds no config.json");
  const DecoderConfig shape = DecoderConfig::parse(JsonFile("config.json", *config));
  if (static_cast<std::size_t>(flags.length) > shape.max_positions)
    throw usage_error("--length " + std::to_string(flags.length) + ": the model has " +
                      std::to_string(shape.max_positions) + " positions");
  const text::TextTokenizer tokenizer = text::TextTokenizer::load(read);
  training::LanguageRun run{
      .request = {.network = models::graph_of_checkpoint(source, quote_text(flags.model)).graph,
                  .text = read_training_text(wish.data, tokenizer, read),
                  .valid = {},
                  .first = {},
                  .recipe = recipe,
                  .teacher = teacher_named(flags.teacher),
                  .temperature = flags.temperature,
                  .length = flags.length,
                  .batch = wish.batch > 0 ? wish.batch : kBatch,
                  .steps = flags.steps,
                  .block_wise = {.passes = flags.block_passes, .sequences = flags.block_sequences},
                  .warm_up = flags.warm_up,
                  .rate = wish.rate > 0 ? wish.rate : kRate,
                  .seed = wish.seed,
                  .products = products_named(flags.products),
                  .threads = wish.threads},
      .files = packed_files(*source.checkpoint(), recipe),
      .folder = wish.output,
      .keep_every = wish.keep_every,
      .restart = wish.restart,
      .progress = {},
      .layer_done = {}};
  if (const auto first = tokenizer.first_token()) run.request.first = *first;
  if (flags.tokens > 0 && run.request.text.tokens.size() > flags.tokens) {
    run.request.text.tokens.resize(flags.tokens);
    run.request.text.counts.resize(std::min(run.request.text.counts.size(), flags.tokens));
  }
  if (!wish.valid.empty()) run.request.valid = read_training_text(wish.valid, tokenizer, read);
  keep_memory();
  Json report;
  {
    LanguageProgressLine line;
    run.progress = [&](const tasks::LanguageProgress& progress) { line.update(progress); };
    run.layer_done = [&](const tasks::LayerLine& layer, std::int64_t layers) {
      line.layer_done(layer, layers);
    };
    report = training::train_language_into(run, open_language_trainer());
  }
  wish.json ? print_json(report) : print_report(report, wish.output);
}

}  // namespace crumb::cli
