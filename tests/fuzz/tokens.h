// What every tokenizer promises, whatever its file says.
#pragma once

#include <string_view>

#include "text/text_tokenizer.h"

namespace crumb::testing {

/// Encodes the text and decodes ids, those of the text and such as no text gives: encoding is a function, and a stream of ids
/// gives their text, in whole characters. Throws crumb::Error as the tokenizer does.
void check_tokenizer(const text::TextTokenizer& tokenizer, std::string_view text);

}  // namespace crumb::testing
