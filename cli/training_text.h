// Texts that language models are trained by: --data TEXT or CONVERSATIONS.jsonl.
#pragma once

#include <string>

#include "tasks/language/language_text.h"
#include "text/text_tokenizer.h"
#include "text/tokenizer.h"

namespace crumb::cli {

/// The tokens of a file. One that ends in .jsonl has a conversation on each line (a list of messages, or an object with
/// "messages", and "tools" and "documents" for the template), which the model's chat template renders, and the tokens of answers alone count: what the template writes behind
/// the prompt of an answer until the next message, with what ends it. Where a template writes earlier answers in another way
/// than the last one, each answer becomes a conversation of its own.
///
/// Throws Error that names file and line: a line that is no conversation or that the template refuses, no answer in the file, an
/// answer that does not follow its own prompt. `read` gives the model's files.
tasks::LanguageText read_training_text(const std::string& file, const text::TextTokenizer& tokenizer,
                                       const text::ReadFile& read);

}  // namespace crumb::cli
