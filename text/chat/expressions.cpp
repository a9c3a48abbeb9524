#include <algorithm>
#include <array>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "text/chat/renderer.h"

namespace crumb::text::chat {
namespace {

constexpr std::int64_t kLongestRange = 100'000;

enum Function { kRangeOf, kDictOf, kNamespaceOf, kRaise, kNow };
constexpr std::array<std::string_view, 5> kFunctions = {"range", "dict", "namespace", "raise_exception",
                                                        "strftime_now"};

/// range() of one, two or three numbers.
Value range_of(const Arguments& arguments, Meter& meter) {
  const List& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty())
    throw Trouble("range() takes 1 to 3 numbers");
  std::vector<std::int64_t> numbers;
  for (const Value& value : given) numbers.push_back(integer_of(value, "what range() takes"));
  const std::int64_t first = numbers.size() > 1 ? numbers[0] : 0,
                     end = numbers.size() > 1 ? numbers[1] : numbers[0];
  const std::int64_t step = numbers.size() > 2 ? numbers[2] : 1;
  if (step == 0) throw Trouble("range() with the step 0");
  List items;
  for (std::int64_t at = first; step > 0 ? at < end : at > end;) {
    if (static_cast<std::int64_t>(items.size()) == kLongestRange)
      throw Trouble("a range of more than 100000 numbers");
    meter.spend(2);
    items.push_back(Value::integer(at));
    const checked::Integer next = checked::add_signed(at, step);
    if (!next) break;
    at = *next;
  }
  return Value::sequence(Kind::kRange, std::move(items));
}

/// The arguments of dict(): a dict or pairs, and values with names.
Pairs entries_of(const Arguments& arguments, Meter& meter) {
  Pairs made;
  if (arguments.positional.size() > 1) throw Trouble("dict() takes one argument without a name");
  for (const Value& given : arguments.positional) {
    if (given.is(Kind::kDict)) {
      meter.spend(2 * given.entries().size());
      made = given.entries();
      continue;
    }
    for (const Value& pair : elements(given, meter)) {
      const List both = elements(pair, meter);
      if (both.size() != 2) throw Trouble("dict() takes pairs");
      put(made, both[0], both[1], meter);
    }
  }
  for (const auto& [name, value] : arguments.named) put(made, Value::text(name), value, meter);
  return made;
}

std::string time_text(const std::string& format, std::time_t now) {
  constexpr std::size_t kLongest = 4096;
  for (std::size_t at = 0; (at = format.find('%', at)) != std::string::npos; at += 2) {
    const char kind = at + 1 < format.size() ? format[at + 1] : '\0';
    constexpr std::string_view kKnown = "aAbBcCdDeFgGhHIjklmMnprRsStTuUVwWxXyY%";
    if (kKnown.find(kind) == std::string_view::npos)
      throw Trouble("strftime_now with " + quote_text(format.substr(at, 2)) + " is not supported");
  }
  if (format.empty()) return {};
  std::tm parts{};
  localtime_r(&now, &parts);
  std::string out(kLongest, '\0');
  const std::size_t size =
      std::strftime(out.data(), out.size(), (format + " ").c_str(), &parts);  // NOLINT: checked
  if (size == 0) throw Trouble("a time's text is too long");
  out.resize(size - 1);
  return out;
}

}  // namespace

void Renderer::add_functions() {
  for (std::size_t i = 0; i < kFunctions.size(); ++i)  // variables of these names take precedence
    if (find(context_, kFunctions[i], meter_) == nullptr)
      context_.emplace_back(Value::text(std::string(kFunctions[i])), Value::function(static_cast<int>(i)));
}

Value Renderer::evaluate(const Node& node, Scope& scope, bool may_be_loop) {
  meter_.spend(1);
  go_deeper();
  line_ = node.line;
  Value value = compute(node, scope, may_be_loop);
  line_ = node.line;
  --depth_;
  return value;
}

Value Renderer::compute(const Node& node, Scope& scope, bool may_be_loop) {
  const auto part = [&](std::size_t i) { return evaluate(*node.parts[i], scope); };
  switch (node.kind) {
    case NodeKind::kConstant: return node.value;
    case NodeKind::kName: {
      Value value = variable(node.symbol, scope);
      if (value.is(Kind::kLoop) && !may_be_loop) throw Trouble("'loop' as a value is not supported");
      return value;
    }
    case NodeKind::kAttribute: return attribute(evaluate(*node.parts[0], scope, true), node.name, meter_);
    case NodeKind::kItem: {
      const Value object = evaluate(*node.parts[0], scope, true);
      return element(object, part(1), meter_);
    }
    case NodeKind::kSlice: return slice_of(node, scope);
    case NodeKind::kCall: return call(node, scope);
    case NodeKind::kFilter: return filtered(node, part(0), scope);
    case NodeKind::kTest: {
      const Value input = evaluate(*node.parts[0], scope, true);
      return Value::boolean(apply_test(node.name, input, arguments_of(node, scope), meter_));
    }
    case NodeKind::kNot: return Value::boolean(!truth(part(0)));
    case NodeKind::kMinus: return negative(part(0));
    case NodeKind::kPlus: {
      const Value value = part(0);
      return value.is(Kind::kFloat) ? value : Value::integer(integer_of(value, "what + stands before"));
    }
    case NodeKind::kAnd: {
      Value left = part(0);
      return truth(left) ? part(1) : left;
    }
    case NodeKind::kOr: {
      Value left = part(0);
      return truth(left) ? left : part(1);
    }
    case NodeKind::kCompare: return compare(node, scope);
    case NodeKind::kConcat: return concatenation(node, scope);
    case NodeKind::kArithmetic: {
      const Value left = part(0);
      return arithmetic(node.name, left, part(1), meter_);
    }
    case NodeKind::kChoice:
      if (truth(part(0))) return part(1);
      return node.parts[2] ? part(2) : Value::undefined("the condition does not hold, and there is no else");
    case NodeKind::kList:
    case NodeKind::kTuple: return sequence_of(node, scope);
    case NodeKind::kDict: return dict_of(node, scope);
    default: throw Trouble("this is no expression");
  }
}

Value Renderer::concatenation(const Node& node, Scope& scope) {
  std::string text;
  for (const auto& part : node.parts) text += str(evaluate(*part, scope), meter_);
  meter_.spend_text(text.size());
  return Value::text(std::move(text));
}

Value Renderer::sequence_of(const Node& node, Scope& scope) {
  List items;
  for (const auto& part : node.parts) items.push_back(evaluate(*part, scope));
  meter_.spend(items.size());
  return Value::sequence(node.kind == NodeKind::kList ? Kind::kList : Kind::kTuple, std::move(items));
}

Value Renderer::dict_of(const Node& node, Scope& scope) {
  Pairs entries;
  for (std::size_t i = 0; i < node.parts.size(); i += 2) {
    Value key = evaluate(*node.parts[i], scope);
    put(entries, std::move(key), evaluate(*node.parts[i + 1], scope), meter_);
  }
  return Value::dict(std::move(entries));
}

Value Renderer::compare(const Node& node, Scope& scope) {
  Value left = evaluate(*node.parts[0], scope);
  for (std::size_t i = 0; i < node.names.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1], scope);
    const std::string& how = node.names[i];
    bool holds = false;
    if (how == "in" || how == "not in") {
      holds = contains(right, left, meter_) == (how == "in");
    } else if (how == "==" || how == "!=") {
      holds = equal(left, right, meter_) == (how == "==");
    } else {
      const bool up = how[0] == '<';
      // Not the negation of the other one: for NaN both are false.
      holds = less(up ? left : right, up ? right : left, meter_) ||
              (how.size() == 2 && equal(left, right, meter_));
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

/// Whether Jinja computes the expression while it compiles.
bool is_constant(const Node& node) {
  switch (node.kind) {
    case NodeKind::kConstant: return true;
    case NodeKind::kItem:
    case NodeKind::kSlice:
    case NodeKind::kNot:
    case NodeKind::kMinus:
    case NodeKind::kPlus:
    case NodeKind::kAnd:
    case NodeKind::kOr:
    case NodeKind::kCompare:
    case NodeKind::kConcat:
    case NodeKind::kArithmetic:
    case NodeKind::kChoice:
    case NodeKind::kList:
    case NodeKind::kTuple:
    case NodeKind::kDict:
      return std::ranges::all_of(node.parts, [](const auto& part) { return !part || is_constant(*part); });
    default: return false;
  }
}

Value Renderer::slice_of(const Node& node, Scope& scope) {
  const Value object = evaluate(*node.parts[0], scope);
  std::array<Value, 3> bounds;
  for (std::size_t i = 0; i < bounds.size(); ++i)
    bounds[i] = node.parts[i + 1] ? evaluate(*node.parts[i + 1], scope) : Value::none();
  // Python raises an error here, which Jinja takes for a missing element, except in constants.
  const bool is_whole = !object.is(Kind::kString) && !object.is_sequence() && !object.is(Kind::kUndefined);
  if (is_whole && is_constant(node)) return Value::undefined(describe(object) + " has no slices");
  return slice(object, bounds[0], bounds[1], bounds[2], meter_);
}

Arguments Renderer::arguments_of(const Node& node, Scope& scope) {
  Arguments made;
  const std::size_t first_named = node.parts.size() - node.names.size();
  for (std::size_t i = 1; i < node.parts.size(); ++i) {
    Value value = evaluate(*node.parts[i], scope);
    if (i < first_named) {
      made.positional.push_back(std::move(value));
    } else {
      made.named.emplace_back(node.names[i - first_named], std::move(value));
    }
  }
  return made;
}

Value Renderer::filtered(const Node& node, const Value& input, Scope& scope) {
  return apply_filter(node.name, input, arguments_of(node, scope), meter_);
}

Value Renderer::filter_text(const Node& filter, std::string text, Scope& scope) {
  const Value input =
      filter.parts[0] ? filter_text(*filter.parts[0], std::move(text), scope) : Value::text(std::move(text));
  return filtered(filter, input, scope);
}

Value Renderer::call(const Node& node, Scope& scope) {
  const Node& function = *node.parts[0];
  if (function.kind == NodeKind::kAttribute) {
    const Value object = evaluate(*function.parts[0], scope, true);
    if (object.is(Kind::kLoop)) return call_loop(object.as_loop(), function.name, arguments_of(node, scope));
    return call_value(attribute(object, function.name, meter_), arguments_of(node, scope));
  }
  const Value value = evaluate(function, scope);
  return call_value(value, arguments_of(node, scope));
}

Value Renderer::call_value(const Value& function, const Arguments& arguments) {
  switch (function.kind()) {
    case Kind::kMacro: return call_macro(function.as_macro(), arguments);
    case Kind::kFunction: return call_function(static_cast<int>(function.as_integer()), arguments);
    case Kind::kMethod:
      return call_method(function.as_method().self, function.as_method().name, arguments, meter_);
    case Kind::kUndefined:
      throw Trouble(function.as_text().empty() ? "a function is undefined" : function.as_text());
    default: throw Trouble(describe(function) + " cannot be called");
  }
}

Value Renderer::call_loop(Loop& loop, const std::string& name, const Arguments& arguments) {
  const List& given = arguments.positional;
  if (!arguments.named.empty()) throw Trouble("loop." + name + "() takes no arguments by name");
  if (name == "cycle") {
    if (given.empty()) throw Trouble("loop.cycle() needs values");
    return given[loop.index % given.size()];
  }
  if (name != "changed") throw Trouble("the loop has no method " + quote_text(name));
  const bool same = loop.changed && equal(Value::sequence(Kind::kTuple, *loop.changed),
                                          Value::sequence(Kind::kTuple, given), meter_);
  if (!same) loop.changed = given;
  return Value::boolean(!same);
}

Value Renderer::call_function(int function, const Arguments& arguments) {
  switch (function) {
    case kRangeOf: return range_of(arguments, meter_);
    case kDictOf: return Value::dict(entries_of(arguments, meter_));
    case kNamespaceOf: {
      Pairs made = entries_of(arguments, meter_);
      for (const auto& [name, value] : made)
        if (name.is(Kind::kString) && name.as_text().starts_with('_'))
          throw Trouble("a namespace cannot hold " + quote_text(name.as_text()));
      meter_.spend(8);
      return Value::name_space(&namespaces_.emplace_back(std::move(made)));
    }
    case kRaise: {
      const Value message = required(bind(arguments, {"message"})[0], "message");
      throw Trouble("the template refuses the conversation: " + printable(str(message, meter_)));
    }
    default:
      return Value::text(
          time_text(text_of(required(bind(arguments, {"format"})[0], "format"), "a format"), now_));
  }
}

Value Renderer::call_macro(const Node& macro, const Arguments& arguments) {
  Scope scope = enter(macro.scope, root_);
  const std::size_t count = macro.parameters.size(), defaults = macro.parts.size() - 1;
  if (arguments.positional.size() > count)
    throw Trouble("the macro " + quote_text(macro.name) + " takes " + std::to_string(count) + " arguments");
  std::vector<bool> given(count, false);
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    *scope.find(macro.parameters[i]) = arguments.positional[i];
    given[i] = true;
  }
  for (const auto& [name, value] : arguments.named) {
    const auto found = static_cast<std::size_t>(std::ranges::find(macro.names, name) - macro.names.begin());
    if (found == count || given[found])
      throw Trouble("the macro " + quote_text(macro.name) + " has no argument " + quote_text(name) + " here");
    *scope.find(macro.parameters[found]) = value;
    given[found] = true;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i]) continue;
    const std::size_t from_end = count - i;
    *scope.find(macro.parameters[i]) =
        from_end <= defaults ? evaluate(*macro.parts[defaults - from_end], scope)
                             : Value::undefined("the parameter " + quote_text(macro.names[i]) +
                                                " of the macro " + quote_text(macro.name) + " is not given");
  }
  return Value::text(captured(*macro.parts.back(), scope).first);
}

}  // namespace crumb::text::chat
