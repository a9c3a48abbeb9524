#include "cli/train/language_training.h"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "cli/flags/number_checks.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/npy/npy.h"
#include "jobs/engines/graph_inputs.h"
#include "jobs/engines/open_engine.h"
#include "jobs/samples/read_lines.h"
#include "jobs/samples/tokenized_lines.h"
#include "jobs/samples/training_text.h"
#include "models/encoder_inputs.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "runtime/language/drawn_text.h"
#include "runtime/sentences/sentence_tokenizer.h"
#include "text/text_tokenizer.h"
#include "training/run_folder.h"

namespace crumb::cli {

void add_language_training_flags(CLI::App& verb, LanguageTrainingFlags& flags, bool is_encoder) {
  verb.add_option("--length", flags.length,
                  is_encoder ? "Tokens of a line, at most (512)" : "Tokens of a sequence (512)")
      ->check(CLI::Range(2, 1 << 20))
      ->type_name("TOKENS");
  verb.add_option("--steps", flags.steps, "Steps (240)")->check(at_least(0))->type_name("STEPS");
  verb.add_option("--warm-up", flags.warm_up, "Steps in which the rate grows (15)")
      ->check(at_least(0))
      ->type_name("STEPS");
  verb.add_option("--schedule", flags.schedule,
                  "How the rate goes from there: cosine or linear, to 0, or constant (cosine)")
      ->type_name("cosine|linear|constant");
  verb.add_option(
          "--average", flags.average,
          "Keep the moving average of what learns, of which each step keeps so much of the old one, such as "
          "0.99 (none)")
      ->check(CLI::Range(0.0, 0.999999))
      ->type_name("SHARE");
  if (is_encoder) return;
  verb.add_option("--temperature", flags.temperature,
                  "Divides the logits of both networks, with the loss kl (1)")
      ->check(above_zero())
      ->type_name("FACTOR");
  verb.add_option("--tokens", flags.tokens,
                  "The first tokens of the text, so many (all; of one that is drawn 16384)")
      ->check(at_least(1))
      ->type_name("TOKENS");
  CLI::Option* const kept =
      verb.add_option(
              "--teacher-logits", flags.teacher_logits,
              "A file of what the float model predicts: made where there is none, and where there is one "
              "the float model stays out of memory (none)")
          ->type_name("FILE");
  verb.add_option("--top-k", flags.top_k, "So many tokens of each place, in a file that is made (64)")
      ->check(at_least(1))
      ->needs(kept)
      ->type_name("TOKENS");
}

void add_language_running_flags(CLI::App& verb, LanguageTrainingFlags& flags, bool is_encoder) {
  verb.add_option("--device", flags.device, "Where steps are computed: cpu, cuda or cuda:1 (cpu)")
      ->type_name("DEVICE");
  verb.add_option(
          "--products", flags.products,
          "What matrices are multiplied as in training steps: f32, bf16 (on a CPU) or tf32 (on a GPU) "
          "(the short one where the processor has it)")
      ->type_name("f32|bf16|tf32");
  verb.add_option(
          "--optimizer-states", flags.states,
          "What AdamW keeps of each number that learns, twice: f32, bf16, or int8, codes in blocks of 256 "
          "(f32)")
      ->type_name("f32|bf16|int8");
  verb.add_option("--at-once", flags.at_once,
                  is_encoder ? "Lines of a step that run at a time; fewer take less memory (all)"
                             : "Sequences of a step that run at a time; fewer take less memory (all)")
      ->check(at_least(1))
      ->type_name(is_encoder ? "LINES" : "SEQUENCES");
  if (is_encoder) return;
  verb.add_flag("--recompute", flags.recompute,
                "Keep what layers give alone, and compute what is inside them again for the gradients: less "
                "memory, a third more time");
}

bool is_writer() {
  const char* const rank = std::getenv("RANK");
  return !rank || std::string_view(rank) == "0";
}

tasks::Products products_of(const LanguageTrainingFlags& flags) {
  if (flags.products.empty()) return jobs::open_language_trainer().fast_products(flags.device);
  return tasks::chosen<tasks::Products>(tasks::kProductsNames, flags.products, "--products");
}

namespace {

constexpr std::size_t kDrawnTokens = 16384;

/// Whether the folder's unfinished run has sampled the file, as its state says.
bool is_drawn_already(const LanguageTrainingFlags& flags, const std::filesystem::path& file) {
  std::error_code none;
  return !flags.restart && std::filesystem::exists(training::RunFolder::state_in(file.parent_path()), none) &&
         std::filesystem::exists(file, none);
}

std::vector<std::int64_t> kept_text(const std::filesystem::path& file) {
  const OwnFiles own;
  const NpyArray kept = read_npy(file).take();
  if (kept.dtype != DType::kI64 || kept.shape.size() != 1)
    throw Error(quote_text(file.string()) + " is no text that was drawn; give another folder, or --restart");
  std::vector<std::int64_t> found(kept.data.size() / sizeof(std::int64_t));
  std::memcpy(found.data(), kept.data.data(), kept.data.size());
  return found;
}

/// Samples --tokens tokens, in sequences of --length.
runtime::DrawnText sequences_to_draw(const LanguageTrainingFlags& flags,
                                     const tasks::LanguageRequest& request) {
  const std::size_t wanted = flags.tokens > 0 ? flags.tokens : kDrawnTokens;
  const auto own = static_cast<std::size_t>(flags.length) - (request.first ? 1 : 0);
  return {.sequences = std::max<std::size_t>(1, wanted / own),
          .length = own,
          .seed = request.seed,
          .threads = request.threads};
}

/// Calls draw(model, which, done) with the request's network, and shows progress.
template <class Draw>
auto drawn(const tasks::LanguageRequest& request, const runtime::DrawnText& which, const text::ReadFile& read,
           const Draw& draw) {
  const auto model = runtime::LanguageModel::load(jobs::for_runtime(request.network), read, "the model");
  Progress progress("drawing", "sequences", which.sequences, 0);
  return draw(model, which, [&](std::size_t done) { progress.update(done, 0); });
}

tasks::LanguageText drawn_text(const LanguageTrainingFlags& flags, const std::string& folder,
                               const text::ReadFile& read, const tasks::LanguageRequest& request) {
  const runtime::DrawnText which = sequences_to_draw(flags, request);
  const std::filesystem::path file = std::filesystem::path(folder) / "synthetic.npy";
  if (is_drawn_already(flags, file)) return {.tokens = kept_text(file), .counts = {}};
  tasks::LanguageText text{.tokens = drawn(request, which, read, runtime::draw_text), .counts = {}};
  if (!is_writer()) return text;
  std::filesystem::create_directories(folder);
  const std::uint64_t count = text.tokens.size();
  write_npy(file, DType::kI64, std::span(&count, 1), std::as_bytes(std::span(text.tokens)));
  return text;
}

/// Returns one line for each conversation.
std::string lines_of(const std::vector<runtime::DrawnConversation>& conversations) {
  std::string lines;
  for (const runtime::DrawnConversation& conversation : conversations) {
    using OrderedJson = nlohmann::ordered_json;
    const OrderedJson question = {{"role", "user"}, {"content", conversation.question}};
    const OrderedJson answer = {{"role", "assistant"}, {"content", conversation.answer}};
    OrderedJson line = {{"messages", OrderedJson::array({question, answer})}};
    if (conversation.is_cut) line["continue_final_message"] = true;
    lines += line.dump() + '\n';
  }
  return lines;
}

/// Returns the observer of texts' notes: one of the processes that train together prints them.
jobs::Observer& watching() {
  static jobs::Observer silent;
  return is_writer() ? terminal() : silent;
}

tasks::LanguageText drawn_conversations(const LanguageTrainingFlags& flags, const std::string& folder,
                                        const text::ReadFile& read, const text::TextTokenizer& tokenizer,
                                        const tasks::LanguageRequest& request) {
  const std::filesystem::path file = std::filesystem::path(folder) / "synthetic.jsonl";
  if (is_drawn_already(flags, file)) {
    const OwnFiles own;
    return jobs::read_training_text(file.string(), tokenizer, read, watching());
  }
  const std::string lines =
      lines_of(drawn(request, sequences_to_draw(flags, request), read, runtime::draw_conversations));
  if (is_writer()) {
    std::filesystem::create_directories(folder);
    write_text_file(file, lines);
  }
  return jobs::training_text_of_lines(file.string(), lines, tokenizer, read, watching());
}

void read_lines_to_train_by(const LanguageTrainingFlags& flags, const std::string& data,
                            const std::string& valid, const std::string&, const text::ReadFile& read,
                            tasks::LanguageRequest& request) {
  if (flags.tokens > 0) throw usage_error("--tokens is for decoders, found a sentence encoder");
  if (is_drawn(data))
    throw usage_error("--data " + data +
                      " is drawn from decoders, found a sentence encoder: give a file of lines");
  runtime::SentenceTokenizer tokenizer = runtime::SentenceTokenizer::load(read, "the model");
  if (!valid.empty())
    request.valid_lines = jobs::tokenized_lines(valid, tokenizer);  // uncut, as crumb embed takes them
  tokenizer.limit_length(static_cast<std::size_t>(flags.length));
  request.lines = jobs::tokenized_lines(data, tokenizer);
}

void read_text_to_train_by(const LanguageTrainingFlags& flags, const std::string& data,
                           const std::string& valid, const std::string& folder, const text::ReadFile& read,
                           tasks::LanguageRequest& request) {
  const std::optional<std::string> config = read("config.json");
  if (!config) throw usage_error("the model holds no config.json");
  const DecoderConfig shape = DecoderConfig::parse(JsonFile("config.json", *config));
  if (static_cast<std::size_t>(flags.length) > shape.max_positions)
    throw usage_error("--length " + std::to_string(flags.length) + ": the model has " +
                      std::to_string(shape.max_positions) + " positions");
  const text::TextTokenizer tokenizer = text::TextTokenizer::load(read);
  if (const auto first = tokenizer.first_token()) request.first = *first;
  if (!valid.empty()) {
    request.valid = jobs::read_training_text(valid, tokenizer, read, watching());
    if (request.valid.empty()) throw usage_error("--valid " + quote_text(valid) + " is an empty text");
  }
  tasks::LanguageText& text = request.text;
  if (is_drawn(data)) {
    request.drawn = data + " " + std::to_string(flags.tokens > 0 ? flags.tokens : kDrawnTokens);
    jobs::open_language_trainer().check(request);  // before sampling, which takes time
    text = data == kSynthetic ? drawn_text(flags, folder, read, request)
                              : drawn_conversations(flags, folder, read, tokenizer, request);
  } else {
    text = jobs::read_training_text(data, tokenizer, read, watching());
  }
  if (flags.tokens > 0 && text.tokens.size() > flags.tokens) {
    text.tokens.resize(flags.tokens);
    text.counts.resize(std::min(text.counts.size(), flags.tokens));
  }
}

}  // namespace

void take_training_flags(const LanguageTrainingFlags& flags, tasks::LanguageRequest& request) {
  request.temperature = flags.temperature;
  request.length = flags.length;
  request.steps = flags.steps;
  request.warm_up = flags.warm_up;
  request.schedule =
      tasks::chosen<tasks::RateSchedule>(tasks::kRateScheduleNames, flags.schedule, "--schedule");
  request.at_once = flags.at_once;
  request.recomputes = flags.recompute;
  request.average = flags.average;
  request.products = products_of(flags);
  request.states =
      tasks::chosen<tasks::OptimizerStates>(tasks::kOptimizerStatesNames, flags.states, "--optimizer-states");
  request.device = flags.device;
  request.teacher = {.file = flags.teacher_logits, .top = flags.top_k};
}

void read_training_texts(const LanguageTrainingFlags& flags, const std::string& data,
                         const std::string& valid, const std::string& folder, const text::ReadFile& read,
                         tasks::LanguageRequest& request) {
  const bool is_encoder = models::is_encoder(request.network);
  (is_encoder ? read_lines_to_train_by : read_text_to_train_by)(flags, data, valid, folder, read, request);
}

Stage end_to_end_stage(const LanguageTrainingFlags& flags, const EndToEnd& more) {
  Stage stage = parse_stage("end_to_end");
  const auto say = [&](const char* option, double value) {
    if (value != stage.value(option)) stage.options[option] = value;
  };
  say("steps", static_cast<double>(flags.steps));
  say("warm_up", static_cast<double>(flags.warm_up));
  say("scales_alone", more.scales_alone ? 1 : 0);
  say("learn_adapters", more.learn_adapters ? 1 : 0);
  // Without the flags, the default follows from the network.
  if (more.rate > 0) stage.options["rate"] = more.rate;
  if (more.scale_rate > 0) stage.options["scale_rate"] = more.scale_rate;
  return stage;
}

std::vector<Stage> stages_that_made(const std::map<std::string, std::string>& files,
                                    const std::string& name) {
  const auto recipe = files.find(std::string(kRecipePath));
  return recipe == files.end() ? std::vector<Stage>() : parse_recipe(recipe->second, name).stages;
}

void refuse_turned_states(std::span<const Stage> stages, const tasks::LanguageRequest& request) {
  const bool compares =
      request.loss == tasks::LanguageLoss::kHidden || request.loss == tasks::LanguageLoss::kMix;
  if (!compares && request.block_wise.passes == 0) return;
  const bool rotates = std::ranges::any_of(
      stages, [](const Stage& stage) { return stage.name == "rotate" && stage.value("streams") != 0; });
  if (rotates)
    throw usage_error(
        std::string("the stage rotate changes what goes from layer to layer, and ") +
        (compares ? "--loss " + std::string(name_of(request.loss)) : "training layer by layer") +
        " compares that with the float network's, which is not rotated; expected " +
        (compares ? "another --loss" : "end_to_end alone") + ", or rotate:streams=off");
}

void keep_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

tasks::LanguageNews LanguageProgressLine::news(double rate) {
  return {
      .progress = [this](const tasks::LanguageProgress& progress) { update(progress); },
      .layer_done = [this](const tasks::LayerLine& line, std::int64_t layers) { layer_done(line, layers); },
      .predicted = [this](std::int64_t done, std::int64_t sequences) { predicted(done, sequences); },
      .loss_rose = [this, rate](const tasks::LossRise& rise) { loss_rose(rise, rate); }};
}

void LanguageProgressLine::update(const tasks::LanguageProgress& progress) {
  if (!line_.is_due()) return;
  const double left = static_cast<double>(progress.steps - progress.line.step) * progress.seconds_per_step;
  line_.show({.what = "training",
              .done = static_cast<std::size_t>(progress.line.step),
              .total = static_cast<std::size_t>(progress.steps),
              .items = "steps",
              .share = static_cast<double>(progress.line.step) / static_cast<double>(progress.steps),
              .details = "loss " + fixed(progress.line.loss, 4),
              .rate = fixed(progress.tokens_per_second(), 0) + " tokens/s",
              .seconds_left = left});
}

void LanguageProgressLine::layer_done(const tasks::LayerLine& line, std::int64_t layers) {
  const double share = static_cast<double>(line.layer + 1) / static_cast<double>(layers);
  line_.show({.what = "training layer by layer",
              .done = static_cast<std::size_t>(line.layer + 1),
              .total = static_cast<std::size_t>(layers),
              .items = "layers",
              .share = share,
              .details = "error " + fixed(line.error_before, 4) + " to " + fixed(line.error, 4),
              .seconds = line_.seconds()});
}

void LanguageProgressLine::predicted(std::int64_t done, std::int64_t sequences) {
  if (done < sequences && !line_.is_due()) return;
  line_.show({.what = "predicting with the float model",
              .done = static_cast<std::size_t>(done),
              .total = static_cast<std::size_t>(sequences),
              .items = "sequences",
              .share = static_cast<double>(done) / static_cast<double>(sequences),
              .seconds = line_.seconds()});
}

void LanguageProgressLine::loss_rose(const tasks::LossRise& rise, double rate) {
  line_.clear();
  std::fprintf(stderr,
               "note: the loss rose to %s, the mean of %zu steps, from %s: a --rate below %g may be wanted\n",
               fixed(rise.mean, 4).c_str(), tasks::LossWatch::kSteps, fixed(rise.least, 4).c_str(), rate);
}

std::string measure_text(const Json& report, const char* name) {
  const Json& value = report.at(name);
  return value.is_number() ? fixed(value, report.at("metric") == "cosine" ? 4 : 2) : std::string("-");
}

}  // namespace crumb::cli
