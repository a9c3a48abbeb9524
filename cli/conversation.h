// A conversation with a language model: what was said, and Ctrl-C that ends answers and not the program.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "runtime/language/generate.h"

namespace crumb::cli {

class Conversation {
 public:
  /// Model and decoding must outlive it. system: what the model is told first; "": nothing of ours.
  Conversation(const runtime::LanguageModel& model, runtime::Decoding& decoding, const std::string& system);

  /// What the model answers to this, as it is shown too.
  runtime::Answer say(const std::string& text, const runtime::GenerateOptions& options,
                      const std::function<void(std::string_view)>& show);

  /// A turn for each line of standard input, until its end. On a terminal a prompt stands before each.
  void run(const runtime::GenerateOptions& options);

 private:
  /// All that was said, for the model to answer; where that leaves no room in the context and it may, without the oldest turns.
  std::vector<text::TokenId> prompt(bool shift);

  const runtime::LanguageModel& model_;
  runtime::Decoding& decoding_;
  std::vector<text::ChatMessage> messages_;
};

}  // namespace crumb::cli
