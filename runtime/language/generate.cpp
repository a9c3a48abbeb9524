#include "runtime/language/generate.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/seconds.h"
#include "runtime/meter.h"
#include "text/stream_decoder.h"

namespace crumb::runtime {
namespace {

using text::TokenId;

/// Text on its way to the user: the possible beginning of a stop is held back.
class StoppingText {
 public:
  StoppingText(const std::vector<std::string>& stops, const std::function<void(std::string_view)>& show)
      : stops_(stops), show_(show) {}

  /// Returns whether a stop has come.
  bool push(std::string_view more) {
    text_ += more;
    std::size_t stop = std::string::npos;
    for (const std::string& text : stops_) stop = std::min(stop, text_.find(text, shown_));
    const bool stops = stop != std::string::npos;
    if (stops) text_.resize(stop);
    show_until(stops ? text_.size() : text_.size() - held_back());
    return stops;
  }

  std::string finish() {
    show_until(text_.size());
    return std::move(text_);
  }

 private:
  /// The number of bytes at the end with which a stop begins.
  std::size_t held_back() const {
    std::size_t most = 0;
    for (const std::string& stop : stops_) {
      for (std::size_t size = std::min(stop.size() - 1, text_.size() - shown_); size > most; --size) {
        if (std::string_view(text_).substr(text_.size() - size) == std::string_view(stop).substr(0, size))
          most = size;
      }
    }
    return most;
  }

  void show_until(std::size_t end) {
    if (show_ && end > shown_) show_(std::string_view(text_).substr(shown_, end - shown_));
    shown_ = end;
  }

  const std::vector<std::string>& stops_;
  const std::function<void(std::string_view)>& show_;
  std::string text_;
  std::size_t shown_ = 0;
};

/// Keeps the newest half of the tokens and feeds it with the next token. The tokenizer's first token comes
/// before it where all of them begin with one and a position is free.
std::span<const float> shift_and_feed(Decoding& decoding, const LanguageModel& model, TokenId id) {
  const std::vector<TokenId>& all = decoding.ids();
  std::vector<TokenId> kept(all.end() - static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  if (!kept.empty() && model.first_token() == all.front()) kept.front() = all.front();
  kept.push_back(id);
  return decoding.replace(0, kept);
}

std::span<const float> run_prompt(Decoding& decoding, std::span<const TokenId> prompt, Answer& answer) {
  if (prompt.empty()) throw Error("the prompt is empty: there is nothing to answer", ErrorKind::kUsage);
  const std::vector<TokenId>& there = decoding.ids();
  const auto differ = std::ranges::mismatch(there, prompt.first(prompt.size() - 1));
  const auto alike = static_cast<std::size_t>(differ.in1 - there.begin());
  const double start = now_seconds();
  const std::span<const float> logits = decoding.replace(alike, prompt.subspan(alike));
  answer.prompt_tokens = prompt.size() - alike;
  answer.prompt_seconds = now_seconds() - start;
  return logits;
}

}  // namespace

std::string_view name_of(StoppedBy reason) {
  switch (reason) {
    case StoppedBy::kEnd: return "end";
    case StoppedBy::kStop: return "stop";
    case StoppedBy::kTokens: return "tokens";
    case StoppedBy::kInterrupt: break;
  }
  return "interrupt";
}

Answer generate(const LanguageModel& model, Decoding& decoding, std::span<const TokenId> prompt,
                const GenerateOptions& options, const std::function<void(std::string_view)>& show) {
  if (std::ranges::find(options.stops, std::string()) != options.stops.end())
    throw Error("a stop is the empty text, which is everywhere", ErrorKind::kUsage);
  Answer answer;
  Sampler sampler(options.sampling);
  text::StreamDecoder decoder(model.tokenizer());
  StoppingText text(options.stops, show);
  std::span<const float> logits = run_prompt(decoding, prompt, answer);
  const double start = now_seconds();
  while (answer.ids.size() < options.tokens) {
    const TokenId id = sampler.choose(logits, decoding.ids());
    if (std::ranges::find(model.end_tokens(), id) != model.end_tokens().end()) {
      answer.stopped_by = StoppedBy::kEnd;
      break;
    }
    answer.ids.push_back(id);
    if (text.push(decoder.push(id))) {
      answer.stopped_by = StoppedBy::kStop;
      break;
    }
    if (answer.ids.size() == options.tokens) break;
    try {
      const bool shifts = options.shift && decoding.ids().size() == decoding.context();
      logits = shifts ? shift_and_feed(decoding, model, id) : decoding.feed({&id, 1});
    } catch (const Interrupted&) {
      answer.stopped_by = StoppedBy::kInterrupt;
      break;
    } catch (const Stopped& stopped) {
      if (stopped.reason() != StopReason::kCancelled) throw;
      answer.stopped_by = StoppedBy::kInterrupt;
      break;
    }
  }
  if (answer.stopped_by != StoppedBy::kStop && text.push(decoder.finish()))
    answer.stopped_by = StoppedBy::kStop;
  answer.text = text.finish();
  answer.answer_seconds = now_seconds() - start;
  return answer;
}

}  // namespace crumb::runtime
