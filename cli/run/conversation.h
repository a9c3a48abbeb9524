// A conversation with a language model: its messages, and Ctrl-C that ends answers and not the program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/language/generate.h"

namespace crumb::cli {

class Conversation {
 public:
  /// Model and decoding must outlive it. system: the system message; "": none.
  Conversation(const runtime::LanguageModel& model, runtime::Decoding& decoding, const std::string& system);

  /// Returns the model's answer to this text, and shows it as it comes.
  runtime::Answer say(const std::string& text, const runtime::GenerateOptions& options,
                      const std::function<void(std::string_view)>& show);

  /// Takes one turn for each line of standard input, until its end. On a terminal it prints a prompt before
  /// each line; Ctrl-C at the prompt ends the conversation. Throws Interrupted for Ctrl-C before the first
  /// prompt, and while it waits for input that is no terminal. The lines "/adapters on" and "/adapters off"
  /// go to `switch_adapters`, not to the model.
  void run(const runtime::GenerateOptions& options, const std::function<void(bool)>& switch_adapters);

  /// Lets this network give the next answers; it runs over all messages once more. Both must outlive it.
  void speak_by(const runtime::LanguageModel& model, runtime::Decoding& decoding) {
    model_ = &model;
    decoding_ = &decoding;
  }
  const runtime::Decoding& decoding() const { return *decoding_; }

 private:
  /// Returns all messages as tokens for the model to answer; where they leave no room in the context, without
  /// the oldest turns if `shift` allows it.
  std::vector<text::TokenId> prompt(bool shift);

  const runtime::LanguageModel* model_;
  runtime::Decoding* decoding_;
  std::vector<text::ChatMessage> messages_;
};

}  // namespace crumb::cli
