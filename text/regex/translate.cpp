#include "text/regex/translate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/files/text.h"

namespace crumb::text {
namespace {

/// Oniguruma's names of properties in PCRE2; all other names are taken for scripts.
constexpr auto kPropertyNames = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"alphabetic", "Alphabetic"},
    {"alpha", "Alphabetic"},
    {"any", "Any"},
    {"casedletter", "L&"},
    {"closepunctuation", "Pe"},
    {"connectorpunctuation", "Pc"},
    {"control", "Cc"},
    {"currencysymbol", "Sc"},
    {"dashpunctuation", "Pd"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"emoji", "Emoji"},
    {"enclosingmark", "Me"},
    {"extendedpictographic", "Extended_Pictographic"},
    {"finalpunctuation", "Pf"},
    {"format", "Cf"},
    {"ideographic", "Ideographic"},
    {"initialpunctuation", "Pi"},
    {"letter", "L"},
    {"letternumber", "Nl"},
    {"lineseparator", "Zl"},
    {"lower", "Lowercase"},
    {"lowercase", "Lowercase"},
    {"lowercaseletter", "Ll"},
    {"mark", "M"},
    {"mathsymbol", "Sm"},
    {"modifierletter", "Lm"},
    {"modifiersymbol", "Sk"},
    {"nonspacingmark", "Mn"},
    {"number", "N"},
    {"openpunctuation", "Ps"},
    {"other", "C"},
    {"otherletter", "Lo"},
    {"othernumber", "No"},
    {"otherpunctuation", "Po"},
    {"othersymbol", "So"},
    {"paragraphseparator", "Zp"},
    {"privateuse", "Co"},
    {"punctuation", "P"},
    {"separator", "Z"},
    {"space", "White_Space"},
    {"spaceseparator", "Zs"},
    {"spacingmark", "Mc"},
    {"symbol", "S"},
    {"titlecaseletter", "Lt"},
    {"unassigned", "Cn"},
    {"upper", "Uppercase"},
    {"uppercase", "Uppercase"},
    {"uppercaseletter", "Lu"},
    {"whitespace", "White_Space"},
});

constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kOpenClass = "a character class does not end";
constexpr std::string_view kHex = "0-9a-fA-F";

bool is_category(std::string_view name) {
  constexpr std::string_view kFirst = "CLMNPSZ";
  return (name.size() == 1 || (name.size() == 2 && std::islower(static_cast<unsigned char>(name[1])))) &&
         kFirst.find(name[0]) != std::string_view::npos;
}

class Translator {
 public:
  explicit Translator(std::string_view expression) : rest_(expression) {}

  Result<std::string> run() {
    while (!rest_.empty() && why_.empty()) step();
    if (why_.empty() && in_class_) why_ = kOpenClass;
    if (!why_.empty()) return Failure{why_};
    return std::move(out_);
  }

 private:
  void refuse(std::string_view what) { why_ = std::string(what) + " is not supported"; }

  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  bool take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  void step() {
    if (rest_.front() == '\\') return escape();
    if (in_class_) return inside_class();
    const char c = take();
    out_ += c;
    if (c == '[') {
      class_ = {.begin = out_.size() - 1, .negated = rest_.starts_with('^')};
      in_class_ = true;
      if (take("^")) out_ += '^';
      if (take("]")) out_ += "\\]";
    } else if (c == '(') {
      group();
    } else if (c == '{') {
      interval();
    }
  }

  void inside_class() {
    if (rest_.starts_with("[:")) return refuse("a POSIX bracket [:...:]");
    if (take("[")) return inner_class();
    if (take("&&")) return intersect();
    const char c = take();
    if (c != ']') {
      out_ += c;
    } else if (class_.inner) {
      end_inner_class();
    } else {
      in_class_ = false;
      out_ += class_.intersected ? "])" : "]";
    }
  }

  /// Members of a class inside a class are members of the outer one.
  void inner_class() {
    if (class_.inner) return refuse("a class inside a class inside a class");
    if (rest_.starts_with('^')) return refuse("a negated class inside a class");
    if (rest_.starts_with(']')) return refuse("] at the beginning of a class inside a class");
    if (rest_.starts_with('-') || out_.back() == '-') return refuse("a hyphen beside a class inside a class");
    class_.inner = true;
  }

  void end_inner_class() {
    if (rest_.starts_with('-') || out_.back() == '-') return refuse("a hyphen beside a class inside a class");
    if (class_.complement && !rest_.starts_with(']')) return refuse("a negated class inside a class");
    class_.inner = false;
  }

  /// [A&&B] and [A&&[^B]] become a look ahead for A before what matches B.
  void intersect() {
    const std::string left = out_.substr(class_.begin);
    if (class_.negated || class_.inner || class_.intersected || left == "[")
      return refuse("&& in a class that is negated, inside another or has more than two parts");
    class_.intersected = true;
    out_.resize(class_.begin);
    out_ += "(?:(?=" + left + "])[";
    if (take("[^")) {
      out_ += '^';
      class_.inner = class_.complement = true;
    } else if (rest_.starts_with('^')) {
      return refuse("^ behind && in a class");
    }
    if (rest_.starts_with(']')) return refuse("] behind && in a class");
  }

  void group() {
    if (rest_.starts_with('*')) return refuse("(*");
    if (!take("?")) return;
    out_ += '?';
    for (const std::string_view form : {"=", "!", "<=", "<!", ">", ":"}) {
      if (!take(form)) continue;
      out_ += form;
      return;
    }
    while (!rest_.empty()) {
      const char c = take();
      if (c == ':' || c == ')' || c == 'i' || c == '-') {
        out_ += c;
      } else if (c == 'm') {
        out_ += 's';
      } else {
        return refuse("(?" + std::string(1, c));
      }
      if (c == ':' || c == ')') return;
    }
  }

  /// Translates what follows a brace: a quantifier, or the brace itself.
  void interval() {
    std::size_t end = 0;
    while (end < rest_.size() && (std::isdigit(static_cast<unsigned char>(rest_[end])) || rest_[end] == ','))
      ++end;
    const std::string_view inside = rest_.substr(0, end);
    const auto commas = std::ranges::count(inside, ',');
    if (end == rest_.size() || rest_[end] != '}' || inside.empty() || inside == "," || commas > 1) return;
    if (inside.front() == ',') out_ += '0';
    out_ += inside;
    rest_.remove_prefix(end);
    out_ += take();
    if (rest_.starts_with('+')) return refuse("{...}+");
    if (commas == 0 && rest_.starts_with('?')) return refuse("{n}?");
  }

  void escape() {
    take();
    if (rest_.empty()) {
      why_ = "a backslash ends it";
      return;
    }
    const char c = take();
    switch (c) {
      case 's': out_ += R"(\p{White_Space})"; return;
      case 'S': out_ += R"(\P{White_Space})"; return;
      case 'w': return set(kWord, false);
      case 'W': return set(kWord, true);
      case 'h': return set(kHex, false);
      case 'H': return set(kHex, true);
      case 'v': out_ += R"(\x{b})"; return;
      case 'p':
      case 'P': return property(c);
      case 'u': return code_point(4);
      case 'x': return hexadecimal();
      case 'd':
      case 'D':
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'e':
      case 'a': break;
      case 'b':
      case 'B':
        if (in_class_) return refuse(std::string("\\") + c + " in a class");
        return word_boundary(c == 'b');
      case 'A':
      case 'z':
      case 'Z':
        if (in_class_) return refuse(std::string("\\") + c + " in a class");
        break;
      default:
        if (std::isalnum(static_cast<unsigned char>(c))) return refuse(std::string("\\") + c);
    }
    out_ += {'\\', c};
  }

  /// Between a character of \w and another, or an end of the text; or anywhere else.
  void word_boundary(bool is_one) {
    const std::string word = "[" + std::string(kWord) + "]";
    const std::string ahead = "(?=" + word + ")", no_ahead = "(?!" + word + ")";
    out_ += "(?:(?<=" + word + ")" + (is_one ? no_ahead : ahead) + "|(?<!" + word + ")" +
            (is_one ? ahead : no_ahead) + ")";
  }

  void set(std::string_view members, bool negated) {
    if (!in_class_) {
      out_ += (negated ? "[^" : "[") + std::string(members) + "]";
    } else if (negated) {
      refuse("\\W or \\H in a class");
    } else {
      out_ += members;
    }
  }

  void property(char letter) {
    const std::size_t end = rest_.find('}');
    if (!take("{") || end == std::string_view::npos)
      return refuse(std::string("\\") + letter + " without {...}");
    std::string_view name = rest_.substr(0, end - 1);
    rest_.remove_prefix(end);
    bool negated = letter == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    std::string plain;
    for (const char c : name) {
      if (c != ' ' && c != '_' && c != '-')
        plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    const auto named =
        std::ranges::find(kPropertyNames, plain, &std::pair<std::string_view, std::string_view>::first);
    if (plain.empty() || !std::ranges::all_of(plain, [](unsigned char c) { return std::isalnum(c); })) {
      why_ = "it names the property " + quote_text(name) + ", which is none";
      return;
    }
    out_ += negated ? "\\P{" : "\\p{";
    if (is_category(name)) {
      out_ += name;
    } else if (named != kPropertyNames.end()) {
      out_ += named->second;
    } else {
      (out_ += "sc:") += plain;
    }
    out_ += '}';
  }

  void code_point(std::size_t digits) {
    const std::string_view code = rest_.substr(0, digits);
    if (code.size() < digits ||
        !std::ranges::all_of(code, [](unsigned char c) { return std::isxdigit(c); })) {
      why_ = "\\u or \\x is not followed by a code point";
      return;
    }
    rest_.remove_prefix(digits);
    (out_ += "\\x{") += code;
    out_ += '}';
  }

  void hexadecimal() {
    if (take("{")) {
      const std::size_t end = rest_.find('}');
      if (end == std::string_view::npos || end == 0) return refuse("\\x{ without a code point");
      code_point(end);
      take("}");
      return;
    }
    if (!rest_.empty() && rest_[0] > '7') return refuse("a byte \\x80 or above");
    code_point(2);
  }

  std::string_view rest_;
  std::string out_;
  std::string why_;
  bool in_class_ = false;

  /// The class that is open in `out_`.
  struct OpenClass {
    std::size_t begin = 0;
    bool negated = false;
    bool intersected = false;  ///< && has come
    bool inner = false;        ///< a class inside it is open
    bool complement = false;   ///< that one is [^...], behind &&
  } class_;
};

}  // namespace

Result<std::string> translate_regex(std::string_view expression) { return Translator(expression).run(); }

}  // namespace crumb::text
