// A conversation as a JSON file has it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

namespace crumb::text {

struct ChatConversation {
  nlohmann::ordered_json
      messages;  ///< a list of objects with a role, and what else the template knows: content, tool_calls ...
  nlohmann::ordered_json extra;  ///< an object: what else templates are told, "tools", "enable_thinking" ...
  /// The last message has no end yet: "continue_final_message" beside them, as transformers' apply_chat_template calls it.
  bool is_cut = false;
};

/// A list of messages, or an object whose "messages" is such a list. What stands beside them is `extra`, and of
/// "chat_template_kwargs" the members are; "tools" and "documents" are lists, or null, which is none. The order of members is
/// kept. Throws Error that begins with `name`.
ChatConversation parse_conversation(std::string_view json, const std::string& name);

/// A conversation of a data set, or the text of an object with "text" and without "messages". Its other columns are no
/// variables of a template: of what stands beside the messages, "tools" (also as JSON in a string), "documents" and the members
/// of "chat_template_kwargs" are. Throws Error that begins with `name`.
std::variant<std::string, ChatConversation> parse_text_or_conversation(std::string_view json,
                                                                       const std::string& name);

/// Its messages.
nlohmann::ordered_json parse_messages(std::string_view json, const std::string& name);

}  // namespace crumb::text
