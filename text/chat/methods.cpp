#include <algorithm>
#include <functional>
#include <limits>

#include "base/files/text.h"
#include "base/utf8.h"
#include "text/chat/members.h"
#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace crumb::text::chat {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// The arguments in the order of their names, undefined where they are missing.
List positional(const Arguments& arguments, std::initializer_list<std::string_view> names,
                std::size_t least) {
  List out;
  for (const auto& value : bind(arguments, names)) out.push_back(value ? *value : Value());
  if (arguments.positional.size() < least && arguments.named.empty()) throw Trouble("an argument is missing");
  return out;
}

std::int64_t limit_of(const Value& value) {
  if (value.is(Kind::kUndefined)) return kNoLimit;
  const std::int64_t limit = integer_of(value, "a limit");
  return limit < 0 ? kNoLimit : limit;
}

List texts(const std::vector<std::string_view>& parts, Meter& meter) {
  List out;
  for (const std::string_view part : parts) {
    meter.spend(2);
    meter.spend_text(part.size());
    out.push_back(Value::text(std::string(part)));
  }
  return out;
}

/// Splits at runs of white space; the ends have none.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t limit) {
  std::vector<std::string_view> parts;
  text = strip(text, true, false);
  while (!text.empty()) {
    if (limit-- == 0) {
      parts.push_back(strip(text, false, true));
      break;
    }
    std::size_t end = 0;
    while (end < text.size()) {
      const Utf8Character c = first_character(text.substr(end));
      if (is_space(c.code)) break;
      end += c.length;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), true, false);
  }
  return parts;
}

std::vector<std::string_view> split_at_space_from_right(std::string_view text, std::int64_t limit) {
  std::vector<std::string_view> parts;
  text = strip(text, false, true);
  while (!text.empty()) {
    if (limit-- == 0) {
      parts.push_back(strip(text, true, false));
      break;
    }
    std::size_t begin = text.size();
    while (begin > 0) {
      std::size_t at = begin - 1;
      while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
      if (is_space(first_character(text.substr(at)).code)) break;
      begin = at;
    }
    parts.push_back(text.substr(begin));
    text = strip(text.substr(0, begin), false, true);
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view mark, std::int64_t limit) {
  std::vector<std::string_view> parts;
  for (std::size_t end; limit-- > 0 && (end = text.find(mark)) != std::string_view::npos;) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + mark.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_at_from_right(std::string_view text, std::string_view mark,
                                                  std::int64_t limit) {
  std::vector<std::string_view> parts;
  for (std::size_t at; limit-- > 0 && (at = text.rfind(mark)) != std::string_view::npos;) {
    parts.push_back(text.substr(at + mark.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::ranges::reverse(parts);
  return parts;
}

Value split(const std::string& text, const Arguments& arguments, bool from_right, Meter& meter) {
  const List given = positional(arguments, {"sep", "maxsplit"}, 0);
  const std::int64_t limit = limit_of(given[1]);
  meter.spend_text(text.size());
  if (given[0].is(Kind::kUndefined) || given[0].is(Kind::kNone)) {
    return Value::sequence(
        Kind::kList,
        texts(from_right ? split_at_space_from_right(text, limit) : split_at_space(text, limit), meter));
  }
  const std::string& mark = text_of(given[0], "what to split at");
  if (mark.empty()) throw Trouble("what to split at is empty");
  return Value::sequence(
      Kind::kList,
      texts(from_right ? split_at_from_right(text, mark, limit) : split_at(text, mark, limit), meter));
}

std::string replaced(const std::string& text, const std::string& old, const std::string& by,
                     std::int64_t limit, Meter& meter) {
  std::string out;
  std::size_t at = 0;
  const auto add = [&](std::string_view part) {
    meter.spend_text(part.size());
    out += part;
  };
  if (old.empty()) {  // before each character, and at the end
    while (limit-- > 0) {
      add(by);
      if (at == text.size()) return out;
      const std::size_t size = first_character(std::string_view(text).substr(at)).length;
      add(std::string_view(text).substr(at, size));
      at += size;
    }
  }
  for (std::size_t found; !old.empty() && limit-- > 0 && (found = text.find(old, at)) != std::string::npos;) {
    add(std::string_view(text).substr(at, found - at));
    add(by);
    at = found + old.size();
  }
  add(std::string_view(text).substr(at));
  return out;
}

/// For startswith and endswith, which take one text or a tuple of them.
bool any_of(const Value& given, const std::function<bool(std::string_view)>& holds) {
  if (given.is(Kind::kTuple))
    return std::ranges::any_of(given.items(),
                               [&](const Value& one) { return holds(text_of(one, "an affix")); });
  return holds(text_of(given, "an affix"));
}

/// Formats '{}', '{0}' and '{name}'; nothing else may be inside the braces.
std::string formatted(const std::string& text, const Arguments& arguments, Meter& meter) {
  std::string out;
  std::size_t counted = 0;
  bool counts = false, numbers = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == c) {
      out += c;
      ++i;
      continue;
    }
    const std::size_t end = text.find('}', i);
    if (c == '}' || end == std::string::npos) throw Trouble("a brace without its partner in a format");
    const std::string field = text.substr(i + 1, end - i - 1);
    i = end;
    if (field.find_first_of(".[!:{") != std::string::npos)
      throw Trouble("the field " + quote_text(field) + " of a format is not supported");
    const bool is_number = !field.empty() && field.find_first_not_of("0123456789") == std::string::npos;
    counts |= field.empty();
    numbers |= is_number;
    if (counts && numbers) throw Trouble("a format both counts its fields and numbers them");
    const Value* value = nullptr;
    if (field.empty() || is_number) {
      if (field.size() > 6) throw Trouble("the field " + quote_text(field) + " of a format has no argument");
      const std::size_t index = is_number ? std::stoul(field) : counted++;
      if (index < arguments.positional.size()) value = &arguments.positional[index];
    } else {
      for (const auto& [name, given] : arguments.named)
        if (name == field) value = &given;
    }
    if (value == nullptr) throw Trouble("the field " + quote_text(field) + " of a format has no argument");
    out += str(*value, meter);
  }
  meter.spend_text(out.size());
  return out;
}

std::string joined(const std::string& between, const Value& parts, Meter& meter) {
  std::string out;
  bool is_first = true;
  for (const Value& part : elements(parts, meter)) {
    if (!is_first) out += between;
    is_first = false;
    out += text_of(part, "what is joined");
    meter.spend_text(between.size() + part.as_text().size());
  }
  return out;
}

/// The position of a text in another, in code points.
Value place_of(const std::string& text, const List& given, bool last, bool must_be) {
  if (!given[1].is(Kind::kUndefined) || !given[2].is(Kind::kUndefined))
    throw Trouble("looking for a text in a part of another is not supported");
  const std::string& what = text_of(given[0], "what to look for");
  const std::size_t at = last ? text.rfind(what) : text.find(what);
  if (at == std::string::npos && must_be) throw Trouble("a text is not in another");
  return Value::integer(at == std::string::npos
                            ? -1
                            : static_cast<std::int64_t>(length_of(std::string_view(text).substr(0, at))));
}

std::int64_t count_of(const std::string& text, const std::string& what) {
  if (what.empty()) return static_cast<std::int64_t>(length_of(text)) + 1;
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

bool all_characters(const std::string& text, bool (*holds)(char32_t)) {
  return !text.empty() && std::ranges::all_of(unicode::decode(text), holds);
}

/// isdigit, isalpha and isalnum for ASCII. Throws Trouble for other letters.
bool all_ascii(std::string_view name, const std::string& text, bool (*holds)(char)) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    throw Trouble(std::string(name) + " of other letters than those of ASCII is not supported");
  return !text.empty() && std::ranges::all_of(text, holds);
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Answers isupper() and similar methods; nothing for other methods.
std::optional<Value> character_test(const std::string& text, std::string_view name,
                                    const Arguments& arguments) {
  const auto answer = [&](const auto& holds) {
    positional(arguments, {}, 0);
    return Value::boolean(holds());
  };
  if (name == "isupper") return answer([&] { return is_upper(text); });
  if (name == "islower") return answer([&] { return is_lower(text); });
  if (name == "isspace") return answer([&] { return all_characters(text, is_space); });
  if (name == "isdigit" || name == "isdecimal" || name == "isnumeric")
    return answer([&] { return all_ascii(name, text, is_ascii_digit); });
  if (name == "isalpha") return answer([&] { return all_ascii(name, text, is_ascii_letter); });
  if (name == "isalnum") {
    return answer([&] {
      return all_ascii(name, text, [](char c) { return is_ascii_digit(c) || is_ascii_letter(c); });
    });
  }
  return {};
}

/// Methods that search for a text in another; nothing for other methods.
std::optional<Value> search(const std::string& text, std::string_view name, const Arguments& arguments) {
  if (name == "startswith" || name == "endswith") {
    const List given = positional(arguments, {"affix", "start", "end"}, 1);
    if (!given[1].is(Kind::kUndefined)) throw Trouble(std::string(name) + " with a place is not supported");
    return Value::boolean(any_of(given[0], [&](std::string_view affix) {
      return name == "startswith" ? text.starts_with(affix) : text.ends_with(affix);
    }));
  }
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex")
    return place_of(text, positional(arguments, {"sub", "start", "end"}, 1), name[0] == 'r',
                    name.ends_with("index"));
  if (name == "count") {
    const List given = positional(arguments, {"sub"}, 1);
    return Value::integer(count_of(text, text_of(given[0], "what to count")));
  }
  return {};
}

/// Methods that give a part of the text, or change the case of its letters; nothing for other methods.
std::optional<std::string> stripped_or_cased(const std::string& text, std::string_view name,
                                             const Arguments& arguments, Meter& meter) {
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const List given = positional(arguments, {"chars"}, 0);
    const bool spaces = given[0].is(Kind::kUndefined) || given[0].is(Kind::kNone);
    const std::string_view characters = spaces ? std::string_view() : text_of(given[0], "what to strip");
    meter.spend(text.size() * characters.size() / 64);
    return std::string(strip(text, name != "rstrip", name != "lstrip", spaces ? nullptr : &characters));
  }
  const auto none_given = [&] { positional(arguments, {}, 0); };
  if (name == "lower") return none_given(), lower(text);
  if (name == "upper") return none_given(), upper(text);
  if (name == "capitalize") return none_given(), capitalize(text);
  if (name == "title") return none_given(), title(text);
  return {};
}

Value text_method(const Value& self, std::string_view name, const Arguments& arguments, Meter& meter) {
  const std::string& text = self.as_text();
  meter.spend_text(4 * text.size());
  if (!arguments.named.empty() && name != "split" && name != "rsplit" && name != "splitlines" &&
      name != "format")
    throw Trouble("the method " + quote_text(name) + " of strings takes no arguments by name");
  if (auto made = stripped_or_cased(text, name, arguments, meter))
    return self.is_safe() ? Value::safe(*std::move(made)) : Value::text(*std::move(made));
  if (auto answer = character_test(text, name, arguments)) return *std::move(answer);
  if (auto found = search(text, name, arguments)) return *std::move(found);
  // The methods below make other texts, which a safe one would escape.
  if (self.is_safe())
    throw Trouble("the method " + quote_text(name) + " of a text marked safe is not supported");
  if (name == "split" || name == "rsplit") return split(text, arguments, name == "rsplit", meter);
  if (name == "splitlines") {
    const List given = positional(arguments, {"keepends"}, 0);
    return Value::sequence(Kind::kList, texts(split_lines(text, truth(given[0])), meter));
  }
  if (name == "replace") {
    const List given = positional(arguments, {"old", "new", "count"}, 2);
    return Value::text(replaced(text, text_of(given[0], "what to replace"),
                                text_of(given[1], "a replacement"), limit_of(given[2]), meter));
  }
  if (name == "format") return Value::text(formatted(text, arguments, meter));
  if (name == "join") return Value::text(joined(text, positional(arguments, {"iterable"}, 1)[0], meter));
  if (name == "removeprefix" || name == "removesuffix") {
    const std::string& affix = text_of(positional(arguments, {"affix"}, 1)[0], "an affix");
    if (name == "removeprefix")
      return Value::text(text.starts_with(affix) ? text.substr(affix.size()) : text);
    return Value::text(text.ends_with(affix) ? text.substr(0, text.size() - affix.size()) : text);
  }
  throw Trouble("the method " + quote_text(name) + " of strings is not supported");
}

Value view(const Pairs& entries, std::string_view name) {
  List items;
  for (const auto& [key, value] : entries)
    items.push_back(name == "keys"     ? key
                    : name == "values" ? value
                                       : Value::sequence(Kind::kTuple, {key, value}));
  return Value::sequence(Kind::kView, std::move(items));
}

Value dict_method(const Value& self, std::string_view name, const Arguments& arguments, Meter& meter) {
  const Pairs& entries = self.entries();
  if (name == "get") {
    if (!arguments.named.empty()) throw Trouble("get() takes no arguments by name");
    const List given = positional(arguments, {"key", "default"}, 1);
    const Value* const found = find(entries, given[0], meter);
    return found != nullptr ? *found : arguments.positional.size() > 1 ? given[1] : Value::none();
  }
  if (name == "fromkeys") throw Trouble("the method 'fromkeys' is not supported");
  positional(arguments, {}, 0);
  if (name == "copy") return self;
  meter.spend(2 * entries.size());
  return view(entries, name);
}

Value list_method(const Value& self, std::string_view name, const Arguments& arguments, Meter& meter) {
  if (name == "copy") return positional(arguments, {}, 0), self;
  const List given = positional(arguments, {"value"}, 1);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < self.items().size(); ++i) {
    if (!equal(self.items()[i], given[0], meter)) continue;
    if (name == "index") return Value::integer(static_cast<std::int64_t>(i));
    ++count;
  }
  if (name == "index") throw Trouble("a value is not in the list");
  return Value::integer(count);
}

}  // namespace

Value call_method(const Value& self, std::string_view name, const Arguments& arguments, Meter& meter) {
  if (self.is(Kind::kString)) return text_method(self, name, arguments, meter);
  if (self.is(Kind::kDict)) return dict_method(self, name, arguments, meter);
  return list_method(self, name, arguments, meter);
}

}  // namespace crumb::text::chat
