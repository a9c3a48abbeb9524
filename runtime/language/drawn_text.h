// Text that a language model draws from itself: what it can be learned from where there is no other (LLM-QAT, Liu et al.,
// arXiv:2305.17888).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/language/language_model.h"

namespace crumb::runtime {

struct DrawnText {
  std::size_t sequences = 1;
  std::size_t length = 512;  ///< tokens of each
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: those that the machine has; never changes the tokens
};

/// sequences * length tokens, sequence by sequence. A sequence is texts one after the other, each from a token of chance that is
/// not special, behind the tokenizer's first one where there is one, on by drawing from all tokens at temperature 1 until it
/// ends, which its end token then says. `done`: after each sequence, by one thread at a time. Throws Error where a sequence is
/// longer than the model has positions, and Error(kInterrupted).
std::vector<std::int64_t> draw_text(const LanguageModel& model, const DrawnText& how,
                                    const std::function<void(std::size_t)>& done = {});

}  // namespace crumb::runtime
