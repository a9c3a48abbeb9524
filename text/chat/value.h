// Values of templates: Python's, as far as templates use them. They are immutable, except for namespaces and
// for iterators, which can be walked once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/trouble.h"

namespace crumb::text::chat {

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kRange,
  kView,      ///< the result of a dict's keys(), values() or items()
  kIterator,  ///< of map, select, reverse and others
  kDict,
  kNamespace,
  kMacro,
  kFunction,
  kMethod,
  kLoop
};

class Value;
struct Node;
struct Loop;
using List = std::vector<Value>;
using Pairs = std::vector<std::pair<Value, Value>>;

struct Iterator;
struct Method;

class Value {
 public:
  /// The most values inside each other; deeper ones are refused.
  static constexpr unsigned kMostDepth = 100;

  Value() = default;  // undefined
  static Value undefined(std::string what);
  static Value none();
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  static Value real(double value);
  static Value text(std::string text);
  /// The text marked safe, as by the filter `safe`.
  static Value safe(std::string text);
  /// kList, kTuple, kRange, kView or kIterator. Throws Trouble where it is nested too deep.
  static Value sequence(Kind kind, List items);
  /// Precondition: the keys differ.
  static Value dict(Pairs entries);
  static Value method(Value self, std::string_view name);
  static Value function(int number);
  /// These three do not own what they point to.
  static Value name_space(Pairs* attributes);
  static Value macro(const Node* node);
  static Value loop(Loop* loop);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_safe() const { return safe_; }
  bool as_boolean() const { return number_ != 0; }
  /// For kInt and kBool.
  std::int64_t as_integer() const { return number_; }
  double as_real() const { return real_; }
  /// For kString; for kUndefined the description of what is undefined, or nothing.
  const std::string& as_text() const;
  /// For kList, kTuple, kRange, kView.
  const List& items() const { return *static_cast<const List*>(held_.get()); }
  Iterator& iterator() const { return *static_cast<Iterator*>(held_.get()); }
  const Pairs& entries() const { return *static_cast<const Pairs*>(held_.get()); }
  Pairs& attributes() const { return *static_cast<Pairs*>(held_.get()); }
  const Method& as_method() const { return *static_cast<const Method*>(held_.get()); }
  const Node& as_macro() const { return *static_cast<const Node*>(held_.get()); }
  Loop& as_loop() const { return *static_cast<Loop*>(held_.get()); }
  /// Whether both are one object, as for Python's `is`.
  bool is_same(const Value& other) const;

  bool is_number() const { return kind_ == Kind::kInt || kind_ == Kind::kFloat || kind_ == Kind::kBool; }
  bool is_integer() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  double to_real() const { return kind_ == Kind::kFloat ? real_ : static_cast<double>(number_); }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple || kind_ == Kind::kRange; }

 private:
  Kind kind_ = Kind::kUndefined;
  bool safe_ = false;
  std::uint16_t depth_ = 0;
  std::int64_t number_ = 0;
  double real_ = 0;
  std::shared_ptr<void> held_;
};

struct Iterator {
  List items;
  std::size_t next = 0;
};

struct Method {
  Value self;
  std::string name;
};

/// The value of `loop` while a loop runs.
struct Loop {
  List items;
  std::size_t index = 0;
  std::optional<List> changed;
};

/// "a list": for messages.
std::string describe(const Value& value);

bool truth(const Value& value);
/// Python's str() and repr().
std::string str(const Value& value, Meter& meter);
std::string repr(const Value& value, Meter& meter);

bool equal(const Value& a, const Value& b, Meter& meter);
/// a < b. Throws Trouble where the two have no order.
bool less(const Value& a, const Value& b, Meter& meter);
/// a in b.
bool contains(const Value& b, const Value& a, Meter& meter);

/// Python's len(); nothing where it has none.
std::optional<std::size_t> length(const Value& value);

/// The elements that a loop over the value sees. Throws Trouble where it is not iterable. An iterator is at
/// its end afterwards.
List elements(const Value& value, Meter& meter);

/// Null where the key is missing. Throws Trouble where it cannot be a key.
const Value* find(const Pairs& entries, const Value& key, Meter& meter);
const Value* find(const Pairs& entries, std::string_view key, Meter& meter);
/// Adds the entry, or replaces the value of its key.
void put(Pairs& entries, Value key, Value value, Meter& meter);

/// The style of json.dumps, as `transformers` passes it to templates.
struct JsonStyle {
  std::optional<std::string> indent;  ///< for each level
  std::string between = ", ", after_key = ": ";
  bool ascii = false, sorted = false;
};
std::string json_text(const Value& value, const JsonStyle& style, Meter& meter);

}  // namespace crumb::text::chat
