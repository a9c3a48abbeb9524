// Text that a language model draws from itself, to train on where there is no other text: any text (LLM-QAT,
// Liu et al., arXiv:2305.17888), or conversations (Magpie, Xu et al., arXiv:2406.08464).
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

/// Called with the number of sequences that are done.
using SequencesDone = std::function<void(std::size_t)>;

/// Returns sequences * length tokens, sequence by sequence. A sequence is one text after another. Each begins
/// with the tokenizer's first token, if it has one, and a random token that is not special; the rest is drawn
/// from all tokens at temperature 1. A text ends with its end token, or when it is as long as the model has
/// positions (or as LanguageModel::switch_at). Throws Interrupted.
std::vector<std::int64_t> draw_text(const LanguageModel& model, const DrawnText& how,
                                    const SequencesDone& done = {});

/// A question of a user, and the answer.
struct DrawnConversation {
  std::string question, answer;
  bool is_cut = false;  ///< the answer is cut by the end of the sequence or of the model's positions
};

/// Returns the conversations that fit into sequences of this length, one after another. The template writes
/// what is before a question; the model draws the question at temperature 1 until it ends, the template goes
/// on, and the model draws the answer at temperature kAnswerTemperature until that ends. Left out are
/// questions that the end of a sequence cuts, and texts that are empty, no UTF-8, or continue with a special
/// token. Throws Error as LanguageModel::chat_template and draw_text do, where the template changes a
/// question or puts an answer anywhere but behind its prompt, and where nothing is left.
std::vector<DrawnConversation> draw_conversations(const LanguageModel& model, const DrawnText& how,
                                                  const SequencesDone& done = {});

inline constexpr double kAnswerTemperature = 0.7;

}  // namespace crumb::runtime
