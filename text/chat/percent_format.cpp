#include "text/chat/percent_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/files/text.h"
#include "text/chat/python_numbers.h"
#include "text/chat/python_text.h"
#include "text/unicode.h"

namespace crumb::text::chat {
namespace {

constexpr std::int64_t kWidest = 100'000;

/// One conversion: %[(name)][flags][width][.precision]type.
struct Conversion {
  std::optional<std::string> name;
  bool left = false, plus = false, space = false, other = false, zeros = false;
  std::int64_t width = 0;
  std::optional<std::int64_t> precision;
  char type = 0;
};

class Formatter {
 public:
  Formatter(const std::string& format, const PercentArguments& arguments, Meter& meter)
      : format_(format), arguments_(arguments), meter_(meter) {}

  std::string run() {
    std::string out;
    while (at_ < format_.size()) {
      const std::size_t percent = std::min(format_.find('%', at_), format_.size());
      out.append(format_, at_, percent - at_);
      at_ = percent;
      if (at_ == format_.size()) break;
      ++at_;
      const Conversion conversion = read();
      const std::string made = conversion.type == '%' ? "%" : padded(conversion, text_of_one(conversion));
      meter_.spend_text(made.size());
      out += made;
    }
    if (!arguments_.by_name && used_ < arguments_.values.size())
      throw Trouble("not all arguments are converted by the format " + quote_text(format_));
    return out;
  }

 private:
  Trouble incomplete() const { return Trouble("the format " + quote_text(format_) + " is incomplete"); }

  char peek() const {
    if (at_ == format_.size()) throw incomplete();
    return format_[at_];
  }

  const Value& next(const Conversion& conversion) {
    if (conversion.name) {
      if (!arguments_.by_name) throw Trouble("a format with names needs a mapping");
      Meter free(UINT64_MAX);
      const Value* const found = find(arguments_.named, std::string_view(*conversion.name), free);
      if (found == nullptr) throw Trouble("the format has no argument " + quote_text(*conversion.name));
      return *found;
    }
    if (used_ == arguments_.values.size())
      throw Trouble("there are not enough arguments for the format " + quote_text(format_));
    return arguments_.values[used_++];
  }

  std::int64_t number() {
    if (peek() == '*') {
      ++at_;
      const Value& given = next({});
      if (!given.is_integer()) throw Trouble("* in a format wants an integer");
      return checked(given.as_integer());
    }
    std::int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') value = checked(10 * value + (format_[at_++] - '0'));
    return value;
  }

  static std::int64_t checked(std::int64_t value) {
    if (value > kWidest || value < -kWidest) throw Trouble("a width of more than 100000 is not supported");
    return value;
  }

  Conversion read() {
    Conversion made;
    if (peek() == '(') {
      const std::size_t end = format_.find(')', at_);
      if (end == std::string::npos) throw incomplete();
      made.name = format_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    }
    for (bool flag = true; flag;) {
      switch (peek()) {
        case '-': made.left = true; break;
        case '+': made.plus = true; break;
        case ' ': made.space = true; break;
        case '#': made.other = true; break;
        case '0': made.zeros = true; break;
        default: flag = false;
      }
      if (flag) ++at_;
    }
    made.width = number();
    if (made.width < 0) {
      made.left = true;
      made.width = -made.width;
    }
    if (peek() == '.') {
      ++at_;
      made.precision = std::max<std::int64_t>(number(), 0);
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    made.type = format_[at_++];
    return made;
  }

  std::string text_of_one(const Conversion& conversion) {
    switch (conversion.type) {
      case 's': return cut(conversion, str(next(conversion), meter_));
      case 'r': return cut(conversion, repr(next(conversion), meter_));
      case 'd':
      case 'i':
      case 'u': return integer(conversion, decimal_of(next(conversion)), 10);
      case 'x':
      case 'X': return integer(conversion, exact_of(conversion, next(conversion)), 16);
      case 'o': return integer(conversion, exact_of(conversion, next(conversion)), 8);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': return real(conversion, next(conversion));
      case 'c': return character(next(conversion));
      default:
        throw Trouble("the conversion " + quote_text(std::string("%") + conversion.type) +
                      " of a format is not supported");
    }
  }

  static std::string cut(const Conversion& conversion, std::string text) {
    if (conversion.precision) text.resize(offset_of(text, static_cast<std::size_t>(*conversion.precision)));
    return text;
  }

  static std::int64_t decimal_of(const Value& value) {
    if (value.is_integer()) return value.as_integer();
    if (!value.is(Kind::kFloat)) throw Trouble("%d of a format wants a number, found " + describe(value));
    const std::optional<std::int64_t> whole = truncated(value.as_real());
    if (!whole) throw Trouble("%d of a format cannot take " + float_text(value.as_real()));
    return *whole;
  }

  static std::int64_t exact_of(const Conversion& conversion, const Value& value) {
    if (!value.is_integer())
      throw Trouble(std::string("%") + conversion.type + " of a format wants an integer, found " +
                    describe(value));
    return value.as_integer();
  }

  static std::string sign_of(const Conversion& conversion, bool negative) {
    return negative ? "-" : conversion.plus ? "+" : conversion.space ? " " : "";
  }

  static std::string integer(const Conversion& conversion, std::int64_t value, int base) {
    const auto magnitude =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    char digits[64];
    std::string text(digits, std::to_chars(digits, digits + sizeof digits, magnitude, base).ptr);
    const auto least = static_cast<std::size_t>(conversion.precision.value_or(0));
    if (text.size() < least) text.insert(0, least - text.size(), '0');
    std::string before = sign_of(conversion, value < 0);
    if (conversion.other && base == 16) before += "0x";
    if (conversion.other && base == 8) before += "0o";
    text = with_zeros(conversion, before, text);
    if (conversion.type == 'X')
      std::ranges::transform(text, text.begin(), [](char c) {
        return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      });
    return text;
  }

  static std::string real(const Conversion& conversion, const Value& value) {
    if (!value.is_number())
      throw Trouble(std::string("%") + conversion.type + " of a format wants a number, found " +
                    describe(value));
    const double number = value.to_real();
    const auto precision = static_cast<int>(conversion.precision.value_or(6));
    const char format[] = {'%',
                           conversion.other ? '#' : '.',
                           conversion.other ? '.' : '*',
                           conversion.other ? '*' : conversion.type,
                           conversion.other ? conversion.type : '\0',
                           '\0'};
    const double magnitude = std::fabs(number);
    const int size = std::snprintf(nullptr, 0, format, precision, magnitude);
    std::string text(static_cast<std::size_t>(size), '\0');
    std::snprintf(text.data(), text.size() + 1, format, precision, magnitude);
    return with_zeros(conversion, sign_of(conversion, std::signbit(number) && !std::isnan(number)), text);
  }

  static std::string with_zeros(const Conversion& conversion, const std::string& before, std::string text) {
    const auto width = static_cast<std::size_t>(conversion.width);
    const std::size_t taken = before.size() + text.size();
    if (conversion.zeros && !conversion.left && taken < width) text.insert(0, width - taken, '0');
    return before + text;
  }

  static std::string character(const Value& value) {
    if (value.is(Kind::kString) && length_of(value.as_text()) == 1) return value.as_text();
    const bool is_code = value.is_integer() && value.as_integer() >= 0 && value.as_integer() < 0x110000 &&
                         (value.as_integer() < 0xD800 || value.as_integer() > 0xDFFF);
    if (!is_code) throw Trouble("%c of a format wants a character, found " + describe(value));
    return unicode::encode(std::u32string(1, static_cast<char32_t>(value.as_integer())));
  }

  static std::string padded(const Conversion& conversion, std::string text) {
    const std::size_t size = length_of(text);
    const auto width = static_cast<std::size_t>(conversion.width);
    if (size < width) text.insert(conversion.left ? text.size() : 0, width - size, ' ');
    return text;
  }

  const std::string& format_;
  const PercentArguments& arguments_;
  Meter& meter_;
  std::size_t at_ = 0, used_ = 0;
};

}  // namespace

std::string percent_formatted(const std::string& format, const PercentArguments& arguments, Meter& meter) {
  return Formatter(format, arguments, meter).run();
}

}  // namespace crumb::text::chat
