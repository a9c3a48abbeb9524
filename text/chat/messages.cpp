#include "text/chat/messages.h"

#include <cstdint>
#include <span>
#include <utility>

#include "base/files/text.h"
#include "base/json/bounded_json.h"

namespace crumb::text {

ChatConversation parse_conversation(std::string_view json, const std::string& name) {
  using OrderedJson = nlohmann::ordered_json;
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  constexpr unsigned kMostDepth = 64;
  const auto fail = [&name](const std::string& why) { return Error(name + ": " + why); };
  if (json.size() > kMostBytes) throw fail("a conversation of " + byte_text(json.size()));
  check_json_tokens(std::as_bytes(std::span(json)), kMostBytes, kMostDepth).take(name);
  OrderedJson parsed;
  try {
    parsed = OrderedJson::parse(json);
  } catch (const OrderedJson::parse_error& error) {
    throw fail(json_error_text(error.byte, error.what()));
  } catch (const OrderedJson::exception& error) {
    throw fail(printable(error.what()));
  }
  OrderedJson messages = parsed.is_object() && parsed.contains("messages") ? parsed["messages"] : parsed;
  if (!messages.is_array()) throw fail("expected a list of messages");
  if (messages.empty()) throw fail("there is no message");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const OrderedJson& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      throw fail("message " + std::to_string(i) + ": expected an object with a \"role\"");
  }
  const bool is_cut =
      parsed.is_object() && parsed.value("continue_final_message", OrderedJson()) == OrderedJson(true);
  ChatConversation conversation{
      .messages = std::move(messages), .extra = OrderedJson::object(), .is_cut = is_cut};
  for (const char* beside : {"tools", "documents"})
    if (parsed.is_object() && parsed.contains(beside) && parsed[beside].is_array())
      conversation.extra[beside] = parsed[beside];
  return conversation;
}

nlohmann::ordered_json parse_messages(std::string_view json, const std::string& name) {
  return parse_conversation(json, name).messages;
}

}  // namespace crumb::text
