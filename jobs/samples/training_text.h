// Texts that language models are trained by: --data TEXT or CONVERSATIONS.jsonl.
#pragma once

#include <string>
#include <string_view>

#include "jobs/observer.h"
#include "tasks/language/text/language_text.h"
#include "text/text_tokenizer.h"
#include "text/tokenizer.h"

namespace crumb::jobs {

/// The tokens of a file. One that ends in .jsonl has a text or a conversation on each line. A text is an
/// object with "text" and without "messages": all its tokens count, behind what the tokenizer puts in front
/// of texts, and so does the end token behind it, where there is one. A conversation is a list of messages,
/// or an object with "messages", and "tools" and "documents" for the template, which the model's chat
/// template renders, and the tokens of answers alone count: what the template writes behind the prompt of an
/// answer until the next message, with what ends it. Where a template writes earlier answers in another way
/// than the last one, each answer becomes a conversation of its own.
///
/// Throws Error that names file and line: a line that is neither or that the template refuses, nothing that
/// counts in the file, an answer that does not follow its own prompt. `read` gives the model's files; the
/// observer hears of conversations that are left out.
tasks::LanguageText read_training_text(const std::string& file, const text::TextTokenizer& tokenizer,
                                       const text::ReadFile& read, Observer& observer);

/// Those of a .jsonl file that holds `lines`; `file`: for messages.
tasks::LanguageText training_text_of_lines(const std::string& file, std::string_view lines,
                                           const text::TextTokenizer& tokenizer, const text::ReadFile& read,
                                           Observer& observer);

}  // namespace crumb::jobs
