#include "text/chat/parser.h"

#include <array>

namespace crumb::text::chat {
namespace {

/// Jinja's tags that chat templates do not need.
constexpr std::array<std::string_view, 12> kOtherTags = {"autoescape", "block",  "call",    "extends",
                                                         "from",       "import", "include", "print",
                                                         "trans",      "with",   "debug",   "do"};

}  // namespace

NodePtr Parser::body(const std::vector<std::string_view>& ends) {
  const Nest nest(nested_);
  NodePtr made = make(NodeKind::kBody);
  while (!at_kind(TokenKind::kEnd)) {
    const Token token = next();
    if (token.kind == TokenKind::kData) {
      NodePtr data = make(NodeKind::kData);
      data->value = Value::text(token.text);
      add(*made, std::move(data));
    } else if (token.kind == TokenKind::kVariableBegin) {
      add(*made, with(make(NodeKind::kOutput), tuple(true)));
      expect(TokenKind::kVariableEnd, "'}}'");
    } else {
      if (!at_kind(TokenKind::kName)) throw unexpected("the name of a tag");
      if (std::ranges::find(ends, now().text) != ends.end()) return made;
      add(*made, statement());
      expect(TokenKind::kBlockEnd, "'%}'");
    }
  }
  if (!ends.empty()) throw Trouble("the end of the template, expected the tag " + quote_text(ends.back()));
  return made;
}

NodePtr Parser::inner_body(const std::vector<std::string_view>& ends) {
  takes_operator(":");
  expect(TokenKind::kBlockEnd, "'%}'");
  return body(ends);
}

NodePtr Parser::last_body(std::string_view end) {
  NodePtr made = inner_body({end});
  ++at_;
  return made;
}

NodePtr Parser::statement() {
  const std::string tag = now().text;
  if (tag == "for") return for_loop();
  if (tag == "if") return if_chain();
  if (tag == "set") return assignment();
  if (tag == "macro") return macro();
  if (tag == "filter") return filter_block();
  if (tag == "generation") {
    NodePtr made = make(NodeKind::kGeneration);
    ++at_;
    const unsigned loops = std::exchange(loops_, 0);
    const unsigned scopes = scopes_++;
    add(*made, last_body("endgeneration"));
    loops_ = loops;
    scopes_ = scopes;
    return made;
  }
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) throw Trouble(quote_text(tag) + " outside of a loop");
    NodePtr made = make(tag == "break" ? NodeKind::kBreak : NodeKind::kContinue);
    ++at_;
    return made;
  }
  if (std::ranges::find(kOtherTags, tag) != kOtherTags.end())
    throw not_supported("the tag " + quote_text(tag));
  throw Trouble("there is no tag " + quote_text(tag) + " here");
}

NodePtr Parser::for_loop() {
  NodePtr made = make(NodeKind::kFor);
  ++at_;
  add(*made, target(false, "in"));
  if (names_loop(*made->parts[0])) throw Trouble("'loop' cannot be the variable of a loop");
  if (!takes_name("in")) throw unexpected("'in'");
  add(*made, tuple(false, "recursive"));
  add(*made, takes_name("if") ? expression() : nullptr);
  if (at_name("recursive")) throw not_supported("a recursive loop");
  ++loops_;
  ++scopes_;
  add(*made, inner_body({"else", "endfor"}));
  --loops_;
  NodePtr otherwise;
  if (next().text == "else") otherwise = last_body("endfor");
  --scopes_;
  add(*made, std::move(otherwise));
  return made;
}

bool Parser::names_loop(const Node& node) const {
  return (node.kind == NodeKind::kName && names_[static_cast<std::size_t>(node.symbol)] == "loop") ||
         std::ranges::any_of(node.parts, [this](const NodePtr& part) { return names_loop(*part); });
}

NodePtr Parser::if_chain() {
  NodePtr made = make(NodeKind::kIf);
  for (bool more = true; more;) {
    ++at_;
    add(*made, tuple(false));
    add(*made, inner_body({"elif", "else", "endif"}));
    more = at_name("elif");
  }
  if (next().text == "else") add(*made, last_body("endif"));
  return made;
}

NodePtr Parser::assignment() {
  NodePtr made = make(NodeKind::kSet);
  ++at_;
  add(*made, target(true, {}));
  if (takes_operator("=")) {
    add(*made, tuple(true));
    return made;
  }
  made->kind = NodeKind::kSetBlock;
  add(*made, filters(nullptr));
  ++scopes_;
  add(*made, last_body("endset"));
  --scopes_;
  return made;
}

NodePtr Parser::macro() {
  if (scopes_ > 0) throw not_supported("a macro inside of a loop, a macro or a block");
  NodePtr made = make(NodeKind::kMacro);
  ++at_;
  made->name = expect_name();
  made->symbol = symbol_of(made->name);
  expect_operator("(");
  while (!at_operator(")")) {
    if (!made->names.empty()) expect_operator(",");
    made->names.push_back(expect_name());
    made->parameters.push_back(symbol_of(made->names.back()));
    if (takes_operator("=")) {
      add(*made, expression());
    } else if (!made->parts.empty()) {
      throw Trouble("a parameter without a default behind one with a default");
    }
  }
  ++at_;
  const unsigned loops = std::exchange(loops_, 0);
  ++scopes_;
  add(*made, last_body("endmacro"));
  --scopes_;
  loops_ = loops;
  return made;
}

NodePtr Parser::filter_block() {
  NodePtr made = make(NodeKind::kFilterBlock);
  ++at_;
  add(*made, filters(filter(nullptr)));
  ++scopes_;
  add(*made, last_body("endfilter"));
  --scopes_;
  return made;
}

NodePtr Parser::target(bool with_attributes, std::string_view end) {
  NodePtr first = single_target(with_attributes);
  if (!at_operator(",")) return first;
  NodePtr made = with(make(NodeKind::kTuple), std::move(first));
  while (takes_operator(",") && !(!end.empty() && at_name(end)) && !at_kind(TokenKind::kBlockEnd))
    add(*made, single_target(with_attributes));
  return made;
}

NodePtr Parser::single_target(bool with_attributes) {
  const Nest nest(nested_);
  if (takes_operator("(")) {
    NodePtr made = target(with_attributes, {});
    expect_operator(")");
    return made;
  }
  NodePtr made = make(NodeKind::kName);
  const std::string name = expect_name();
  check_name(name);
  if (name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
      name == "None")
    throw Trouble("there is no assigning to " + quote_text(name));
  made->symbol = symbol_of(name);
  if (with_attributes && takes_operator(".")) {
    made->kind = NodeKind::kSetAttribute;
    made->name = expect_name();
  }
  return made;
}

Syntax parse_template(std::string_view source, unsigned& line) {
  Syntax made = Parser(read_tokens(source, line), line).parse();
  resolve_names(*made.body);
  return made;
}

}  // namespace crumb::text::chat
