// Checks the encoding of texts that a person gives, which should be UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "jobs/observer.h"

namespace crumb::jobs {

/// Tells the observer which bytes of a text are not UTF-8 and count as U+FFFD, and which encoding the text
/// seems to have. Throws Error for a text of 16 or 32 bits a character, none of which could be read. `name`
/// for messages: "'notes.txt'".
void check_encoding(std::string_view text, const std::string& name, Observer& observer);

}  // namespace crumb::jobs
