#include "text/chat/value.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/chat/python_text.h"

namespace crumb::text::chat {
namespace {

template <class Items>
unsigned depth_of(const Items& items, auto depth) {
  unsigned most = 0;
  for (const auto& item : items) most = std::max(most, depth(item));
  if (most >= Value::kMostDepth) throw Trouble("values are nested too deep");
  return most + 1;
}

std::string enclosed(const char* open, const Value& value, const char* close, Meter& meter) {
  std::string out = open;
  const char* between = "";
  for (const Value& item : value.items()) {
    out += between + repr(item, meter);
    between = ", ";
  }
  if (value.is(Kind::kTuple) && value.items().size() == 1) out += ',';
  return out + close;
}

long double exact(const Value& value) {
  return value.is(Kind::kFloat) ? static_cast<long double>(value.as_real())
                                : static_cast<long double>(value.as_integer());
}

bool equal_items(const List& a, const List& b, Meter& meter) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i], meter)) return false;
  return true;
}

void check_key(const Value& key) {
  if (key.is(Kind::kList) || key.is(Kind::kDict) || key.is(Kind::kView))
    throw Trouble(describe(key) + " cannot be a key");
  if (key.is(Kind::kTuple)) {
    for (const Value& item : key.items()) check_key(item);
  }
}

List characters_of(const std::string& text, Meter& meter) {
  List out;
  for (std::size_t at = 0; at < text.size();) {
    meter.spend(2);
    const std::size_t size = first_character(std::string_view(text).substr(at)).length;
    out.push_back(Value::text(text.substr(at, size)));
    at += size;
  }
  return out;
}

}  // namespace

Value Value::undefined(std::string what) {
  Value made;
  made.held_ = std::make_shared<std::string>(std::move(what));
  return made;
}

Value Value::none() {
  Value made;
  made.kind_ = Kind::kNone;
  return made;
}

Value Value::boolean(bool value) {
  Value made;
  made.kind_ = Kind::kBool;
  made.number_ = value ? 1 : 0;
  return made;
}

Value Value::integer(std::int64_t value) {
  Value made;
  made.kind_ = Kind::kInt;
  made.number_ = value;
  return made;
}

Value Value::real(double value) {
  Value made;
  made.kind_ = Kind::kFloat;
  made.real_ = value;
  return made;
}

Value Value::text(std::string text) {
  Value made;
  made.kind_ = Kind::kString;
  made.held_ = std::make_shared<std::string>(std::move(text));
  return made;
}

Value Value::safe(std::string text) {
  Value made = Value::text(std::move(text));
  made.safe_ = true;
  return made;
}

Value Value::sequence(Kind kind, List items) {
  Value made;
  made.kind_ = kind;
  made.depth_ =
      static_cast<std::uint16_t>(depth_of(items, [](const Value& v) -> unsigned { return v.depth_; }));
  if (kind == Kind::kIterator) {
    made.held_ = std::make_shared<Iterator>(Iterator{std::move(items), 0});
  } else {
    made.held_ = std::make_shared<List>(std::move(items));
  }
  return made;
}

Value Value::dict(Pairs entries) {
  Value made;
  made.kind_ = Kind::kDict;
  made.depth_ = static_cast<std::uint16_t>(
      depth_of(entries, [](const auto& e) -> unsigned { return std::max(e.first.depth_, e.second.depth_); }));
  made.held_ = std::make_shared<Pairs>(std::move(entries));
  return made;
}

Value Value::method(Value self, std::string_view name) {
  Value made;
  made.kind_ = Kind::kMethod;
  made.depth_ = static_cast<std::uint16_t>(self.depth_ + 1);
  if (made.depth_ > kMostDepth) throw Trouble("values are nested too deep");
  made.held_ = std::make_shared<Method>(Method{std::move(self), std::string(name)});
  return made;
}

Value Value::function(int number) {
  Value made;
  made.kind_ = Kind::kFunction;
  made.number_ = number;
  return made;
}

Value Value::name_space(Pairs* attributes) {
  Value made;
  made.kind_ = Kind::kNamespace;
  made.held_ = std::shared_ptr<void>(std::shared_ptr<void>(), attributes);
  return made;
}

Value Value::macro(const Node* node) {
  Value made;
  made.kind_ = Kind::kMacro;
  made.held_ =
      std::shared_ptr<void>(std::shared_ptr<void>(), const_cast<Node*>(node));  // NOLINT: read as const
  return made;
}

Value Value::loop(Loop* loop) {
  Value made;
  made.kind_ = Kind::kLoop;
  made.held_ = std::shared_ptr<void>(std::shared_ptr<void>(), loop);
  return made;
}

const std::string& Value::as_text() const {
  static const std::string kNothing;
  return held_ ? *static_cast<const std::string*>(held_.get()) : kNothing;
}

bool Value::is_same(const Value& other) const {
  return kind_ == other.kind_ && held_ == other.held_ && number_ == other.number_ && real_ == other.real_;
}

std::string describe(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "what is undefined";
    case Kind::kNone: return "none";
    case Kind::kBool: return "a boolean";
    case Kind::kInt: return "an integer";
    case Kind::kFloat: return "a float";
    case Kind::kString: return "a string";
    case Kind::kList: return "a list";
    case Kind::kTuple: return "a tuple";
    case Kind::kRange: return "a range";
    case Kind::kView: return "a dict's view";
    case Kind::kIterator: return "an iterator";
    case Kind::kDict: return "a dict";
    case Kind::kNamespace: return "a namespace";
    case Kind::kMacro: return "a macro";
    case Kind::kFunction: return "a function";
    case Kind::kMethod: return "a method";
    case Kind::kLoop: return "the loop";
  }
  return "";
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.as_integer() != 0;
    case Kind::kFloat: return value.as_real() != 0;
    case Kind::kString: return !value.as_text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView: return !value.items().empty();
    case Kind::kDict: return !value.entries().empty();
    default: return true;
  }
}

std::string str(const Value& value, Meter& meter) {
  if (value.is(Kind::kUndefined)) return {};
  if (!value.is(Kind::kString)) return repr(value, meter);
  meter.spend_text(value.as_text().size());
  return value.as_text();
}

std::string repr(const Value& value, Meter& meter) {
  meter.spend(1);
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "None";
    case Kind::kBool: return value.as_boolean() ? "True" : "False";
    case Kind::kInt: return std::to_string(value.as_integer());
    case Kind::kFloat: return float_text(value.as_real());
    case Kind::kString: {
      meter.spend_text(4 * value.as_text().size());
      const std::string text = repr_text(value.as_text());
      return value.is_safe() ? "Markup(" + text + ")" : text;
    }
    case Kind::kList: return enclosed("[", value, "]", meter);
    case Kind::kTuple: return enclosed("(", value, ")", meter);
    case Kind::kDict: {
      std::string out = "{";
      for (const auto& [key, item] : value.entries()) {
        if (out.size() > 1) out += ", ";
        out += repr(key, meter) + ": " + repr(item, meter);
      }
      return out + "}";
    }
    default: throw Trouble("the text of " + describe(value) + " is not supported");
  }
}

bool equal(const Value& a, const Value& b, Meter& meter) {
  meter.spend(1);
  if (a.is_number() && b.is_number()) return exact(a) == exact(b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kString: meter.spend_text(a.as_text().size()); return a.as_text() == b.as_text();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange: return equal_items(a.items(), b.items(), meter);
    case Kind::kDict:
      if (a.entries().size() != b.entries().size()) return false;
      for (const auto& [key, item] : a.entries()) {
        const Value* const other = find(b.entries(), key, meter);
        if (other == nullptr || !equal(item, *other, meter)) return false;
      }
      return true;
    case Kind::kView:
    case Kind::kMethod: throw Trouble("comparing " + describe(a) + " is not supported");
    default: return a.is_same(b);
  }
}

bool less(const Value& a, const Value& b, Meter& meter) {
  meter.spend(1);
  if (a.is_number() && b.is_number()) return exact(a) < exact(b);
  if (a.is(Kind::kString) && b.is(Kind::kString)) {
    meter.spend_text(std::min(a.as_text().size(), b.as_text().size()));
    return a.as_text() < b.as_text();  // the order of UTF-8's bytes is that of code points
  }
  if ((a.is(Kind::kList) || a.is(Kind::kTuple)) && a.kind() == b.kind()) {
    const List &left = a.items(), &right = b.items();
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i)
      if (!equal(left[i], right[i], meter)) return less(left[i], right[i], meter);
    return left.size() < right.size();
  }
  throw Trouble("there is no order between " + describe(a) + " and " + describe(b));
}

bool contains(const Value& b, const Value& a, Meter& meter) {
  if (b.is(Kind::kString)) {
    if (!a.is(Kind::kString)) throw Trouble(describe(a) + " cannot be in a string");
    meter.spend_text(b.as_text().size() + a.as_text().size());
    return b.as_text().find(a.as_text()) != std::string::npos;
  }
  if (b.is(Kind::kDict)) return find(b.entries(), a, meter) != nullptr;
  if (b.is(Kind::kIterator)) {  // whose rest follows the element that was found
    Iterator& walk = b.iterator();
    while (walk.next < walk.items.size())
      if (equal(walk.items[walk.next++], a, meter)) return true;
    return false;
  }
  for (const Value& item : elements(b, meter))
    if (equal(item, a, meter)) return true;
  return false;
}

std::optional<std::size_t> length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString: return length_of(value.as_text());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView: return value.items().size();
    case Kind::kDict: return value.entries().size();
    case Kind::kLoop: return value.as_loop().items.size();
    default: return std::nullopt;
  }
}

List elements(const Value& value, Meter& meter) {
  switch (value.kind()) {
    case Kind::kUndefined: return {};
    case Kind::kString: return characters_of(value.as_text(), meter);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView: meter.spend(value.items().size()); return value.items();
    case Kind::kIterator: {
      Iterator& walk = value.iterator();
      const std::size_t from = std::exchange(walk.next, walk.items.size());
      meter.spend(walk.items.size() - from);
      return {walk.items.begin() + static_cast<std::ptrdiff_t>(from), walk.items.end()};
    }
    case Kind::kDict: {
      List keys;
      meter.spend(value.entries().size());
      for (const auto& [key, item] : value.entries()) keys.push_back(key);
      return keys;
    }
    default: throw Trouble(describe(value) + " cannot be iterated");
  }
}

const Value* find(const Pairs& entries, const Value& key, Meter& meter) {
  check_key(key);
  for (const auto& [name, item] : entries)
    if (equal(name, key, meter)) return &item;
  return nullptr;
}

const Value* find(const Pairs& entries, std::string_view key, Meter& meter) {
  meter.spend(entries.size() / 8);
  for (const auto& [name, item] : entries)
    if (name.is(Kind::kString) && name.as_text() == key) return &item;
  return nullptr;
}

void put(Pairs& entries, Value key, Value value, Meter& meter) {
  check_key(key);
  for (auto& [name, item] : entries) {
    if (!equal(name, key, meter)) continue;
    item = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

}  // namespace crumb::text::chat
