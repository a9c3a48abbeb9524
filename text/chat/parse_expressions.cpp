#include <array>
#include <charconv>

#include "text/chat/parser.h"

namespace crumb::text::chat {
namespace {

/// Jinja's names that chat templates do not need.
constexpr std::array<std::string_view, 17> kOtherFilters = {
    "batch",     "center", "e",         "escape",   "filesizeformat", "forceescape",
    "groupby",   "pprint", "random",    "slice",    "striptags",      "truncate",
    "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"};
constexpr std::array<std::string_view, 3> kOtherTests = {"escaped", "filter", "test"};
constexpr std::array<std::string_view, 8> kOtherNames = {"caller", "cycler", "joiner", "kwargs",
                                                         "lipsum", "self",   "super",  "varargs"};

}  // namespace

bool Parser::ends_tuple(std::string_view word) {
  return at_kind(TokenKind::kVariableEnd) || at_kind(TokenKind::kBlockEnd) || at_operator(")") ||
         (!word.empty() && at_name(word));
}

NodePtr Parser::tuple(bool with_choice, std::string_view end, bool in_parentheses) {
  NodePtr made = make(NodeKind::kTuple);
  while (made->parts.empty() || at_operator(",")) {
    if (!made->parts.empty()) ++at_;
    if (ends_tuple(end)) {
      if (made->parts.empty() && !in_parentheses) throw unexpected("an expression");
      return made;
    }
    NodePtr part = with_choice ? expression() : disjunction();
    if (made->parts.empty() && !at_operator(",")) return part;
    add(*made, std::move(part));
  }
  return made;
}

NodePtr Parser::expression() {
  const Nest nest(nested_);
  NodePtr value = disjunction();
  while (takes_name("if")) {
    NodePtr made = make(NodeKind::kChoice);
    add(*made, disjunction());
    add(*made, std::move(value));
    add(*made, takes_name("else") ? expression() : nullptr);
    value = std::move(made);
  }
  return value;
}

NodePtr Parser::disjunction() {
  NodePtr left = conjunction();
  while (takes_name("or")) left = with(with(make(NodeKind::kOr), std::move(left)), conjunction());
  return left;
}

NodePtr Parser::conjunction() {
  NodePtr left = negation();
  while (takes_name("and")) left = with(with(make(NodeKind::kAnd), std::move(left)), negation());
  return left;
}

NodePtr Parser::negation() {
  const Nest nest(nested_);
  if (!at_name("not")) return comparison();
  NodePtr made = make(NodeKind::kNot);
  ++at_;
  return with(std::move(made), negation());
}

NodePtr Parser::comparison() {
  constexpr std::array<std::string_view, 6> kOrders = {"==", "!=", "<", "<=", ">", ">="};
  NodePtr left = sum();
  NodePtr made = make(NodeKind::kCompare);
  for (;;) {
    if (at_kind(TokenKind::kOperator) && std::ranges::find(kOrders, now().text) != kOrders.end()) {
      made->names.push_back(next().text);
    } else if (takes_name("in")) {
      made->names.emplace_back("in");
    } else if (at_name("not") && is(ahead(), TokenKind::kName, "in")) {
      at_ += 2;
      made->names.emplace_back("not in");
    } else {
      break;
    }
    if (left) add(*made, std::move(left));
    add(*made, sum());
  }
  return made->names.empty() ? std::move(left) : std::move(made);
}

NodePtr Parser::arithmetic(NodePtr left, NodePtr (Parser::*operand)()) {
  NodePtr made = make(NodeKind::kArithmetic);
  made->name = next().text;
  add(*made, std::move(left));
  return with(std::move(made), (this->*operand)());
}

NodePtr Parser::sum() {
  NodePtr left = concatenation();
  while (at_operator("+") || at_operator("-")) left = arithmetic(std::move(left), &Parser::concatenation);
  return left;
}

NodePtr Parser::concatenation() {
  NodePtr first = product();
  if (!at_operator("~")) return first;
  NodePtr made = with(make(NodeKind::kConcat), std::move(first));
  while (takes_operator("~")) add(*made, product());
  return made;
}

NodePtr Parser::product() {
  NodePtr left = power();
  while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%"))
    left = arithmetic(std::move(left), &Parser::power);
  return left;
}

NodePtr Parser::power() {
  NodePtr left = signed_value();
  while (at_operator("**")) left = arithmetic(std::move(left), &Parser::signed_value);
  return left;
}

NodePtr Parser::signed_value() { return filters(unfiltered(), true); }

NodePtr Parser::unfiltered() {
  const Nest nest(nested_);
  if (!at_operator("-") && !at_operator("+")) return postfixes(primary());
  NodePtr made = make(at_operator("-") ? NodeKind::kMinus : NodeKind::kPlus);
  ++at_;
  return postfixes(with(std::move(made), unfiltered()));
}

void Parser::check_name(const std::string& name) const {
  if (std::ranges::find(kOtherNames, name) != kOtherNames.end())
    throw not_supported("the name " + quote_text(name));
}

NodePtr Parser::constant(Value value) {
  NodePtr made = make(NodeKind::kConstant);
  made->value = std::move(value);
  return made;
}

NodePtr Parser::primary() {
  const Token token = now();
  if (token.kind == TokenKind::kName) return name_or_word();
  if (token.kind == TokenKind::kString) {
    std::string text;
    while (at_kind(TokenKind::kString)) text += next().text;
    return constant(Value::text(std::move(text)));
  }
  if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) return number();
  if (takes_operator("(")) {
    NodePtr made = tuple(true, {}, true);
    expect_operator(")");
    return made;
  }
  if (at_operator("[")) return list();
  if (at_operator("{")) return dict();
  throw unexpected("an expression");
}

NodePtr Parser::name_or_word() {
  NodePtr made = make(NodeKind::kName);
  const std::string name = next().text;
  if (name == "true" || name == "True") return constant(Value::boolean(true));
  if (name == "false" || name == "False") return constant(Value::boolean(false));
  if (name == "none" || name == "None") return constant(Value::none());
  check_name(name);
  made->symbol = symbol_of(name);
  return made;
}

std::int64_t Parser::integer(const std::string& text) {
  std::int64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
    throw not_supported("the integer " + quote_text(text) + " of more than 64 bits");
  return value;
}

NodePtr Parser::number() {
  const Token token = next();
  if (token.kind == TokenKind::kInteger) return constant(Value::integer(integer(token.text)));
  double value = 0;
  if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), value).ec != std::errc())
    throw not_supported("the number " + quote_text(token.text));
  return constant(Value::real(value));
}

NodePtr Parser::list() {
  NodePtr made = make(NodeKind::kList);
  ++at_;
  while (!at_operator("]")) {
    if (!made->parts.empty()) expect_operator(",");
    if (at_operator("]")) break;
    add(*made, expression());
  }
  ++at_;
  return made;
}

NodePtr Parser::dict() {
  NodePtr made = make(NodeKind::kDict);
  ++at_;
  while (!at_operator("}")) {
    if (!made->parts.empty()) expect_operator(",");
    if (at_operator("}")) break;
    add(*made, expression());
    expect_operator(":");
    add(*made, expression());
  }
  ++at_;
  return made;
}

NodePtr Parser::postfixes(NodePtr node) {
  for (;;) {
    if (at_operator(".")) {
      node = member(std::move(node));
    } else if (at_operator("[")) {
      node = subscript(std::move(node));
    } else if (at_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

NodePtr Parser::member(NodePtr object) {
  NodePtr made = make(NodeKind::kAttribute);
  ++at_;
  add(*made, std::move(object));
  if (at_kind(TokenKind::kInteger)) {
    made->kind = NodeKind::kItem;
    add(*made, number());
    return made;
  }
  if (!at_kind(TokenKind::kName)) throw unexpected("a name or an integer behind '.'");
  made->name = next().text;
  if (made->name.starts_with("__")) throw not_supported("the attribute " + quote_text(made->name));
  return made;
}

NodePtr Parser::subscript(NodePtr object) {
  NodePtr made = make(NodeKind::kItem);
  ++at_;
  add(*made, std::move(object));
  NodePtr first = at_operator(":") ? nullptr : expression();
  if (at_operator(":")) {
    made->kind = NodeKind::kSlice;
    add(*made, std::move(first));
    for (int i = 0; i < 2; ++i)
      add(*made, takes_operator(":") && !at_operator(":") && !at_operator("]") && !at_operator(",")
                     ? expression()
                     : nullptr);
  } else {
    add(*made, std::move(first));
  }
  if (at_operator(",")) throw not_supported("a subscript of more than one value");
  expect_operator("]");
  return made;
}

void Parser::arguments(Node& node) {
  bool is_first = true;
  while (!at_operator(")")) {
    if (!is_first) expect_operator(",");
    if (at_operator(")")) break;
    if (at_operator("*") || at_operator("**")) throw not_supported("a call with " + quote_text(now().text));
    if (at_kind(TokenKind::kName) && is(ahead(), TokenKind::kOperator, "=")) {
      std::string name = next().text;
      if (std::ranges::find(node.names, name) != node.names.end())
        throw Trouble("the argument " + quote_text(name) + " stands there twice");
      node.names.push_back(std::move(name));
      ++at_;
    } else if (!node.names.empty()) {
      throw Trouble("an argument without a name behind one with a name");
    }
    add(node, expression());
    is_first = false;
  }
  ++at_;
}

NodePtr Parser::call(NodePtr function) {
  NodePtr made = make(NodeKind::kCall);
  ++at_;
  add(*made, std::move(function));
  arguments(*made);
  return made;
}

std::string Parser::dotted_name() {
  std::string name = expect_name();
  while (takes_operator(".")) name += "." + expect_name();
  return name;
}

NodePtr Parser::filter(NodePtr input) {
  NodePtr made = make(NodeKind::kFilter);
  made->name = dotted_name();
  if (std::ranges::find(kOtherFilters, made->name) != kOtherFilters.end())
    throw not_supported("the filter " + quote_text(made->name));
  add(*made, std::move(input));
  if (takes_operator("(")) arguments(*made);
  return made;
}

NodePtr Parser::filters(NodePtr node, bool with_tests) {
  for (;;) {
    if (takes_operator("|")) {
      node = filter(std::move(node));
    } else if (with_tests && at_name("is")) {
      node = test(std::move(node));
    } else if (with_tests && at_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

NodePtr Parser::test(NodePtr input) {
  ++at_;
  const bool negated = takes_name("not");
  NodePtr made = make(NodeKind::kTest);
  made->name = dotted_name();
  if (std::ranges::find(kOtherTests, made->name) != kOtherTests.end())
    throw not_supported("the test " + quote_text(made->name));
  add(*made, std::move(input));
  const bool word = at_kind(TokenKind::kName) && !at_name("else") && !at_name("or") && !at_name("and");
  if (takes_operator("(")) {
    arguments(*made);
  } else if (word || at_kind(TokenKind::kString) || at_kind(TokenKind::kInteger) ||
             at_kind(TokenKind::kFloat) || at_operator("[") || at_operator("{")) {
    if (at_name("is")) throw Trouble("found 'is' behind a test");
    add(*made, postfixes(primary()));
  }
  return negated ? with(make(NodeKind::kNot), std::move(made)) : std::move(made);
}

}  // namespace crumb::text::chat
