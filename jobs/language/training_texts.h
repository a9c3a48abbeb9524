// The texts that a language model trains by: files, or what the float network draws from itself.
#pragma once

#include <filesystem>
#include <string>

#include "jobs/language_training.h"
#include "jobs/observer.h"
#include "tasks/language/language_trainer.h"
#include "text/tokenizer.h"

namespace crumb::jobs {

/// As data: the text that the float network draws from itself, or conversations.
inline constexpr const char* kSynthetic = "synthetic";
inline constexpr const char* kSyntheticChat = "synthetic-chat";
inline bool is_drawn(const std::string& data) { return data == kSynthetic || data == kSyntheticChat; }

struct TrainingTexts {
  std::string data;   ///< a file, or one of those
  std::string valid;  ///< to measure by; "": none
  /// Keeps a text that is drawn (synthetic.npy), or conversations (synthetic.jsonl), for a run that goes on.
  std::filesystem::path folder;
};

/// Reads them for the request's network, of an encoder lines. `read` gives the model's files. Throws what
/// read_training_text, read_lines and the drawing do, and usage Error where the model has fewer positions
/// than a sequence, or is an encoder and the text is to be drawn. Before a text is drawn, all else of the
/// request is checked.
void read_training_texts(const LanguageTraining& training, const TrainingTexts& texts,
                         const text::ReadFile& read, tasks::LanguageRequest& request, Observer& observer);

}  // namespace crumb::jobs
