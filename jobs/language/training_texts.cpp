#include "jobs/language/training_texts.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "base/files/inputs.h"
#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/npy/npy.h"
#include "jobs/engines/graph_inputs.h"
#include "jobs/engines/open_engine.h"
#include "jobs/language/training_request.h"
#include "jobs/samples/tokenized_lines.h"
#include "jobs/samples/training_text.h"
#include "models/encoder_inputs.h"
#include "runtime/language/drawn_text.h"
#include "runtime/sentences/sentence_tokenizer.h"
#include "text/text_tokenizer.h"
#include "training/run_folder.h"

namespace crumb::jobs {
namespace {

constexpr std::size_t kDrawnTokens = 16384;

/// Writes each conversation on a line.
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

class TextsReader {
 public:
  TextsReader(const LanguageTraining& training, const TrainingTexts& texts, const text::ReadFile& read,
              tasks::LanguageRequest& request, Observer& observer)
      : training_(training),
        texts_(texts),
        read_(read),
        request_(request),
        observer_(observer),
        notes_(is_writer() ? observer : silent_) {}

  void read_lines() {
    if (training_.tokens > 0)
      throw usage_error(observer_.spelled("tokens") + " is for decoders, found a sentence encoder");
    if (is_drawn(texts_.data))
      throw usage_error(observer_.spelled("data") + " " + texts_.data +
                        " is drawn from decoders, found a sentence encoder: give a file of lines");
    runtime::SentenceTokenizer tokenizer = runtime::SentenceTokenizer::load(read_, "the model");
    request_.samples.unpooled = tokenizer.unpooled();
    if (!texts_.valid.empty())
      request_.samples.valid_lines =
          tokenized_lines(texts_.valid, tokenizer);  // not truncated, as crumb embed takes them
    tokenizer.limit_length(static_cast<std::size_t>(training_.length));
    request_.samples.lines = tokenized_lines(texts_.data, tokenizer);
  }

  void read_text() {
    const std::optional<std::string> config = read_("config.json");
    if (!config) throw usage_error("the model holds no config.json");
    const DecoderConfig shape = DecoderConfig::parse(JsonFile("config.json", *config));
    if (static_cast<std::size_t>(training_.length) > shape.max_positions)
      throw usage_error(observer_.spelled("length") + " " + std::to_string(training_.length) +
                        ": the model has " + std::to_string(shape.max_positions) + " positions");
    const text::TextTokenizer tokenizer = text::TextTokenizer::load(read_);
    if (const auto first = tokenizer.first_token()) request_.samples.first = *first;
    if (!texts_.valid.empty()) {
      request_.samples.valid = read_training_text(texts_.valid, tokenizer, read_, notes_);
      if (request_.samples.valid.empty())
        throw usage_error(observer_.spelled("valid") + " " + quote_text(texts_.valid) + " is an empty text");
    }
    tasks::LanguageText& text = request_.samples.text;
    text =
        is_drawn(texts_.data) ? drawn(tokenizer) : read_training_text(texts_.data, tokenizer, read_, notes_);
    if (training_.tokens > 0 && text.tokens.size() > training_.tokens) {
      text.tokens.resize(training_.tokens);
      text.counts.resize(std::min(text.counts.size(), training_.tokens));
    }
  }

 private:
  std::size_t tokens_to_draw() const { return training_.tokens > 0 ? training_.tokens : kDrawnTokens; }

  tasks::LanguageText drawn(const text::TextTokenizer& tokenizer) {
    request_.samples.drawn = texts_.data + " " + std::to_string(tokens_to_draw());
    open_language_trainer().check(request_);  // before the generation takes its time
    return texts_.data == kSynthetic ? drawn_text() : drawn_conversations(tokenizer);
  }

  /// Whether the folder's unfinished run has generated the file; the run's state says how.
  bool is_drawn_already(const std::filesystem::path& file) const {
    std::error_code none;
    return !training_.restart &&
           std::filesystem::exists(training::RunFolder::state_in(file.parent_path()), none) &&
           std::filesystem::exists(file, none);
  }

  std::vector<std::int64_t> kept_text(const std::filesystem::path& file) const {
    const OwnFiles own;
    const NpyArray kept = read_npy(file).take();
    if (kept.dtype != DType::kI64 || kept.shape.size() != 1)
      throw Error(quote_text(file.string()) + " is no text that was drawn; give another folder, or " +
                  observer_.spelled("restart"));
    std::vector<std::int64_t> found(kept.data.size() / sizeof(std::int64_t));
    std::memcpy(found.data(), kept.data.data(), kept.data.size());
    return found;
  }

  /// Generates as many tokens as the request has, in sequences of its length.
  runtime::DrawnText sequences_to_draw() const {
    const auto own = static_cast<std::size_t>(training_.length) - (request_.samples.first ? 1 : 0);
    return {.sequences = std::max<std::size_t>(1, tokens_to_draw() / own),
            .length = own,
            .seed = request_.steps.seed,
            .threads = request_.compute.threads};
  }

  /// Calls draw(model, which, done) on the request's network.
  template <class Draw>
  auto drawn_by(const Draw& draw) {
    const auto model = runtime::LanguageModel::load(for_runtime(request_.network), read_, "the model");
    const runtime::DrawnText which = sequences_to_draw();
    const ProgressScope scope(observer_);
    return draw(model, which, [&](std::size_t done) {
      observer_.progress({.what = "drawing", .items = "sequences", .done = done, .all = which.sequences});
    });
  }

  tasks::LanguageText drawn_text() {
    const std::filesystem::path file = texts_.folder / "synthetic.npy";
    if (is_drawn_already(file)) return {.tokens = kept_text(file), .counts = {}};
    tasks::LanguageText text{.tokens = drawn_by(runtime::draw_text), .counts = {}};
    if (!is_writer()) return text;
    std::filesystem::create_directories(texts_.folder);
    const std::uint64_t count = text.tokens.size();
    write_npy(file, DType::kI64, std::span(&count, 1), std::as_bytes(std::span(text.tokens)));
    return text;
  }

  tasks::LanguageText drawn_conversations(const text::TextTokenizer& tokenizer) {
    const std::filesystem::path file = texts_.folder / "synthetic.jsonl";
    if (is_drawn_already(file)) {
      const OwnFiles own;
      return read_training_text(file.string(), tokenizer, read_, notes_);
    }
    const std::string lines = lines_of(drawn_by(runtime::draw_conversations));
    if (is_writer()) {
      std::filesystem::create_directories(texts_.folder);
      write_text_file(file, lines);
    }
    return training_text_of_lines(file.string(), lines, tokenizer, read_, notes_);
  }

  const LanguageTraining& training_;
  const TrainingTexts& texts_;
  const text::ReadFile& read_;
  tasks::LanguageRequest& request_;
  Observer& observer_;
  Observer silent_;
  Observer& notes_;  ///< where processes train together, only one tells notes on texts
};

}  // namespace

void read_training_texts(const LanguageTraining& training, const TrainingTexts& texts,
                         const text::ReadFile& read, tasks::LanguageRequest& request, Observer& observer) {
  TextsReader reader(training, texts, read, request, observer);
  models::is_encoder(request.network) ? reader.read_lines() : reader.read_text();
}

}  // namespace crumb::jobs
