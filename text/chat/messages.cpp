#include "text/chat/messages.h"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/files/text.h"
#include "base/json/bounded_json.h"

namespace crumb::text {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson parse(std::string_view json, const std::string& name) {
  constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  constexpr unsigned kMostDepth = 64;
  if (json.size() > kMostBytes) throw Error(name + ": a conversation of " + byte_text(json.size()));
  check_json_tokens(std::as_bytes(std::span(json)), kMostBytes, kMostDepth).take(name);
  try {
    return OrderedJson::parse(json);
  } catch (const OrderedJson::parse_error& error) {
    throw Error(name + ": " + json_error_text(error.byte, error.what()));
  } catch (const OrderedJson::exception& error) {
    throw Error(name + ": " + printable(error.what()));
  }
}

/// "tools" or "documents": a list, or a list as text; nothing where it is null. Lines of data sets use these
/// names for other things, too.
std::optional<OrderedJson> list_beside(const OrderedJson& value, const std::string& key, bool is_data,
                                       const std::string& name) {
  if (value.is_null()) return std::nullopt;
  const bool is_text = value.is_string() && OrderedJson::accept(value.get_ref<const std::string&>());
  if (is_data && !value.is_array() && !is_text) return std::nullopt;
  const OrderedJson list =
      value.is_string() ? parse(value.get_ref<const std::string&>(), name + ": " + key) : value;
  if (!list.is_array())
    throw Error(name + ": " + key + ": expected a list, found " + std::string(value.type_name()));
  return list;
}

/// The template's variables other than the messages.
OrderedJson variables_beside(const OrderedJson& parsed, bool is_data, const std::string& name) {
  OrderedJson extra = OrderedJson::object();
  if (!parsed.is_object()) return extra;
  for (const auto& [key, value] : parsed.items()) {
    if (key == "messages" || key == "continue_final_message") continue;
    if (key == "tools" || key == "documents") {
      if (auto list = list_beside(value, key, is_data, name)) extra[key] = *std::move(list);
    } else if (key == "chat_template_kwargs" && !value.is_null()) {
      if (!value.is_object()) throw Error(name + ": chat_template_kwargs: expected an object");
      for (const auto& [variable, given] : value.items()) extra[variable] = given;
    } else if (is_data) {
      continue;
    } else if (key == "chat_template") {
      throw Error(name +
                  ": chat_template: a conversation's own template is not read; put it into "
                  "chat_template.jinja of the model's folder");
    } else {
      extra[key] = value;
    }
  }
  return extra;
}

ChatConversation conversation_of(const OrderedJson& parsed, bool is_data, const std::string& name) {
  const auto fail = [&name](const std::string& why) { return Error(name + ": " + why); };
  OrderedJson messages = parsed.is_object() && parsed.contains("messages") ? parsed["messages"] : parsed;
  if (!messages.is_array()) throw fail("expected a list of messages");
  if (messages.empty()) throw fail("there is no message");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const OrderedJson& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      throw fail("message " + std::to_string(i) + ": expected an object with a \"role\"");
  }
  const OrderedJson is_cut =
      parsed.is_object() ? parsed.value("continue_final_message", OrderedJson(false)) : OrderedJson(false);
  if (!is_cut.is_boolean() && !is_cut.is_null())
    throw fail("continue_final_message: expected true or false, found " + std::string(is_cut.type_name()));
  ChatConversation conversation{.messages = std::move(messages),
                                .extra = variables_beside(parsed, is_data, name),
                                .is_cut = is_cut == OrderedJson(true)};
  return conversation;
}

}  // namespace

ChatConversation parse_conversation(std::string_view json, const std::string& name) {
  return conversation_of(parse(json, name), false, name);
}

std::variant<std::string, ChatConversation> parse_text_or_conversation(std::string_view json,
                                                                       const std::string& name) {
  const OrderedJson parsed = parse(json, name);
  const bool has_messages =
      parsed.is_object() && parsed.contains("messages") && !parsed["messages"].is_null();
  if (!parsed.is_object() || has_messages) return conversation_of(parsed, true, name);
  if (const auto text = parsed.find("text"); text != parsed.end() && text->is_string())
    return text->get<std::string>();
  throw Error(name + R"(: expected "messages", or "text" that is one; found )" +
              (parsed.empty() ? "an empty object" : "the key " + quote_text(parsed.begin().key())));
}

nlohmann::ordered_json parse_messages(std::string_view json, const std::string& name) {
  return parse_conversation(json, name).messages;
}

}  // namespace crumb::text
