// Generates an answer, token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/language/decoding.h"
#include "runtime/language/sampler.h"

namespace crumb::runtime {

struct GenerateOptions {
  std::size_t tokens = 128;  ///< at most
  Sampling sampling;
  std::vector<std::string> stops;  ///< texts that end an answer and are not part of it
  bool shift = false;              ///< whether a full context drops its oldest half; else it is an error
};

enum class StoppedBy : std::uint8_t { kEnd, kStop, kTokens, kInterrupt };
std::string_view name_of(StoppedBy reason);  ///< "end", "stop", "tokens", "interrupt"

struct Answer {
  std::string text;
  std::vector<text::TokenId> ids;  ///< without the end token
  StoppedBy stopped_by = StoppedBy::kTokens;
  std::size_t prompt_tokens = 0;  ///< that were run
  double prompt_seconds = 0, answer_seconds = 0;
};

/// Answers `prompt`, which is the whole conversation so far. Tokens that the decoding already has and that
/// the prompt begins with are kept, others are dropped. Afterwards the decoding has the prompt and the
/// answer, whose last token has been chosen but not run. `show` gets text as it comes, in whole characters,
/// without what may become a stop. An interrupt ends the answer; one before the first token is thrown on, and
/// leaves the decoding as it was; one while a full context is shifted leaves the full one. Throws Error as
/// Decoding::feed does, and Error(kUsage) where the prompt or a stop is empty.
Answer generate(const LanguageModel& model, Decoding& decoding, std::span<const text::TokenId> prompt,
                const GenerateOptions& options, const std::function<void(std::string_view)>& show = {});

}  // namespace crumb::runtime
