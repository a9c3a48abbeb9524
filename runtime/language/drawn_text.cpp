#include "runtime/language/drawn_text.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/threads/parallel.h"
#include "runtime/language/decoding_rows.h"
#include "runtime/language/sampler.h"

namespace crumb::runtime {
namespace {

using text::TokenId;
using Logits = std::span<const float>;

/// Sequences that are drawn together: enough for weights to be read seldom, few enough for their keys and
/// values.
constexpr std::size_t kRows = 16;

bool ends(const LanguageModel& model, TokenId id) {
  return std::ranges::find(model.end_tokens(), id) != model.end_tokens().end();
}

/// Whether it may begin a text. Tables may have more rows than there are tokens.
bool is_ordinary(const LanguageModel& model, TokenId id) {
  return model.tokenizer().piece(id) != nullptr && !ends(model, id) && !model.tokenizer().is_special(id);
}

/// The most tokens of a text. A longer text may change its frequencies and would have to be run again.
std::size_t longest_of(const LanguageModel& model) {
  return model.switch_at() > 0 ? std::min(model.switch_at(), model.positions()) : model.positions();
}

struct Step {
  TokenId id;
  bool begins;  ///< a text
};

/// Writes one sequence, token by token.
class Writer {
 public:
  Writer() = default;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  virtual ~Writer() = default;

  virtual bool is_done() const = 0;
  /// `logits` follow the token before; the first step has none.
  virtual Step next(Logits logits) = 0;
};

class TextWriter final : public Writer {
 public:
  TextWriter(const LanguageModel& model, std::size_t length, std::uint64_t seed)
      : model_(model), length_(length), longest_(longest_of(model)), random_(seed) {}

  bool is_done() const override { return tokens_.size() == length_; }

  Step next(Logits logits) override {
    if (text_ == 0 || text_ >= longest_) return begin();
    const TokenId id = is_behind_first_ ? ordinary_token() : sampler_->choose(logits, {});
    is_behind_first_ = false;
    tokens_.push_back(id);
    text_ = ends(model_, id) ? 0 : text_ + 1;
    return {id, false};
  }

  std::vector<std::int64_t> take() { return std::move(tokens_); }

 private:
  Step begin() {
    sampler_.emplace(Sampling{.temperature = 1, .seed = random_()});
    text_ = 1;
    is_behind_first_ = model_.first_token().has_value();
    if (is_behind_first_) return {*model_.first_token(), true};
    tokens_.push_back(ordinary_token());
    return {static_cast<TokenId>(tokens_.back()), true};
  }

  TokenId ordinary_token() {
    for (;;) {
      const auto id = static_cast<TokenId>(random_() % model_.vocabulary());
      if (is_ordinary(model_, id)) return id;
    }
  }

  const LanguageModel& model_;
  std::size_t length_, longest_, text_ = 0;  ///< tokens that the text has; 0: none is begun
  bool is_behind_first_ = false;
  std::mt19937_64 random_;
  std::optional<Sampler> sampler_;
  std::vector<std::int64_t> tokens_;
};

/// What the template writes before a question, and between it and the answer.
struct Frame {
  std::vector<TokenId> before, behind;
};

Frame frame_of(const LanguageModel& model) {
  const auto fail = [](const std::string& why) {
    return Error("the chat template " + why + ": conversations cannot be drawn");
  };
  const std::string question = "QuestionOfChance";
  const text::ChatMessage messages[] = {{.role = "user", .content = question},
                                        {.role = "assistant", .content = "Answer"}};
  const std::span<const text::ChatMessage> all(messages);
  const std::string whole = model.chat_template().render(all.first(1), {.add_generation_prompt = true});
  const std::size_t at = whole.find(question);
  if (at == std::string::npos || whole.find(question, at + 1) != std::string::npos)
    throw fail("does not write a question once and as it is");
  if (!model.chat_template().render(all, {}).starts_with(whole))
    throw fail("writes an answer otherwise than behind its own prompt");
  const auto encoded = [&](std::string_view part) { return model.tokenizer().encode(part, false); };
  Frame frame{.before = encoded(whole.substr(0, at)), .behind = encoded(whole.substr(at + question.size()))};
  if (frame.before.empty() || frame.behind.empty())
    throw fail("writes nothing before a question, or nothing behind it");
  return frame;
}

class ConversationWriter final : public Writer {
 public:
  ConversationWriter(const LanguageModel& model, const Frame& frame, std::size_t length, std::uint64_t seed)
      : model_(model), frame_(frame), left_(length), longest_(longest_of(model)), random_(seed) {}

  bool is_done() const override { return left_ == 0; }

  Step next(Logits logits) override {
    --left_;
    if (part_ == Part::kNone) return begin();
    if (text_ == longest_) return end_cut();
    ++text_;
    if (!given_.empty()) return {take_given(), false};
    const TokenId id = sampler_->choose(logits, {});
    if (ends(model_, id)) return end_part();
    if (model_.tokenizer().is_special(id)) return begin();
    (part_ == Part::kQuestion ? question_ : answer_).push_back(id);
    if (is_done()) end_cut();
    return {id, false};
  }

  std::vector<DrawnConversation> take() { return std::move(done_); }

 private:
  enum class Part : std::uint8_t { kNone, kQuestion, kAnswer };

  TokenId take_given() {
    const TokenId id = given_.front();
    given_.pop_front();
    return id;
  }

  Step begin() {
    text_ = 1;
    return {start(Part::kQuestion, frame_.before, 1), true};
  }

  TokenId start(Part part, const std::vector<TokenId>& given, double temperature) {
    part_ = part;
    (part == Part::kQuestion ? question_ : answer_).clear();
    given_.assign(given.begin(), given.end());
    sampler_.emplace(Sampling{.temperature = temperature, .seed = random_()});
    return take_given();
  }

  /// Ends the question or the answer; the template writes its end.
  Step end_part() {
    if (part_ == Part::kQuestion && !question_.empty())
      return {start(Part::kAnswer, frame_.behind, kAnswerTemperature), false};
    keep(false);
    return begin();
  }

  Step end_cut() {
    keep(true);
    return begin();
  }

  void keep(bool is_cut) {
    if (part_ != Part::kAnswer) return;
    DrawnConversation conversation{.question = model_.tokenizer().decode(question_),
                                   .answer = model_.tokenizer().decode(answer_),
                                   .is_cut = is_cut};
    constexpr std::string_view kIllFormed = "\uFFFD";  // how bytes that are no character were decoded
    while (is_cut && conversation.answer.ends_with(kIllFormed))
      conversation.answer.resize(conversation.answer.size() - kIllFormed.size());
    const auto is_text = [&](const std::string& part) {
      return part.find(kIllFormed) == std::string::npos &&
             part.find_first_not_of(" \t\r\n") != std::string::npos;
    };
    if (is_text(conversation.question) && is_text(conversation.answer))
      done_.push_back(std::move(conversation));
  }

  const LanguageModel& model_;
  const Frame& frame_;
  std::size_t left_, longest_, text_ = 0;  ///< tokens that the conversation has
  Part part_ = Part::kNone;
  std::mt19937_64 random_;
  std::optional<Sampler> sampler_;
  std::deque<TokenId> given_;  ///< what the template writes next
  std::vector<TokenId> question_, answer_;
  std::vector<DrawnConversation> done_;
};

std::uint64_t seed_of(const DrawnText& how, std::size_t sequence) {
  std::seed_seq of_sequence{how.seed & 0xFFFFFFFFU, how.seed >> 32, std::uint64_t{sequence}};
  std::uint32_t words[2];
  of_sequence.generate(words, words + 2);
  return words[0] | std::uint64_t{words[1]} << 32;
}

/// Draws with all writers until they are done.
void draw(const LanguageModel& model, std::span<const std::unique_ptr<Writer>> writers, int threads) {
  const std::size_t vocabulary = model.vocabulary();
  DecodingRows decoding(model, writers.size(), threads);
  std::vector<Step> steps(writers.size());
  std::vector<TokenId> ids(writers.size());
  Logits logits;
  while (!std::ranges::all_of(writers, [](const auto& writer) { return writer->is_done(); })) {
    check_interrupt();
    parallel_for(writers.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const Logits own = logits.empty() ? logits : logits.subspan(i * vocabulary, vocabulary);
        // A writer that is done still takes part, with texts of one token.
        steps[i] = writers[i]->is_done() ? Step{steps[i].id, true} : writers[i]->next(own);
      }
    });
    for (std::size_t i = 0; i < writers.size(); ++i) {
      if (steps[i].begins) decoding.begin(i);
      ids[i] = steps[i].id;
    }
    logits = decoding.feed(ids);
  }
}

/// Draws sequences by the writers that make(seed) returns, kRows at a time. Calls take(writer) in the order
/// of the sequences.
template <class Make, class Take>
void draw_all(const LanguageModel& model, const DrawnText& how, const SequencesDone& done, const Make& make,
              const Take& take) {
  for (std::size_t first = 0; first < how.sequences; first += kRows) {
    std::vector<std::unique_ptr<Writer>> writers;
    const std::size_t end = std::min(first + kRows, how.sequences);
    for (std::size_t i = first; i < end; ++i) writers.push_back(make(seed_of(how, i)));
    draw(model, writers, how.threads);
    for (const auto& writer : writers) take(*writer);
    if (done) done(end);
  }
}

}  // namespace

std::vector<std::int64_t> draw_text(const LanguageModel& model, const DrawnText& how,
                                    const SequencesDone& done) {
  std::vector<TokenId> ids(model.vocabulary());
  std::iota(ids.begin(), ids.end(), TokenId{0});
  if (std::ranges::none_of(ids, [&](TokenId id) { return is_ordinary(model, id); }))
    throw Error("all tokens of the model are special or end a text: there is none to begin one with");
  std::vector<std::int64_t> all;
  draw_all(
      model, how, done,
      [&](std::uint64_t seed) { return std::make_unique<TextWriter>(model, how.length, seed); },
      [&](Writer& writer) {
        const std::vector<std::int64_t> tokens = static_cast<TextWriter&>(writer).take();
        all.insert(all.end(), tokens.begin(), tokens.end());
      });
  return all;
}

std::vector<DrawnConversation> draw_conversations(const LanguageModel& model, const DrawnText& how,
                                                  const SequencesDone& done) {
  const Frame frame = frame_of(model);
  std::vector<DrawnConversation> all;
  draw_all(
      model, how, done,
      [&](std::uint64_t seed) {
        return std::make_unique<ConversationWriter>(model, frame, how.length, seed);
      },
      [&](Writer& writer) {
        std::ranges::move(static_cast<ConversationWriter&>(writer).take(), std::back_inserter(all));
      });
  if (all.empty())
    throw Error("the model has drawn no conversation in " + std::to_string(how.sequences) + " sequences of " +
                std::to_string(how.length) + " tokens");
  return all;
}

}  // namespace crumb::runtime
