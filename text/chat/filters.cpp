#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/files/text.h"
#include "text/chat/functions.h"
#include "text/chat/percent_format.h"
#include "text/chat/python_numbers.h"
#include "text/chat/python_text.h"

namespace crumb::text::chat {
namespace {

struct Call {
  const Value& input;
  const Arguments& arguments;
  Meter& meter;

  std::vector<std::optional<Value>> bind(std::initializer_list<std::string_view> names) const {
    return chat::bind(arguments, names);
  }
  std::string text() const { return str(input, meter); }
  Value like(std::string made) const {
    return input.is_safe() ? Value::safe(std::move(made)) : Value::text(std::move(made));
  }
};

bool flag(const std::optional<Value>& argument) { return argument && truth(*argument); }

Value iterator(List items) { return Value::sequence(Kind::kIterator, std::move(items)); }

/// What sorting compares; lower case for texts.
Value without_case(const Value& value) {
  return value.is(Kind::kString) ? Value::text(lower(value.as_text())) : value;
}

struct Keys {
  std::optional<Value> attribute;
  bool with_case = false;

  Value operator()(const Value& item, Meter& meter) const {
    const Value value = attribute ? attribute_path(item, *attribute, meter) : item;
    return with_case ? value : without_case(value);
  }
};

/// In the order of the keys; equal ones keep their order.
List sorted(const List& items, const List& keys, bool reverse, Meter& meter) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return reverse ? less(keys[b], keys[a], meter) : less(keys[a], keys[b], meter);
  });
  List out;
  for (const std::size_t i : order) out.push_back(items[i]);
  return out;
}

Value filter_sort(const Call& call) {
  const auto given = call.bind({"reverse", "case_sensitive", "attribute"});
  if (given[2] && given[2]->is(Kind::kString) && given[2]->as_text().find(',') != std::string::npos)
    throw Trouble("sorting by more than one attribute is not supported");
  const Keys key{given[2], flag(given[1])};
  const List items = elements(call.input, call.meter);
  List keys;
  for (const Value& item : items) keys.push_back(key(item, call.meter));
  return Value::sequence(Kind::kList, sorted(items, keys, flag(given[0]), call.meter));
}

Value filter_dictsort(const Call& call) {
  const auto given = call.bind({"case_sensitive", "by", "reverse"});
  const std::string by = given[1] ? text_of(*given[1], "by") : "key";
  if (by != "key" && by != "value") throw Trouble("dictsort sorts by 'key' or 'value'");
  if (!call.input.is(Kind::kDict)) throw Trouble(describe(call.input) + " is no dict");
  List items, keys;
  for (const auto& [key, value] : call.input.entries()) {
    const Value& what = by == "key" ? key : value;
    keys.push_back(flag(given[0]) ? what : without_case(what));
    items.push_back(Value::sequence(Kind::kTuple, {key, value}));
  }
  return Value::sequence(Kind::kList, sorted(items, keys, flag(given[2]), call.meter));
}

Value filter_unique(const Call& call) {
  const auto given = call.bind({"case_sensitive", "attribute"});
  const Keys key{given[1], flag(given[0])};
  Pairs seen;
  List out;
  for (const Value& item : elements(call.input, call.meter)) {
    const Value one = key(item, call.meter);
    const std::size_t before = seen.size();
    put(seen, one, Value::none(), call.meter);
    if (seen.size() > before) out.push_back(item);
  }
  return iterator(std::move(out));
}

Value least_or_most(const Call& call, bool least) {
  const auto given = call.bind({"case_sensitive", "attribute"});
  const Keys key{given[1], flag(given[0])};
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : elements(call.input, call.meter)) {
    Value one = key(item, call.meter);
    if (!best || (least ? less(one, best->first, call.meter) : less(best->first, one, call.meter)))
      best = {std::move(one), item};
  }
  return best ? best->second : Value::undefined("the sequence is empty");
}

Value filter_map(const Call& call) {
  List out;
  const Arguments& given = call.arguments;
  if (!truth(call.input)) return iterator({});
  if (given.positional.empty()) {
    const auto named = call.bind({"attribute", "default"});
    if (!named[0]) throw Trouble("map needs a filter or an attribute");
    for (const Value& item : elements(call.input, call.meter)) {
      const Value value = attribute_path(item, *named[0], call.meter);
      const bool stands_in = value.is(Kind::kUndefined) && named[1] && !named[1]->is(Kind::kNone);
      out.push_back(stands_in ? *named[1] : value);
    }
    return iterator(std::move(out));
  }
  const std::string& name = text_of(given.positional[0], "a filter's name");
  const Arguments rest{{given.positional.begin() + 1, given.positional.end()}, given.named};
  for (const Value& item : elements(call.input, call.meter))
    out.push_back(apply_filter(name, item, rest, call.meter));
  return iterator(std::move(out));
}

Value choose(const Call& call, bool keep, bool by_attribute) {
  List out;
  if (!truth(call.input)) return iterator({});
  const List& given = call.arguments.positional;
  std::size_t used = 0;
  Value path = Value::none();
  if (by_attribute) {
    if (given.empty()) throw Trouble("it needs an attribute");
    path = given[used++];
  }
  const bool tests = given.size() > used;
  const std::string name = tests ? text_of(given[used++], "a test's name") : "";
  const Arguments rest{{given.begin() + static_cast<std::ptrdiff_t>(used), given.end()},
                       call.arguments.named};
  for (const Value& item : elements(call.input, call.meter)) {
    const Value value = attribute_path(item, path, call.meter);
    if ((tests ? apply_test(name, value, rest, call.meter) : truth(value)) == keep) out.push_back(item);
  }
  return iterator(std::move(out));
}

Value filter_join(const Call& call) {
  const auto given = call.bind({"d", "attribute"});
  const std::string between = given[0] ? str(*given[0], call.meter) : "";
  std::string out;
  bool is_first = true;
  for (const Value& item : elements(call.input, call.meter)) {
    if (!is_first) out += between;
    is_first = false;
    out += str(given[1] ? attribute_path(item, *given[1], call.meter) : item, call.meter);
    call.meter.spend_text(between.size());
  }
  return Value::text(std::move(out));
}

Value filter_default(const Call& call) {
  const auto given = call.bind({"default_value", "boolean"});
  const bool stands_in = call.input.is(Kind::kUndefined) || (flag(given[1]) && !truth(call.input));
  return !stands_in ? call.input : given[0] ? *given[0] : Value::text("");
}

Value filter_tojson(const Call& call) {
  const auto given = call.bind({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = flag(given[0]);
  style.sorted = flag(given[3]);
  if (given[1] && !given[1]->is(Kind::kNone)) {
    constexpr std::int64_t kWidest = 1000;
    if (given[1]->is(Kind::kString)) {
      style.indent = given[1]->as_text();
    } else {
      const std::int64_t width = std::max<std::int64_t>(0, integer_of(*given[1], "an indent"));
      if (width > kWidest) throw Trouble("an indent is too wide");
      style.indent = std::string(static_cast<std::size_t>(width), ' ');
    }
    style.between = ",";
  }
  if (given[2] && !given[2]->is(Kind::kNone)) {
    const List pair = elements(*given[2], call.meter);
    if (pair.size() != 2) throw Trouble("separators are two texts");
    style.between = text_of(pair[0], "a separator");
    style.after_key = text_of(pair[1], "a separator");
  }
  return Value::text(json_text(call.input, style, call.meter));
}

Value filter_indent(const Call& call) {
  const auto given = call.bind({"width", "first", "blank"});
  const std::string text = text_of(call.input, "what is indented");
  if (call.input.is_safe()) throw Trouble("indenting a text marked safe is not supported");
  std::string by = "    ";
  if (given[0] && given[0]->is(Kind::kString)) {
    by = given[0]->as_text();
  } else if (given[0]) {
    const std::int64_t width = std::max<std::int64_t>(0, integer_of(*given[0], "a width"));
    call.meter.spend_text(static_cast<std::uint64_t>(width));
    by = std::string(static_cast<std::size_t>(width), ' ');
  }
  std::string out = flag(given[1]) ? by : "";
  const std::string with_end = text + "\n";
  bool is_first = true;
  for (const std::string_view line : split_lines(with_end)) {
    if (!is_first) out += '\n';
    if (!is_first && (flag(given[2]) || !line.empty())) {
      call.meter.spend_text(by.size());
      out += by;
    }
    is_first = false;
    out += line;
  }
  call.meter.spend_text(out.size());
  return Value::text(std::move(out));
}

Value filter_int(const Call& call) {
  const auto given = call.bind({"default", "base"});
  if (given[1] && !(given[1]->is(Kind::kInt) && given[1]->as_integer() == 10))
    throw Trouble("integers with another base than 10 are not supported");
  std::optional<std::int64_t> made;
  if (call.input.is_integer()) made = call.input.as_integer();
  if (call.input.is(Kind::kFloat)) made = truncated(call.input.as_real());
  if (call.input.is(Kind::kUndefined)) integer_of(call.input, "");
  if (call.input.is(Kind::kString)) {
    made = integer_in(call.input.as_text());
    if (!made) {
      if (const auto real = real_in(call.input.as_text())) made = truncated(*real);
    }
  }
  return made ? Value::integer(*made) : given[0] ? *given[0] : Value::integer(0);
}

Value filter_float(const Call& call) {
  const auto given = call.bind({"default"});
  if (call.input.is(Kind::kUndefined)) integer_of(call.input, "");
  if (call.input.is_number()) return Value::real(call.input.to_real());
  const auto made = call.input.is(Kind::kString) ? real_in(call.input.as_text()) : std::nullopt;
  return made ? Value::real(*made) : given[0] ? *given[0] : Value::real(0);
}

Value filter_round(const Call& call) {
  constexpr std::int64_t kMostDigits = 20;
  const auto given = call.bind({"precision", "method"});
  const std::int64_t digits = given[0] ? integer_of(*given[0], "a precision") : 0;
  const std::string method = given[1] ? text_of(*given[1], "a method") : "common";
  if (!call.input.is_number()) throw Trouble(describe(call.input) + " cannot be rounded");
  if (digits < 0 || digits > kMostDigits) throw Trouble("rounding to such a precision is not supported");
  const double value = call.input.to_real();
  if (method == "common") {
    if (call.input.is_integer()) return Value::integer(call.input.as_integer());
    if (!std::isfinite(value)) return call.input;
    std::array<char, 400> buffer{};
    const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                            std::chars_format::fixed, static_cast<int>(digits));
    double made = 0;
    std::from_chars(buffer.data(), end, made);
    return Value::real(made);
  }
  if (method != "ceil" && method != "floor") throw Trouble("there is no rounding " + quote_text(method));
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (!std::isfinite(value)) throw Trouble("a number that is not finite cannot be rounded");
  return Value::real((method == "ceil" ? std::ceil(value * scale) : std::floor(value * scale)) / scale);
}

Value filter_first(const Call& call) {
  call.bind({});
  if (call.input.is(Kind::kIterator)) {
    Iterator& walk = call.input.iterator();
    if (walk.next < walk.items.size()) return walk.items[walk.next++];
    return Value::undefined("the sequence is empty");
  }
  const List items = elements(call.input, call.meter);
  return items.empty() ? Value::undefined("the sequence is empty") : items.front();
}

Value filter_last(const Call& call) {
  call.bind({});
  if (call.input.is(Kind::kIterator)) throw Trouble(describe(call.input) + " cannot be walked backwards");
  const List items = elements(call.input, call.meter);
  return items.empty() ? Value::undefined("the sequence is empty") : items.back();
}

Value filter_reverse(const Call& call) {
  call.bind({});
  if (call.input.is(Kind::kString))
    return slice(call.input, Value::none(), Value::none(), Value::integer(-1), call.meter);
  List items = elements(call.input, call.meter);
  std::ranges::reverse(items);
  // Python reverses an iterator as a list.
  return Value::sequence(call.input.is(Kind::kIterator) ? Kind::kList : Kind::kIterator, std::move(items));
}

Value filter_sum(const Call& call) {
  const auto given = call.bind({"attribute", "start"});
  Value total = given[1] ? *given[1] : Value::integer(0);
  if (total.is(Kind::kString)) throw Trouble("strings cannot be summed");
  for (const Value& item : elements(call.input, call.meter))
    total = sum_of(total, given[0] ? attribute_path(item, *given[0], call.meter) : item, call.meter);
  return total;
}

Value filter_items(const Call& call) {
  call.bind({});
  if (call.input.is(Kind::kUndefined)) return iterator({});
  if (!call.input.is(Kind::kDict)) throw Trouble(describe(call.input) + " is no dict");
  List out;
  for (const auto& [key, value] : call.input.entries())
    out.push_back(Value::sequence(Kind::kTuple, {key, value}));
  call.meter.spend(2 * out.size());
  return iterator(std::move(out));
}

Value filter_trim(const Call& call) {
  const auto given = call.bind({"chars"});
  const bool spaces = !given[0] || given[0]->is(Kind::kNone);
  const std::string_view characters = spaces ? std::string_view() : text_of(*given[0], "what to strip");
  const std::string text = call.text();
  call.meter.spend(text.size() * characters.size() / 64);
  return call.like(std::string(strip(text, true, true, spaces ? nullptr : &characters)));
}

Value filter_title(const Call& call) {
  call.bind({});
  std::string out, word;
  const auto flush = [&] {
    const std::size_t first = offset_of(word, 1);
    out += upper(word.substr(0, first)) + lower(word.substr(first));
    word.clear();
  };
  bool between = false;
  // Words begin behind white space, dashes and opening brackets.
  for (const Value& character : elements(Value::text(call.text()), call.meter)) {
    const std::string& c = character.as_text();
    const bool separates =
        c == "-" || c == "(" || c == "{" || c == "[" || c == "<" || strip(c, true, false).empty();
    if (separates != between) flush();
    between = separates;
    word += c;
  }
  flush();
  return call.like(std::move(out));
}

Value filter_length(const Call& call) {
  call.bind({});
  const auto count = length(call.input);
  if (!count) throw Trouble(describe(call.input) + " has no length");
  if (call.input.is(Kind::kString)) call.meter.spend_text(call.input.as_text().size());
  return Value::integer(static_cast<std::int64_t>(*count));
}

Value filter_replace(const Call& call) {
  const auto given = call.bind({"old", "new", "count"});
  const auto text = [&](std::size_t i, const char* name) {
    return Value::text(str(required(given[i], name), call.meter));
  };
  Arguments plain{{text(0, "old"), text(1, "new")}, {}};
  if (given[2] && !given[2]->is(Kind::kNone)) plain.positional.push_back(*given[2]);
  return call_method(Value::text(call.text()), "replace", plain, call.meter);
}

Value filter_abs(const Call& call) {
  call.bind({});
  if (!call.input.is_number()) throw Trouble(describe(call.input) + " has no absolute value");
  if (call.input.is(Kind::kFloat)) return Value::real(std::abs(call.input.as_real()));
  return call.input.as_integer() < 0 ? negative(call.input) : Value::integer(call.input.as_integer());
}

Value filter_attr(const Call& call) {
  const auto given = call.bind({"name"});
  if (call.input.is(Kind::kDict)) {  // items are no attributes
    const std::string& name = text_of(required(given[0], "name"), "a name");
    return element(Value::dict({}), Value::text(name), call.meter).is(Kind::kUndefined)
               ? Value::undefined("a dict has no attribute " + quote_text(name))
               : attribute(call.input, name, call.meter);
  }
  return attribute(call.input, text_of(required(given[0], "name"), "a name"), call.meter);
}

Value text_filter(const Call& call, std::string (*change)(std::string_view)) {
  call.bind({});
  return call.like(change(call.text()));
}

Value filter_format(const Call& call) {
  const Arguments& given = call.arguments;
  if (!given.positional.empty() && !given.named.empty())
    throw Trouble("a format takes values in their order or by name, not both");
  PercentArguments arguments{.values = given.positional, .by_name = !given.named.empty()};
  for (const auto& [name, value] : given.named) arguments.named.emplace_back(Value::text(name), value);
  return call.like(percent_formatted(call.text(), arguments, call.meter));
}

struct FilterRow {
  std::string_view name;
  Value (*run)(const Call& call);
};

constexpr std::array<FilterRow, 37> kFilters = {{
    {"abs", filter_abs},
    {"attr", filter_attr},
    {"capitalize", [](const Call& call) { return text_filter(call, capitalize); }},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"float", filter_float},
    {"format", filter_format},
    {"indent", filter_indent},
    {"int", filter_int},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list",
     [](const Call& call) {
       call.bind({});
       return Value::sequence(Kind::kList, elements(call.input, call.meter));
     }},
    {"lower", [](const Call& call) { return text_filter(call, lower); }},
    {"map", filter_map},
    {"max", [](const Call& call) { return least_or_most(call, false); }},
    {"min", [](const Call& call) { return least_or_most(call, true); }},
    {"reject", [](const Call& call) { return choose(call, false, false); }},
    {"rejectattr", [](const Call& call) { return choose(call, false, true); }},
    {"replace", filter_replace},
    {"reverse", filter_reverse},
    {"round", filter_round},
    {"safe",
     [](const Call& call) {
       call.bind({});
       return Value::safe(call.text());
     }},
    {"select", [](const Call& call) { return choose(call, true, false); }},
    {"selectattr", [](const Call& call) { return choose(call, true, true); }},
    {"sort", filter_sort},
    {"string",
     [](const Call& call) {
       call.bind({});
       return call.input.is(Kind::kString) ? call.input : Value::text(call.text());
     }},
    {"sum", filter_sum},
    {"title", filter_title},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"unique", filter_unique},
    {"upper", [](const Call& call) { return text_filter(call, upper); }},
}};

}  // namespace

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments, Meter& meter) {
  meter.spend(1);
  const auto* const row = std::ranges::find(kFilters, name, &FilterRow::name);
  if (row == kFilters.end()) throw Trouble("there is no filter " + quote_text(name));
  try {
    return row->run({input, arguments, meter});
  } catch (const Trouble& trouble) {
    throw Trouble("the filter " + quote_text(name) + ": " + trouble.what());
  }
}

}  // namespace crumb::text::chat
