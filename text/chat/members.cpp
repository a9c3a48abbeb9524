#include "text/chat/members.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/files/text.h"
#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace crumb::text::chat {
namespace {

using Names = std::initializer_list<std::string_view>;

bool is_among_names(std::string_view name, Names names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_text_method(std::string_view name) {
  return is_among_names(
      name,
      {"capitalize", "casefold",     "center",       "count",   "encode",     "endswith",    "expandtabs",
       "find",       "format",       "format_map",   "index",   "isalnum",    "isalpha",     "isascii",
       "isdecimal",  "isdigit",      "isidentifier", "islower", "isnumeric",  "isprintable", "isspace",
       "istitle",    "isupper",      "join",         "ljust",   "lower",      "lstrip",      "maketrans",
       "partition",  "removeprefix", "removesuffix", "replace", "rfind",      "rindex",      "rjust",
       "rpartition", "rsplit",       "rstrip",       "split",   "splitlines", "startswith",  "strip",
       "swapcase",   "title",        "translate",    "upper",   "zfill"});
}

Value undefined_member(const Value& object, const std::string& name) {
  return Value::undefined(describe(object) + " has no " + name);
}

Value loop_member(Loop& loop, std::string_view name) {
  const std::size_t count = loop.items.size(), index = loop.index;
  const auto number = [](std::size_t value) { return Value::integer(static_cast<std::int64_t>(value)); };
  if (name == "index") return number(index + 1);
  if (name == "index0") return number(index);
  if (name == "revindex") return number(count - index);
  if (name == "revindex0") return number(count - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 == count);
  if (name == "length") return number(count);
  if (name == "depth") return number(1);
  if (name == "depth0") return number(0);
  if (name == "previtem")
    return index > 0 ? loop.items[index - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return index + 1 < count ? loop.items[index + 1] : Value::undefined("there is no next item");
  if (name == "cycle" || name == "changed")
    throw Trouble("loop." + std::string(name) + " that is not called is not supported");
  return Value::undefined("the loop has no attribute " + quote_text(name));
}

/// The object's own attribute, or nothing.
std::optional<Value> own_attribute(const Value& object, std::string_view name, Meter& meter) {
  const auto unsupported = [&](Names names) {
    if (is_among_names(name, names))
      throw Trouble("the attribute " + quote_text(name) + " of " + describe(object) + " is not supported");
  };
  const auto undefined_if = [&](Names names) -> std::optional<Value> {
    if (!is_among_names(name, names)) return std::nullopt;
    return Value::undefined("the method " + quote_text(name) + " would change " + describe(object));
  };
  const auto method_if = [&](bool is_method) {
    return is_method ? std::optional(Value::method(object, name)) : std::nullopt;
  };
  if (name.starts_with("__")) throw Trouble("the attribute " + quote_text(name) + " is not supported");
  switch (object.kind()) {
    case Kind::kString: return method_if(is_text_method(name));
    case Kind::kDict:
      if (auto changing = undefined_if({"clear", "pop", "popitem", "setdefault", "update"})) return changing;
      return method_if(is_among_names(name, {"copy", "fromkeys", "get", "items", "keys", "values"}));
    case Kind::kList:
      if (auto changing =
              undefined_if({"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}))
        return changing;
      return method_if(is_among_names(name, {"copy", "count", "index"}));
    case Kind::kTuple: return method_if(is_among_names(name, {"count", "index"}));
    case Kind::kRange: unsupported({"count", "index", "start", "step", "stop"}); break;
    case Kind::kView: unsupported({"isdisjoint", "mapping"}); break;
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      unsupported({"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes",
                   "fromhex", "hex", "imag", "is_integer", "numerator", "real", "to_bytes"});
      break;
    case Kind::kMacro:
      unsupported({"arguments", "caller", "catch_kwargs", "catch_varargs", "explicit_caller", "name"});
      break;
    case Kind::kFunction: unsupported({"fromkeys"}); break;
    case Kind::kNamespace: {
      const Value* const found = find(object.attributes(), name, meter);
      return found == nullptr ? std::nullopt : std::optional(*found);
    }
    case Kind::kLoop: return loop_member(object.as_loop(), name);
    default: break;
  }
  return std::nullopt;
}

void refuse_undefined(const Value& object) {
  if (!object.is(Kind::kUndefined)) return;
  throw Trouble(object.as_text().empty() ? "a value is undefined" : object.as_text());
}

const Value* at_index(const List& items, std::int64_t index) {
  const auto count = static_cast<std::int64_t>(items.size());
  if (index < 0) index += count;
  return index < 0 || index >= count ? nullptr : &items[static_cast<std::size_t>(index)];
}

Value like(const Value& text, std::string made) {
  return text.is_safe() ? Value::safe(std::move(made)) : Value::text(std::move(made));
}

/// Indices of a slice of a sequence of `count` elements.
std::vector<std::size_t> places(std::int64_t count, const Value& first, const Value& end, const Value& step,
                                Meter& meter) {
  const auto number = [](const Value& value, std::int64_t otherwise) {
    return value.is(Kind::kNone) ? otherwise : integer_of(value, "a bound of a slice");
  };
  const std::int64_t by = number(step, 1);
  if (by == 0) throw Trouble("a slice has the step 0");
  const std::int64_t low = by < 0 ? -1 : 0, high = by < 0 ? count - 1 : count;
  const auto clamp = [&](const Value& value, std::int64_t otherwise) {
    std::int64_t place = number(value, otherwise);
    if (value.is(Kind::kNone)) return place;
    if (place < 0) place = place < -count ? -1 - count : place + count;
    return std::clamp(place, low, high);
  };
  std::vector<std::size_t> out;
  std::int64_t at = clamp(first, by < 0 ? high : low);
  const std::int64_t stop = clamp(end, by < 0 ? low : high);
  while (by > 0 ? at < stop : at > stop) {
    meter.spend(1);
    out.push_back(static_cast<std::size_t>(at));
    if (by > 0 ? by >= stop - at : by <= stop - at) break;
    at += by;
  }
  return out;
}

}  // namespace

std::vector<std::optional<Value>> bind(const Arguments& arguments, Names names) {
  std::vector<std::optional<Value>> out(names.size());
  if (arguments.positional.size() > names.size())
    throw Trouble("it takes " + std::to_string(names.size()) + " arguments, and has " +
                  std::to_string(arguments.positional.size()));
  std::ranges::copy(arguments.positional, out.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto* const found = std::ranges::find(names, name);
    if (found == names.end()) throw Trouble("it has no argument " + quote_text(name));
    auto& place = out[static_cast<std::size_t>(found - names.begin())];
    if (place) throw Trouble("the argument " + quote_text(name) + " is given twice");
    place = value;
  }
  return out;
}

const Value& required(const std::optional<Value>& argument, const char* name) {
  if (!argument) throw Trouble("the argument '" + std::string(name) + "' is missing");
  return *argument;
}

std::int64_t integer_of(const Value& value, const char* what) {
  refuse_undefined(value);
  if (!value.is_integer())
    throw Trouble(std::string(what) + " is " + describe(value) + ", expected an integer");
  return value.as_integer();
}

const std::string& text_of(const Value& value, const char* what) {
  refuse_undefined(value);
  if (!value.is(Kind::kString))
    throw Trouble(std::string(what) + " is " + describe(value) + ", expected a string");
  return value.as_text();
}

Value attribute(const Value& object, std::string_view name, Meter& meter) {
  refuse_undefined(object);
  if (auto own = own_attribute(object, name, meter)) return *std::move(own);
  if (object.is(Kind::kDict)) {
    if (const Value* const found = find(object.entries(), name, meter)) return *found;
  }
  return undefined_member(object, "attribute " + quote_text(name));
}

Value element(const Value& object, const Value& key, Meter& meter) {
  refuse_undefined(object);
  if (object.is(Kind::kDict)) {
    const bool may_be_key = !key.is(Kind::kList) && !key.is(Kind::kDict) && !key.is(Kind::kView);
    if (const Value* const found = may_be_key ? find(object.entries(), key, meter) : nullptr) return *found;
  } else if (object.is_sequence() && key.is_integer()) {
    if (const Value* const found = at_index(object.items(), key.as_integer())) return *found;
  } else if (object.is(Kind::kString) && key.is_integer()) {
    const std::string& text = object.as_text();
    meter.spend_text(text.size());
    std::int64_t index = key.as_integer();
    if (index < 0) index += static_cast<std::int64_t>(length_of(text));
    const std::size_t at = index < 0 ? text.size() : offset_of(text, static_cast<std::size_t>(index));
    if (at < text.size())
      return like(object, text.substr(at, offset_of(std::string_view(text).substr(at), 1)));
  }
  if (key.is(Kind::kString)) {
    if (auto own = own_attribute(object, key.as_text(), meter)) return *std::move(own);
    return undefined_member(object, "element " + quote_text(key.as_text()));
  }
  return undefined_member(object, "such element");
}

Value slice(const Value& object, const Value& first, const Value& end, const Value& step, Meter& meter) {
  refuse_undefined(object);
  if (object.is(Kind::kString)) {
    meter.spend_text(4 * object.as_text().size());
    const std::u32string characters = unicode::decode(object.as_text());
    std::u32string out;
    for (const std::size_t at : places(static_cast<std::int64_t>(characters.size()), first, end, step, meter))
      out += characters[at];
    return like(object, unicode::encode(out));
  }
  if (!object.is_sequence()) throw Trouble("there is no slice of " + describe(object));
  List out;
  for (const std::size_t at :
       places(static_cast<std::int64_t>(object.items().size()), first, end, step, meter))
    out.push_back(object.items()[at]);
  return Value::sequence(object.kind(), std::move(out));
}

Value attribute_path(Value object, const Value& path, Meter& meter) {
  if (path.is(Kind::kNone)) return object;
  if (!path.is(Kind::kString)) return element(object, path, meter);
  const std::string& text = path.as_text();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    std::int64_t number = 0;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    const bool is_number =
        digits && std::from_chars(part.data(), part.data() + part.size(), number).ec == std::errc();
    object = element(object, is_number ? Value::integer(number) : Value::text(part), meter);
    begin = end + 1;
  }
  return object;
}

}  // namespace crumb::text::chat
