// Chat templates as C++ calls them. tests/text/test_chat_templates.py compares them with `transformers`.
#include "text/chat/chat_template.h"

#include <doctest/doctest.h>

#include <array>
#include <thread>
#include <vector>

#include "base/error.h"
#include "text/chat/messages.h"

namespace crumb::text {
namespace {

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}\n{% endfor %}"
    "{% if add_generation_prompt %}<{{ role|default('assistant') }}>{% endif %}";

TEST_CASE("a conversation is rendered with the template's tokens and the caller's variables") {
  const auto chat = ChatTemplate::parse(kTemplate, "t", {{"bos_token", "[B]"}});
  const std::array<ChatMessage, 2> messages = {{{"user", " hi "}, {"assistant", "\xC3\xA9\xFF"}}};
  CHECK(chat.render(messages, {}) == "[B]<user>hi\n<assistant>\xC3\xA9\xEF\xBF\xBD\n");
  ChatTemplate::Options options{.add_generation_prompt = true};
  CHECK(chat.render(messages, options).ends_with("\n<assistant>"));
  options.extra = {{"role", "model"}, {"bos_token", ""}};
  CHECK(chat.render(messages, options).starts_with("<user>"));
  CHECK(chat.render(messages, options).ends_with("<model>"));
  CHECK_THROWS_WITH_AS(chat.render(std::span<const ChatMessage>(), {}), "t: there is no message to render",
                       Error);
}

TEST_CASE("a template renders in several threads at once") {
  const auto chat = ChatTemplate::parse(
      "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{% set ns = namespace(n=0) %}"
      "{% for i in range(200) %}{% set ns.n = ns.n + i %}{% endfor %}{{ twice(messages[0].content) }}{{ ns.n "
      "}}",
      "t");
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::array<ChatMessage, 1> messages = {{{"user", std::to_string(i)}}};
      for (int turn = 0; turn < 20; ++turn) texts[i] = chat.render(messages, {});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < texts.size(); ++i)
    CHECK(texts[i] == std::to_string(i) + std::to_string(i) + "19900");
}

TEST_CASE("templates are found where transformers finds them") {
  const auto load = [](std::string_view config, std::string_view beside) {
    return load_chat_template(
        [&](std::string_view name) -> std::optional<std::string> {
          if (name == "sub/tokenizer_config.json" && !config.empty()) return std::string(config);
          if (name == "sub/chat_template.jinja" && !beside.empty()) return std::string(beside);
          return std::nullopt;
        },
        "sub");
  };
  const std::array<ChatMessage, 1> messages = {{{"user", "hi"}}};
  CHECK_FALSE(load("", ""));
  CHECK_FALSE(load("{}", ""));
  CHECK(load(R"({"chat_template": "a{{ eos_token }}", "eos_token": {"content": "E"}})", "")
            ->render(messages, {}) == "aE");
  CHECK(load(R"({"chat_template": "a", "eos_token": "E"})", "b{{ eos_token }}")->render(messages, {}) ==
        "bE");
  CHECK_THROWS_WITH_AS(load("", "\n{{ x"), "sub/chat_template.jinja: line 2: found the end, expected '}}'",
                       Error);
  CHECK_THROWS_AS(load(R"({"chat_template": 3})", ""), Error);
}

TEST_CASE("messages keep the order of their members") {
  const auto messages = parse_messages(R"([{"role": "user", "z": 1, "a": {"y": 2, "b": 3}}])", "m");
  const auto chat = ChatTemplate::parse("{{ messages|tojson }}", "t");
  CHECK(chat.render(messages, {}) == R"([{"role": "user", "z": 1, "a": {"y": 2, "b": 3}}])");
  CHECK_THROWS_WITH_AS(parse_messages("[]", "m"), "m: there is no message", Error);
  CHECK_THROWS_AS(parse_messages(std::string(100, '[') + std::string(100, ']'), "m"), Error);
}

}  // namespace
}  // namespace crumb::text
