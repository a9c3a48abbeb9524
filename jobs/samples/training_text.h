// Reads texts that language models are trained on: --data TEXT or CONVERSATIONS.jsonl.
#pragma once

#include <string>
#include <string_view>

#include "jobs/observer.h"
#include "tasks/language/text/language_text.h"
#include "text/text_tokenizer.h"
#include "text/tokenizer.h"

namespace crumb::jobs {

/// Returns the tokens of a file. A file that ends in .jsonl has a text or a conversation on each line. A text
/// is an object with "text" and without "messages": all its tokens count, after those that the tokenizer puts
/// before each text; so does the end token after it, where there is one. A conversation is a list of
/// messages, or an object with "messages", and with "tools" and "documents" for the template. The model's
/// chat template renders it, and only the tokens of answers count: what the template writes from the end of
/// an answer's prompt to the next message, its end marks included. Where a template renders earlier answers
/// otherwise than the last one, each answer becomes a conversation of its own.
///
/// Throws Error that names file and line, for a line that is neither or that the template refuses, a file in
/// which no token counts, and an answer that does not follow its own prompt. `read` returns the model's
/// files; the observer hears of conversations that are left out.
tasks::LanguageText read_training_text(const std::string& file, const text::TextTokenizer& tokenizer,
                                       const text::ReadFile& read, Observer& observer);

/// Reads a .jsonl file that contains `lines`; `file`: its name, for messages.
tasks::LanguageText training_text_of_lines(const std::string& file, std::string_view lines,
                                           const text::TextTokenizer& tokenizer, const text::ReadFile& read,
                                           Observer& observer);

}  // namespace crumb::jobs
