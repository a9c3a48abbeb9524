// Conversations in JSON files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

namespace crumb::text {

struct ChatConversation {
  nlohmann::ordered_json
      messages;  ///< a list of objects with a role, and what else the template knows: content, tool_calls ...
  /// An object: the template's other variables, "tools", "enable_thinking" ...
  nlohmann::ordered_json extra;
  /// The last message is to be continued: "continue_final_message" next to the messages, as in transformers'
  /// apply_chat_template.
  bool is_cut = false;
};

/// Takes a list of messages, or an object whose "messages" is such a list. The object's other members become
/// `extra`, those of "chat_template_kwargs" one by one; "tools" and "documents" are lists, or null, which
/// means none. The order of members is kept. Throws Error, which begins with `name`.
ChatConversation parse_conversation(std::string_view json, const std::string& name);

/// Takes a conversation of a data set, or an object with "text" and without "messages". Other columns are not
/// variables of a template, except for "tools" (also as JSON in a string), "documents" and the members of
/// "chat_template_kwargs". Throws Error, which begins with `name`.
std::variant<std::string, ChatConversation> parse_text_or_conversation(std::string_view json,
                                                                       const std::string& name);

/// The messages of a conversation.
nlohmann::ordered_json parse_messages(std::string_view json, const std::string& name);

}  // namespace crumb::text
