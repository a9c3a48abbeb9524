#include "base/json/bounded_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace crumb {
namespace {

Result<nlohmann::json> parse(const std::string& text, const JsonLimits& limits = {}) {
  return parse_bounded_json(std::as_bytes(std::span(text)), limits);
}

std::string why(const std::string& text, const JsonLimits& limits = {}) {
  const Result<nlohmann::json> parsed = parse(text, limits);
  return parsed.ok() ? "no failure" : parsed.failure().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("documents come out as nlohmann reads them") {
  for (const char* text :
       {"{}", "[]", " null ", "true", "-1", "18446744073709551615", "1.5e3",
        "\"\\ud83c\\udf5e \\\" caf\xc3\xa9\"", R"({"a":[1,[2,{"b":null}],"x"],"c":{"d":{},"e":[]},"":0.1})",
        "[[],[[]],{},[{}],1]"}) {
    Result<nlohmann::json> parsed = parse(text);
    REQUIRE(parsed.ok());
    CHECK(parsed.value() == nlohmann::json::parse(text));
  }
}

TEST_CASE("bad bytes are refused with their offset") {
  CHECK(contains(why(""), "not JSON at byte"));
  CHECK(contains(why("{\"a\":1,}"), "not JSON at byte 8"));
  CHECK(contains(why("{\"a\":1} x"), "not JSON at byte 9"));
  CHECK(contains(why("\"\xff\""), "not JSON at byte 2"));
  CHECK(contains(why("[1e999]"), "not JSON at byte"));
  CHECK(contains(why("[NaN]"), "not JSON at byte 2"));
  CHECK(contains(why("{\"a\":1,\"b\":2,\"a\":3}"), "the key 'a' occurs twice"));
  CHECK(contains(why("{\"x\":{\"a\":1},\"y\":{\"a\":1}}"), "no failure"));
}

TEST_CASE("depth, tokens and memory are bounded") {
  CHECK(parse(std::string(32, '[') + std::string(32, ']')).ok());
  CHECK(contains(why(std::string(33, '[') + std::string(33, ']')), "deeper than 32 at byte 32"));
  CHECK(contains(why(std::string(1'000'000, '[')), "deeper than 32"));

  JsonLimits limits;
  limits.max_token_bytes = 10;
  CHECK(parse("[\"1234567\", 12345, \"a\\\"b\"]", limits).ok());
  CHECK(contains(why("[\"1234567890\"]", limits), "at byte 1 is longer than 10 bytes"));
  CHECK(contains(why("[12345678901]", limits), "at byte 1 is longer than 10 bytes"));
  CHECK(contains(why("[\"\\\"\\\"\\\"\\\"\\\"\\\"\"]", limits), "at byte 1 is longer"));

  limits = {};
  limits.max_bytes = 10'000;
  std::string many = "[0";
  for (int i = 0; i < 1000; ++i) many += ",0";
  CHECK(contains(why(many + "]", limits), "10000 bytes of memory"));
  many = "{\"k\":0";
  for (int i = 0; i < 100; ++i) many += ",\"" + std::to_string(i) + "\":0";
  CHECK(contains(why(many + "}", limits), "10000 bytes of memory"));
}

TEST_CASE("random damage is accepted exactly where nlohmann accepts it, or refused as a duplicate") {
  std::mt19937 random(3);
  const std::string good =
      R"({"name":"caf\u00e9","list":[1,-2.5e-3,true,false,null],"deep":{"a":[[],{}]},"n":12345})";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 4); break;
        default: text.insert(at, 1, "{}[]\",:0eE.-\\u"[random() % 14]);
      }
      if (text.empty()) break;
    }
    const Result<nlohmann::json> parsed = parse(text);
    const bool accepted = nlohmann::json::accept(text);
    if (parsed.ok()) REQUIRE(accepted);
    if (!parsed.ok() && accepted) REQUIRE(contains(parsed.failure().message, "occurs twice"));
  }
}

TEST_CASE("lists of the root are handed over element by element, and cost what one of them costs") {
  std::vector<std::string> seen;
  const auto lists = [&](const std::string& text, const JsonLimits& limits = {}) {
    seen.clear();
    return parse_bounded_json_lists(std::as_bytes(std::span(text)), limits,
                                    [&](std::string_view key, const nlohmann::json& element) {
                                      seen.push_back(std::string(key) + " " + element.dump());
                                    });
  };
  const auto repeated = [](const std::string& text, int count) {
    std::string all = text;
    for (int i = 1; i < count; ++i) all += "," + text;
    return all;
  };
  const Result<nlohmann::json> root =
      lists(R"({"a":[1,"x",[2,[3]],{"b":[4]},null],"c":{"d":[5]},"e":[],"f":6,"g":[true]})");
  REQUIRE(root.ok());
  CHECK(seen ==
        std::vector<std::string>{"a 1", "a \"x\"", "a [2,[3]]", R"(a {"b":[4]})", "a null", "g true"});
  CHECK(root.value() == nlohmann::json::parse(R"({"a":[],"c":{"d":[5]},"e":[],"f":6,"g":[]})"));
  CHECK(lists("[[1],[2]]").ok());
  CHECK(seen.empty());
  const JsonLimits small{.max_bytes = 2000};
  const std::string many = R"({"list":[)" + repeated(R"({"k":[1,2,3]})", 5000) + "]}";
  CHECK(lists(many, small).ok());
  CHECK(seen.size() == 5000);
  CHECK_FALSE(parse(many, small).ok());
  CHECK_FALSE(lists(R"({"list":[1,)" + std::string(100, '[') + std::string(100, ']') + "]}", small).ok());
  CHECK_FALSE(lists(R"({"list":[{"k":[)" + repeated("1", 500) + "]}]}", small).ok());
}

}  // namespace
}  // namespace crumb
