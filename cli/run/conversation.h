// A conversation with a language model: what was said, and Ctrl-C that ends answers and not the program.
#pragma once

#include <functional>
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

  /// A turn for each line of standard input, until its end. On a terminal a prompt stands before each, and Ctrl-C at it is an
  /// end; before the first, and where a wait for other input ends by it, Interrupted is thrown. The lines
  /// "/adapters on" and "/adapters off" are said to `switch_adapters`, not to the model.
  void run(const runtime::GenerateOptions& options, const std::function<void(bool)>& switch_adapters);

  /// The next answers are by this network, for which all that was said is run once more. Both must outlive it.
  void speak_by(const runtime::LanguageModel& model, runtime::Decoding& decoding) {
    model_ = &model;
    decoding_ = &decoding;
  }
  const runtime::Decoding& decoding() const { return *decoding_; }

 private:
  /// All that was said, for the model to answer; where that leaves no room in the context and it may, without the oldest turns.
  std::vector<text::TokenId> prompt(bool shift);

  const runtime::LanguageModel* model_;
  runtime::Decoding* decoding_;
  std::vector<text::ChatMessage> messages_;
};

}  // namespace crumb::cli
