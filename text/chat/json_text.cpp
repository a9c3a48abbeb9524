#include <algorithm>
#include <cmath>

#include "text/chat/python_text.h"
#include "text/chat/value.h"
#include "text/unicode.h"

namespace crumb::text::chat {
namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Meter& meter) : style_(style), meter_(meter) {}

  void write(const Value& value) {
    meter_.spend(1);
    switch (value.kind()) {
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat: out_ += scalar(value); return;
      case Kind::kString: return write_text(value.as_text());
      case Kind::kList:
      case Kind::kTuple: return write_list(value.items());
      case Kind::kDict: return write_dict(value.entries());
      default: throw Trouble(describe(value) + " cannot be written as JSON");
    }
  }

  std::string take() { return std::move(out_); }

 private:
  static std::string scalar(const Value& value) {
    if (value.is(Kind::kNone)) return "null";
    if (value.is(Kind::kBool)) return value.as_boolean() ? "true" : "false";
    if (value.is(Kind::kInt)) return std::to_string(value.as_integer());
    const double number = value.as_real();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  void write_text(const std::string& text) {
    meter_.spend_text(2 * text.size());
    out_ += '"';
    for (const char32_t c : unicode::decode(text)) {
      switch (c) {
        case '"': out_ += "\\\""; break;
        case '\\': out_ += "\\\\"; break;
        case '\n': out_ += "\\n"; break;
        case '\r': out_ += "\\r"; break;
        case '\t': out_ += "\\t"; break;
        case '\f': out_ += "\\f"; break;
        case '\b': out_ += "\\b"; break;
        default: write_character(c);
      }
    }
    out_ += '"';
  }

  void write_character(char32_t c) {
    if (c >= 0x20 && (c < 0x7F || !style_.ascii)) return unicode::append_utf8(c, out_);
    if (c >= 0x10000) {
      write_unit(0xD7C0 + (c >> 10));
      return write_unit(0xDC00 + (c & 0x3FF));
    }
    write_unit(c);
  }

  void write_unit(char32_t unit) {
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += "0123456789abcdef"[(unit >> shift) & 15];
  }

  void new_line() {
    if (!style_.indent) return;
    meter_.spend_text(depth_ * style_.indent->size());
    out_ += '\n';
    for (unsigned i = 0; i < depth_; ++i) out_ += *style_.indent;
  }

  void write_list(const List& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++depth_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.between;
      new_line();
      write(items[i]);
    }
    --depth_;
    new_line();
    out_ += ']';
  }

  void write_dict(const Pairs& entries) {
    if (entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const Pairs::value_type*> order;
    for (const auto& entry : entries) order.push_back(&entry);
    if (style_.sorted) {
      meter_.spend(entries.size() * 8);
      std::ranges::stable_sort(
          order, [this](const auto* a, const auto* b) { return less(a->first, b->first, meter_); });
    }
    out_ += '{';
    ++depth_;
    const char* between = "";
    for (const auto* entry : order) {
      out_ += between;
      between = style_.between.c_str();
      new_line();
      const Value& key = entry->first;
      if (key.is(Kind::kString)) {
        write_text(key.as_text());
      } else if (key.is_number() || key.is(Kind::kNone)) {
        write_text(scalar(key));
      } else {
        throw Trouble(describe(key) + " is no key of JSON");
      }
      out_ += style_.after_key;
      write(entry->second);
    }
    --depth_;
    new_line();
    out_ += '}';
  }

  const JsonStyle& style_;
  Meter& meter_;
  unsigned depth_ = 0;
  std::string out_;
};

}  // namespace

std::string json_text(const Value& value, const JsonStyle& style, Meter& meter) {
  JsonWriter writer(style, meter);
  writer.write(value);
  return writer.take();
}

}  // namespace crumb::text::chat
