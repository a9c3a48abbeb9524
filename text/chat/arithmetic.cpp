#include <cmath>
#include <limits>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "text/chat/functions.h"
#include "text/chat/percent_format.h"

namespace crumb::text::chat {
namespace {

constexpr std::int64_t kExactInDouble = std::int64_t{1} << 53;

Trouble too_large() { return Trouble("an integer of more than 64 bits is not supported"); }

std::int64_t held(checked::Integer exact) {
  if (!exact) throw too_large();
  return *exact;
}

Trouble no_operation(std::string_view how, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right})
    if (value->is(Kind::kUndefined) && !value->as_text().empty()) return Trouble(value->as_text());
  return Trouble("there is no " + quote_text(how) + " of " + describe(left) + " and " + describe(right));
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw Trouble("division by zero");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t out = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent % 2 == 1) out = held(checked::multiply_signed(out, base));
    if (exponent > 1) base = held(checked::multiply_signed(base, base));
  }
  return Value::integer(out);
}

Value integers(std::string_view how, std::int64_t a, std::int64_t b) {
  if (how == "-") return Value::integer(held(checked::subtract_signed(a, b)));
  if (how == "*") return Value::integer(held(checked::multiply_signed(a, b)));
  if (how == "**") return power(a, b);
  if (b == 0) throw Trouble("division by zero");
  if (how == "/") {
    if (std::abs(static_cast<double>(a)) > kExactInDouble ||
        std::abs(static_cast<double>(b)) > kExactInDouble)
      throw too_large();
    return Value::real(static_cast<double>(a) / static_cast<double>(b));
  }
  if (b == -1) return Value::integer(how == "%" ? 0 : held(checked::subtract_signed(0, a)));
  const bool down = a % b != 0 && (a % b < 0) != (b < 0);  // towards minus infinity
  return Value::integer(how == "%" ? a % b + (down ? b : 0) : a / b - (down ? 1 : 0));
}

Value reals(std::string_view how, double a, double b) {
  if (how == "-") return Value::real(a - b);
  if (how == "*") return Value::real(a * b);
  if (how == "**") {
    if (a == 0 && b < 0) throw Trouble("division by zero");
    if (a < 0 && std::isfinite(b) && b != std::floor(b)) throw Trouble("complex numbers are not supported");
    const double made = std::pow(a, b);
    if (std::isinf(made) && std::isfinite(a) && std::isfinite(b)) throw Trouble("a number is too large");
    return Value::real(made);
  }
  if (b == 0) throw Trouble("division by zero");
  if (how == "/") return Value::real(a / b);
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (how == "%") return Value::real(rest);
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  double down = std::floor(quotient);
  if (quotient - down > 0.5) down += 1;
  return Value::real(down);
}

Value repeated(const Value& value, std::int64_t times, Meter& meter) {
  const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(times, 0));
  if (value.is(Kind::kString)) {
    if (value.as_text().empty() || count == 0) return value.is_safe() ? Value::safe("") : Value::text("");
    if (count > std::numeric_limits<std::uint32_t>::max()) throw Trouble("a text is too long");
    meter.spend_text(value.as_text().size() * count);
    std::string out;
    for (std::uint64_t i = 0; i < count; ++i) out += value.as_text();
    return value.is_safe() ? Value::safe(std::move(out)) : Value::text(std::move(out));
  }
  List out;
  if (!value.items().empty()) {
    if (count > std::numeric_limits<std::uint32_t>::max()) throw Trouble("a list is too long");
    meter.spend(value.items().size() * count * 4);
    for (std::uint64_t i = 0; i < count; ++i)
      out.insert(out.end(), value.items().begin(), value.items().end());
  }
  return Value::sequence(value.kind(), std::move(out));
}

bool repeats(const Value& value) {
  return value.is(Kind::kString) || value.is(Kind::kList) || value.is(Kind::kTuple);
}

/// Escapes a text that is added to a safe one, as Markup does.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

/// A tuple gives the format its elements. A dict or list is one value, which the format need not use.
Value percented(const Value& format, const Value& given, Meter& meter) {
  PercentArguments arguments;
  if (given.is(Kind::kTuple)) {
    arguments.values = given.items();
  } else {
    arguments.values = {given};
    arguments.by_name = given.is(Kind::kDict) || given.is(Kind::kList);
    if (given.is(Kind::kDict)) arguments.named = given.entries();
  }
  return Value::text(percent_formatted(format.as_text(), arguments, meter));
}

}  // namespace

Value sum_of(const Value& left, const Value& right, Meter& meter) {
  if (left.is_number() && right.is_number()) {
    if (left.is(Kind::kFloat) || right.is(Kind::kFloat)) return Value::real(left.to_real() + right.to_real());
    return Value::integer(held(checked::add_signed(left.as_integer(), right.as_integer())));
  }
  if (left.is(Kind::kString) && right.is(Kind::kString)) {
    meter.spend_text(left.as_text().size() + right.as_text().size());
    if (!left.is_safe() && !right.is_safe()) return Value::text(left.as_text() + right.as_text());
    const auto part = [&](const Value& value) {
      return value.is_safe() ? value.as_text() : escaped(value.as_text());
    };
    std::string made = part(left) + part(right);
    meter.spend_text(made.size());
    return Value::safe(std::move(made));
  }
  if ((left.is(Kind::kList) || left.is(Kind::kTuple)) && left.kind() == right.kind()) {
    meter.spend(4 * (left.items().size() + right.items().size()));
    List items = left.items();
    items.insert(items.end(), right.items().begin(), right.items().end());
    return Value::sequence(left.kind(), std::move(items));
  }
  throw no_operation("+", left, right);
}

Value arithmetic(std::string_view how, const Value& left, const Value& right, Meter& meter) {
  meter.spend(1);
  if (how == "+") return sum_of(left, right, meter);
  if (left.is_number() && right.is_number()) {
    if (left.is(Kind::kFloat) || right.is(Kind::kFloat)) return reals(how, left.to_real(), right.to_real());
    return integers(how, left.as_integer(), right.as_integer());
  }
  if (how == "*" && repeats(left) && right.is_integer()) return repeated(left, right.as_integer(), meter);
  if (how == "*" && repeats(right) && left.is_integer()) return repeated(right, left.as_integer(), meter);
  if (how == "%" && left.is(Kind::kString) && !left.is_safe()) return percented(left, right, meter);
  throw no_operation(how, left, right);
}

Value negative(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::real(-value.as_real());
  if (!value.is_integer()) throw no_operation("-", value, value);
  return Value::integer(held(checked::subtract_signed(0, value.as_integer())));
}

}  // namespace crumb::text::chat
