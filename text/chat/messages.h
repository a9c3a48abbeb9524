// A conversation as a JSON file has it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace crumb::text {

/// A list of messages, each an object with a role (and what else the template knows: content, tool_calls ...), or an object
/// whose "messages" is such a list. The order of members is kept. Throws Error that begins with `name`.
nlohmann::ordered_json parse_messages(std::string_view json, const std::string& name);

}  // namespace crumb::text
