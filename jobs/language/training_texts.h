// The texts that a language model trains on: files, or texts that the float network generates.
#pragma once

#include <filesystem>
#include <string>

#include "jobs/language_training.h"
#include "jobs/observer.h"
#include "tasks/language/language_trainer.h"
#include "text/tokenizer.h"

namespace crumb::jobs {

/// Values of `data`: a text that the float network generates, or conversations that it generates.
inline constexpr const char* kSynthetic = "synthetic";
inline constexpr const char* kSyntheticChat = "synthetic-chat";
inline bool is_drawn(const std::string& data) { return data == kSynthetic || data == kSyntheticChat; }

struct TrainingTexts {
  std::string data;   ///< a file, or one of those names
  std::string valid;  ///< the text to measure by; "": none
  /// Keeps a generated text (synthetic.npy) or conversations (synthetic.jsonl) for a run that is resumed.
  std::filesystem::path folder;
};

/// Reads the texts for the request's network; for an encoder, reads lines. `read` returns the model's files.
/// Throws what read_training_text, read_lines and the generation throw, and usage Error where a sequence is
/// longer than the model's positions, or an encoder is to generate the text. Checks all else of the request
/// before it generates a text.
void read_training_texts(const LanguageTraining& training, const TrainingTexts& texts,
                         const text::ReadFile& read, tasks::LanguageRequest& request, Observer& observer);

}  // namespace crumb::jobs
