// The command that a person gave, for reports that tell how to repeat it.
#pragma once

#include <string>
#include <vector>

namespace crumb::cli {

/// Remembers the arguments, without the program's name.
void remember_command(const std::vector<std::string>& arguments);

/// "crumb eval 'my net.crumb' ...", words quoted as shells take them, without --report: a page is the same under every
/// name.
std::string said_command();

}  // namespace crumb::cli
