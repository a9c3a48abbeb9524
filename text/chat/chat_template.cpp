#include "text/chat/chat_template.h"

#include <array>
#include <utility>

#include "base/files/text.h"
#include "base/json/json_file.h"
#include "text/chat/renderer.h"
#include "text/unicode.h"

namespace crumb::text {

struct ChatTemplate::Parts {
  chat::Syntax syntax;
  std::string where;
  Tokens tokens;
};

namespace {

using chat::Kind;
using chat::Meter;
using chat::Pairs;
using chat::Trouble;
using chat::Value;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestTemplate = std::size_t{4} << 20;

Value text_value(const std::string& text) {
  return Value::text(is_utf8(text) ? text : unicode::encode(unicode::decode(text)));
}

/// `bytes` grows by the memory of the value.
Value value_of(const Json& json, std::uint64_t& bytes) {
  bytes += 8;
  switch (json.type()) {
    case Json::value_t::boolean: return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer: return Value::integer(json.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX)
        throw Trouble("an integer of more than 63 bits is not supported");
      return Value::integer(json.get<std::int64_t>());
    case Json::value_t::number_float: return Value::real(json.get<double>());
    case Json::value_t::string:
      bytes += json.get_ref<const std::string&>().size();
      return text_value(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      chat::List items;
      for (const Json& item : json) items.push_back(value_of(item, bytes));
      return Value::sequence(Kind::kList, std::move(items));
    }
    case Json::value_t::object: {
      Pairs entries;
      for (const auto& [key, item] : json.items()) {
        bytes += key.size();
        entries.emplace_back(text_value(key), value_of(item, bytes));
      }
      return Value::dict(std::move(entries));
    }
    default: return Value::none();
  }
}

/// A message as templates see it: the model's reasoning has several names, of which templates know one.
Value message_value(const Json& message, std::uint64_t& bytes) {
  if (!message.is_object()) throw Trouble("a message is no object");
  const Json* thought = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (thought == nullptr && found != message.end() && !found->is_null()) thought = &*found;
  }
  Json seen = Json::object();
  if (thought != nullptr) seen["thinking"] = *thought;
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) seen[key] = value;
  if (thought != nullptr) seen["reasoning_content"] = *thought;
  return value_of(seen, bytes);
}

/// A special token's text, which files write as a string or as an object.
std::optional<std::string> token_text(const nlohmann::json& config, const char* name) {
  const auto found = config.find(name);
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  const auto content = found->is_object() ? found->find("content") : nlohmann::json::const_iterator();
  if (!found->is_object() || content == found->end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

/// The template in tokenizer_config.json, or nothing. Of several, "tool_use" where there is one and tools are
/// given, else "default".
std::optional<std::string> template_in(const JsonFile& config, bool has_tools) {
  const auto found = config.root().find("chat_template");
  if (found == config.root().end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  std::string names;
  std::optional<std::string> usual;
  if (!found->is_array()) throw config.error("chat_template: expected a text, or a list of {name, template}");
  for (const nlohmann::json& entry : *found) {
    const auto name = entry.is_object() ? token_text(entry, "name") : std::nullopt;
    const auto text = entry.is_object() ? token_text(entry, "template") : std::nullopt;
    if (!name || !text) throw config.error("chat_template: expected a list of {name, template}");
    if (has_tools && *name == "tool_use") return text;
    if (*name == "default") usual = text;
    names += (names.empty() ? "" : ", ") + quote_text(*name);
  }
  if (usual) return usual;
  throw config.error("chat_template: found templates " + names + ", expected one named 'default'");
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view text, const std::string& where, Tokens tokens) {
  unsigned line = 1;
  if (text.size() > kLongestTemplate) throw Error(where + ": a chat template of " + byte_text(text.size()));
  try {
    ChatTemplate made;
    made.parts_ =
        std::make_shared<const Parts>(Parts{chat::parse_template(text, line), where, std::move(tokens)});
    return made;
  } catch (const Trouble& trouble) {
    throw Error(where + ": line " + std::to_string(line) + ": " + trouble.what());
  }
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, const Options& options) const {
  Json list = Json::array();
  for (const ChatMessage& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  return render(list, options);
}

std::string ChatTemplate::render(const Json& messages, const Options& options) const {
  std::optional<chat::Renderer> renderer;
  try {
    if (!messages.is_array() || messages.empty()) throw Trouble("there is no message to render");
    std::uint64_t bytes = 0;
    chat::List list;
    for (const Json& message : messages) list.push_back(message_value(message, bytes));
    Pairs context;
    for (const auto& [name, value] : options.extra.items())
      context.emplace_back(Value::text(name), value_of(value, bytes));
    Meter free(UINT64_MAX);
    const auto add = [&](const char* name, Value value) {  // unless `extra` has it
      if (chat::find(context, std::string_view(name), free) == nullptr)
        context.emplace_back(Value::text(name), std::move(value));
    };
    add("messages", Value::sequence(Kind::kList, std::move(list)));
    add("add_generation_prompt", Value::boolean(options.add_generation_prompt));
    add("tools", Value::none());
    add("documents", Value::none());
    for (const auto& [name, token] : parts_->tokens) add(name.c_str(), text_value(token));
    renderer.emplace(parts_->syntax, std::move(context), options.steps + kStepsPerByte * bytes,
                     options.now.value_or(std::time(nullptr)));
    return renderer->render();
  } catch (const Trouble& trouble) {
    const std::string line = renderer ? ": line " + std::to_string(renderer->line()) : "";
    throw Error(parts_->where + line + ": " + trouble.what());
  }
}

std::optional<ChatTemplate> load_chat_template(const ReadFile& read, const std::string& path,
                                               bool has_tools) {
  constexpr std::array<const char*, 7> kTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                  "pad_token", "cls_token", "mask_token"};
  const std::string folder = path.empty() || path.ends_with('/') ? path : path + "/";
  ChatTemplate::Tokens tokens;
  std::optional<std::string> text = read(folder + "chat_template.jinja");
  std::string where = folder + "chat_template.jinja";
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto file = read(folder + name);
    if (!file) continue;
    const JsonFile config(folder + name, *file);
    for (const char* token : kTokens)
      if (const auto found = token_text(config.root(), token)) tokens.try_emplace(token, *found);
    if (text || name != std::string_view("tokenizer_config.json")) continue;
    text = template_in(config, has_tools);
    where = config.name() + ": chat_template";
  }
  if (!text) return std::nullopt;
  return ChatTemplate::parse(*text, where, std::move(tokens));
}

}  // namespace crumb::text
