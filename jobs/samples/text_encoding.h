// Texts that a person gives, which are UTF-8.
#pragma once

#include <string>
#include <string_view>

#include "jobs/observer.h"

namespace crumb::jobs {

/// Tells the observer what of a text is not UTF-8 and counts as U+FFFD, and which encoding it looks like.
/// Throws Error of a text of 16 or 32 bits a character, of which nothing could be read. `name` for messages:
/// "'notes.txt'".
void check_encoding(std::string_view text, const std::string& name, Observer& observer);

}  // namespace crumb::jobs
