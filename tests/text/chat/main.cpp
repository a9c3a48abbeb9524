// What templates make of conversations: reads a line of JSON for each, {"template", "messages", "tokens",
// "add_generation_prompt", "extra"} and perhaps "now" and "steps", and prints {"text"} or {"error"}.
// tests/text/test_chat_templates.py runs it.
#include <iostream>

#include "base/error.h"
#include "text/chat/chat_template.h"

namespace {

using Json = nlohmann::ordered_json;

Json answer(const Json& given) {
  using crumb::text::ChatTemplate;
  ChatTemplate::Tokens tokens;
  for (const auto& [name, token] : given.at("tokens").items()) tokens[name] = token.get<std::string>();
  ChatTemplate::Options options{.add_generation_prompt = given.at("add_generation_prompt").get<bool>(),
                                .extra = given.at("extra")};
  if (given.contains("now")) options.now = given["now"].get<std::time_t>();
  if (given.contains("steps")) options.steps = given["steps"].get<std::uint64_t>();
  try {
    const auto chat = ChatTemplate::parse(given.at("template").get<std::string>(), "template", tokens);
    return {{"text", chat.render(given.at("messages"), options)}};
  } catch (const crumb::Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(Json::parse(line)).dump() << '\n';
}
