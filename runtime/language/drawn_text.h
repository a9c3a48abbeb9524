// Text that a language model draws from itself: what it can be learned from where there is no other. Any text
// (LLM-QAT, Liu et al., arXiv:2305.17888), or conversations (Magpie, Xu et al., arXiv:2406.08464).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/language/language_model.h"

namespace crumb::runtime {

struct DrawnText {
  std::size_t sequences = 1;
  std::size_t length = 512;  ///< tokens of each
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: those that the machine has; never changes the tokens
};

/// Called with how many sequences are done.
using SequencesDone = std::function<void(std::size_t)>;

/// sequences * length tokens, sequence by sequence. A sequence is texts one after the other, each from a
/// token of chance that is not special, behind the tokenizer's first one where there is one, on by drawing
/// from all tokens at temperature 1 until it ends, which its end token then says, or is as long as the model
/// has positions (or as LanguageModel::switch_at). Throws Interrupted.
std::vector<std::int64_t> draw_text(const LanguageModel& model, const DrawnText& how,
                                    const SequencesDone& done = {});

/// What a person says, and the answer.
struct DrawnConversation {
  std::string question, answer;
  bool is_cut = false;  ///< the answer, where the sequence or the model's positions end
};

/// Those that sequences of the length have room for, one after the other. The template writes what stands
/// before a question; the model draws the question at temperature 1 until it ends, the template goes on, and
/// the model draws the answer at temperature kAnswerTemperature until that ends. A question that the end of a
/// sequence cuts, and what is empty, no UTF-8, or goes on with a special token, is left out. Throws Error as
/// LanguageModel::chat_template and draw_text do, where the template does not write a question as it is or an
/// answer behind its prompt, and where nothing is left.
std::vector<DrawnConversation> draw_conversations(const LanguageModel& model, const DrawnText& how,
                                                  const SequencesDone& done = {});

inline constexpr double kAnswerTemperature = 0.7;

}  // namespace crumb::runtime
