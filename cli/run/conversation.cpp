#include "cli/run/conversation.h"

#include <unistd.h>

#include <iostream>

#include "base/files/interrupt.h"
#include "cli/run/conversation_input.h"

namespace crumb::cli {

Conversation::Conversation(const runtime::LanguageModel& model, runtime::Decoding& decoding,
                           const std::string& system)
    : model_(&model), decoding_(&decoding) {
  (void)model_->chat_template();
  if (!system.empty()) messages_.push_back({"system", system});
}

runtime::Answer Conversation::say(const std::string& text, const runtime::GenerateOptions& options,
                                  const std::function<void(std::string_view)>& show) {
  const std::vector<text::ChatMessage> before = messages_;
  messages_.push_back({"user", text});
  try {
    runtime::Answer answer = runtime::generate(*model_, *decoding_, prompt(options.shift), options, show);
    messages_.push_back({"assistant", answer.text});
    return answer;
  } catch (...) {
    messages_ = before;  // as if it had never been said: turns that were dropped to make room are back
    throw;
  }
}

std::vector<text::TokenId> Conversation::prompt(bool shift) {
  while (true) {
    const std::string text = model_->chat_template().render(messages_, {.add_generation_prompt = true});
    // A template writes all the special tokens itself.
    std::vector<text::TokenId> ids = model_->tokenizer().encode(text, false);
    const std::size_t first = messages_[0].role == "system" ? 1 : 0;
    if (!shift || ids.size() < decoding_->context() || messages_.size() < first + 3) return ids;
    const auto oldest = messages_.begin() + static_cast<std::ptrdiff_t>(first);
    messages_.erase(oldest, oldest + 2);  // a turn: the user's message and the answer
  }
}

void Conversation::run(const runtime::GenerateOptions& options,
                       const std::function<void(bool)>& switch_adapters) {
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1;
  const auto show = [](std::string_view text) { std::cout << text << std::flush; };
  ConversationInput input(STDIN_FILENO);
  check_interrupt();  // for a Ctrl-C while the model was opened
  while (true) {
    if (is_terminal) std::cout << "> " << std::flush;
    const std::optional<std::string> line = input.next();
    if (!line) break;
    if (line->empty()) continue;
    if (*line == "/adapters on" || *line == "/adapters off") {
      switch_adapters(line->ends_with("on"));
      continue;
    }
    try {
      (void)say(*line, options, show);
    } catch (const Interrupted&) {  // before the first token
    }
    input.forget_interrupts();
    std::cout << "\n";
  }
  if (!is_terminal) check_interrupt();  // unanswered lines may be left
  if (is_terminal) std::cout << "\n";
  input.forget_interrupts();
}

}  // namespace crumb::cli
