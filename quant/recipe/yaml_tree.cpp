#include "quant/recipe/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb {
namespace {

[[noreturn]] void fail(const std::string& origin, size_t line, const std::string& message) {
  throw usage_error(yaml_place(origin, line) + ": " + message);
}

/// Refuses bytes that the library would accept or replace silently.
void check_bytes(std::string_view text, const std::string& origin) {
  size_t line = 1;
  bool indent = true;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\t' && indent) fail(origin, line, "indented with a tab, expected spaces");
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f) {
      fail(origin, line, "found the control character " + quote_text(text.substr(i, 1)) + ", expected text");
    }
    const size_t length = utf8_character(text.substr(i, 4));
    if (length == 0) {
      fail(origin, line, "found the byte " + quote_text(text.substr(i, 1)) + ", expected UTF-8");
    }
    if (byte != ' ') indent = false;
    if (byte == '\n') {
      ++line;
      indent = true;
    }
    i += length;
  }
}

/// Refuses a quote that is never closed: the library blames something else for it, or takes the rest of the
/// text instead. Returns the line of the last quote that is closed on another line; 0 where there is none.
size_t check_quotes(std::string_view text, const std::string& origin) {
  size_t line = 1, begun = 0, last_long = 0,
         depth = 0;               // begun: the line of the open quote; depth: of [ and {
  char quote = 0, before = '\n';  // before: the last character that is no space
  bool spaced = true;             // whether one was just there
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    line += c == '\n';
    if (quote != 0) {
      const bool doubled = c == '\'' && next == c;  // stands for itself
      if (quote == '"' ? c == '\\' && next != '\n' : doubled) {
        ++i;
      } else if (c == quote) {
        if (begun != line) last_long = begun;
        quote = 0;
        before = c;
        spaced = false;
      }
      continue;
    }
    const bool first = (spaced && std::string_view("\n:-?!").find(before) != std::string_view::npos) ||
                       (depth > 0 && std::string_view("[{,").find(before) != std::string_view::npos);
    if (first && (c == '"' || c == '\'')) {
      quote = c;
      begun = line;
      continue;
    }
    if (c == '#' && spaced) {
      i = std::min(text.find('\n', i), text.size()) - 1;
      continue;
    }
    if ((c == '[' || c == '{') && (first || depth > 0)) ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    spaced = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!spaced || c == '\n') before = c;
  }
  if (quote != 0) fail(origin, begun, std::string("the quote ") + quote + " is not closed");
  return last_long;
}

/// Builds the tree from the parser's events; throws for what is refused, which ends the parser's work.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& origin) : origin_(origin) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    (void)add(mark, YamlNode::Kind::kNull, "", anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(origin_, line_of(mark), "found an alias (*); anchors and aliases are not supported");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    add(mark, YamlNode::Kind::kScalar, tag, anchor).text = value;
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kList, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, YamlNode::Kind::kMap, tag, anchor);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  static size_t line_of(const YAML::Mark& mark) {
    return mark.line < 0 ? 1 : static_cast<size_t>(mark.line) + 1;
  }

  YamlNode& add(const YAML::Mark& mark, YamlNode::Kind kind, const std::string& tag, YAML::anchor_t anchor) {
    const size_t line = line_of(mark);
    if (anchor != YAML::NullAnchor) {
      fail(origin_, line, "found an anchor (&); anchors and aliases are not supported");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(origin_, line, "found the tag " + quote_text(tag) + "; tags are not supported");
    }
    YamlNode node;
    node.kind = kind;
    node.line = line;
    if (open_.empty()) {
      root_ = std::move(node);
      return root_;
    }
    // A vector of the innermost open node grows only while that node is the innermost: pointers to open nodes
    // stay valid.
    YamlNode& parent = *open_.back();
    if (parent.kind == YamlNode::Kind::kMap && parent.keys.size() == parent.items.size()) {
      if (kind != YamlNode::Kind::kScalar) {
        fail(origin_, line, "found " + node.describe() + " as a key, expected a word");
      }
      return parent.keys.emplace_back(std::move(node));
    }
    return parent.items.emplace_back(std::move(node));
  }

  void open(const YAML::Mark& mark, YamlNode::Kind kind, const std::string& tag, YAML::anchor_t anchor) {
    if (open_.size() == kMaxYamlDepth) {
      fail(origin_, line_of(mark), "nested more than " + std::to_string(kMaxYamlDepth) + " levels deep");
    }
    open_.push_back(&add(mark, kind, tag, anchor));
  }

  const std::string& origin_;
  YamlNode root_;
  std::vector<YamlNode*> open_;
};

}  // namespace

std::string YamlNode::describe() const {
  switch (kind) {
    case Kind::kNull: break;
    case Kind::kScalar: return quote_text(text);
    case Kind::kList: return "a list";
    case Kind::kMap: return "a map";
  }
  return "nothing";
}

std::string yaml_place(const std::string& origin, size_t line) {
  return quote_text(origin) + " line " + std::to_string(line);
}

YamlNode parse_yaml(std::string_view text, const std::string& origin, size_t max_bytes) {
  if (text.size() > max_bytes) {
    throw usage_error(quote_text(origin) + ": " + byte_text(text.size()) + " found, expected at most " +
                      byte_text(max_bytes));
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  check_bytes(text, origin);
  const size_t long_quote = check_quotes(text, origin);
  TreeBuilder builder(origin);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return {};
    YamlNode root = builder.take();
    TreeBuilder second(origin);
    if (parser.HandleNextDocument(second)) {
      fail(origin, std::max<size_t>(second.take().line, 1), "found a second document, expected one");
    }
    return root;
  } catch (const YAML::Exception& error) {
    std::string message = error.msg.substr(0, 200);
    std::ranges::replace_if(
        message, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
    message = "not YAML: " + message;
    if (long_quote > 0)
      message += " (the quote in line " + std::to_string(long_quote) + " is not closed there)";
    if (error.mark.is_null()) throw usage_error(quote_text(origin) + ": " + message);
    fail(origin, static_cast<size_t>(error.mark.line) + 1, message);
  }
}

}  // namespace crumb
