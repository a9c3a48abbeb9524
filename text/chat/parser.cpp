#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/files/text.h"
#include "text/chat/syntax.h"
#include "text/chat/tokens.h"

namespace crumb::text::chat {
namespace {

using NodeKind = Node::Kind;
using NodePtr = std::unique_ptr<Node>;
using TokenKind = Token::Kind;

constexpr unsigned kMostNested = 100;  // of what the parser calls itself for
constexpr unsigned kDeepestNode = 250;

/// Jinja's, which templates of chats do not need.
constexpr std::array<std::string_view, 17> kOtherFilters = {
    "batch",     "center", "e",         "escape",   "filesizeformat", "forceescape",
    "groupby",   "pprint", "random",    "slice",    "striptags",      "truncate",
    "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"};
constexpr std::array<std::string_view, 3> kOtherTests = {"escaped", "filter", "test"};
constexpr std::array<std::string_view, 8> kOtherNames = {"caller", "cycler", "joiner", "kwargs",
                                                         "lipsum", "self",   "super",  "varargs"};
constexpr std::array<std::string_view, 12> kOtherTags = {"autoescape", "block",  "call",    "extends",
                                                         "from",       "import", "include", "print",
                                                         "trans",      "with",   "debug",   "do"};

Trouble not_supported(const std::string& what) { return Trouble(what + " is not supported"); }

class Parser {
 public:
  Parser(std::vector<Token> tokens, unsigned& line) : tokens_(std::move(tokens)), line_(line) {
    symbol_of("loop");  // kLoopSymbol
  }

  Syntax parse() {
    Syntax made;
    made.body = body({});
    made.names = std::move(names_);
    return made;
  }

 private:
  Symbol symbol_of(const std::string& name) {
    const auto found = symbols_.try_emplace(name, static_cast<Symbol>(names_.size()));
    if (found.second) names_.push_back(name);
    return found.first->second;
  }

  /// Counts what is inside of what while it lives.
  class Nest {
   public:
    explicit Nest(unsigned& count) : count_(count) {
      if (++count_ > kMostNested) {
        --count_;
        throw Trouble("it is nested too deep");
      }
    }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;
    ~Nest() { --count_; }

   private:
    unsigned& count_;
  };

  // --- Tokens ---
  const Token& now() {
    line_ = tokens_[at_].line;
    return tokens_[at_];
  }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  static bool is(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  bool at_name(std::string_view text) { return is(now(), TokenKind::kName, text); }
  bool at_operator(std::string_view text) { return is(now(), TokenKind::kOperator, text); }
  bool at_kind(TokenKind kind) { return now().kind == kind; }
  Token next() {
    Token token = now();
    if (token.kind != TokenKind::kEnd) ++at_;
    return token;
  }
  bool takes_name(std::string_view text) { return at_name(text) && (++at_, true); }
  bool takes_operator(std::string_view text) { return at_operator(text) && (++at_, true); }
  void expect_operator(std::string_view text) {
    if (!takes_operator(text)) throw unexpected(quote_text(text));
  }
  std::string expect_name() {
    if (!at_kind(TokenKind::kName)) throw unexpected("a name");
    return next().text;
  }
  void expect(TokenKind kind, const char* what) {
    if (now().kind != kind) throw unexpected(what);
    ++at_;
  }
  Trouble unexpected(const std::string& instead) {
    const Token& token = now();
    std::string found;
    switch (token.kind) {
      case TokenKind::kData: found = "text"; break;
      case TokenKind::kBlockBegin: found = "'{%'"; break;
      case TokenKind::kVariableBegin: found = "'{{'"; break;
      case TokenKind::kBlockEnd: found = "'%}'"; break;
      case TokenKind::kVariableEnd: found = "'}}'"; break;
      case TokenKind::kEnd: found = "the end"; break;
      default: found = quote_text(token.text);
    }
    return Trouble("found " + found + ", expected " + instead);
  }

  // --- Nodes ---
  NodePtr make(NodeKind kind) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = now().line;
    return node;
  }
  static void add(Node& node, NodePtr part) {
    if (part) node.depth = std::max(node.depth, part->depth + 1);
    if (node.depth > kDeepestNode) throw Trouble("it is nested too deep");
    node.parts.push_back(std::move(part));
  }
  NodePtr with(NodePtr node, NodePtr part) {
    add(*node, std::move(part));
    return node;
  }

  // --- Statements ---
  /// Up to a tag of these names, which is the current token then; of none: up to the end.
  NodePtr body(const std::vector<std::string_view>& ends) {
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
  /// A body in a tag: behind the tag's end.
  NodePtr inner_body(const std::vector<std::string_view>& ends) {
    takes_operator(":");
    expect(TokenKind::kBlockEnd, "'%}'");
    return body(ends);
  }
  NodePtr last_body(std::string_view end) {
    NodePtr made = inner_body({end});
    ++at_;
    return made;
  }

  NodePtr statement() {
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

  NodePtr for_loop() {
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
  bool names_loop(const Node& node) const {
    return (node.kind == NodeKind::kName && names_[static_cast<std::size_t>(node.symbol)] == "loop") ||
           std::ranges::any_of(node.parts, [this](const NodePtr& part) { return names_loop(*part); });
  }

  NodePtr if_chain() {
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

  NodePtr assignment() {
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

  NodePtr macro() {
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

  NodePtr filter_block() {
    NodePtr made = make(NodeKind::kFilterBlock);
    ++at_;
    add(*made, filters(filter(nullptr)));
    ++scopes_;
    add(*made, last_body("endfilter"));
    --scopes_;
    return made;
  }

  NodePtr target(bool with_attributes, std::string_view end) {
    NodePtr first = single_target(with_attributes);
    if (!at_operator(",")) return first;
    NodePtr made = with(make(NodeKind::kTuple), std::move(first));
    while (takes_operator(",") && !(!end.empty() && at_name(end)) && !at_kind(TokenKind::kBlockEnd))
      add(*made, single_target(with_attributes));
    return made;
  }
  NodePtr single_target(bool with_attributes) {
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

  // --- Expressions ---
  bool ends_tuple(std::string_view word) {
    return at_kind(TokenKind::kVariableEnd) || at_kind(TokenKind::kBlockEnd) || at_operator(")") ||
           (!word.empty() && at_name(word));
  }
  NodePtr tuple(bool with_choice, std::string_view end = {}, bool in_parentheses = false) {
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

  NodePtr expression() {
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
  NodePtr disjunction() {
    NodePtr left = conjunction();
    while (takes_name("or")) left = with(with(make(NodeKind::kOr), std::move(left)), conjunction());
    return left;
  }
  NodePtr conjunction() {
    NodePtr left = negation();
    while (takes_name("and")) left = with(with(make(NodeKind::kAnd), std::move(left)), negation());
    return left;
  }
  NodePtr negation() {
    const Nest nest(nested_);
    if (!at_name("not")) return comparison();
    NodePtr made = make(NodeKind::kNot);
    ++at_;
    return with(std::move(made), negation());
  }
  NodePtr comparison() {
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
  NodePtr arithmetic(NodePtr left, NodePtr (Parser::*operand)()) {
    NodePtr made = make(NodeKind::kArithmetic);
    made->name = next().text;
    add(*made, std::move(left));
    return with(std::move(made), (this->*operand)());
  }
  NodePtr sum() {
    NodePtr left = concatenation();
    while (at_operator("+") || at_operator("-")) left = arithmetic(std::move(left), &Parser::concatenation);
    return left;
  }
  NodePtr concatenation() {
    NodePtr first = product();
    if (!at_operator("~")) return first;
    NodePtr made = with(make(NodeKind::kConcat), std::move(first));
    while (takes_operator("~")) add(*made, product());
    return made;
  }
  NodePtr product() {
    NodePtr left = power();
    while (at_operator("*") || at_operator("/") || at_operator("//") || at_operator("%"))
      left = arithmetic(std::move(left), &Parser::power);
    return left;
  }
  NodePtr power() {
    NodePtr left = signed_value();
    while (at_operator("**")) left = arithmetic(std::move(left), &Parser::signed_value);
    return left;
  }
  NodePtr signed_value() { return filters(unfiltered(), true); }
  NodePtr unfiltered() {
    const Nest nest(nested_);
    if (!at_operator("-") && !at_operator("+")) return postfixes(primary());
    NodePtr made = make(at_operator("-") ? NodeKind::kMinus : NodeKind::kPlus);
    ++at_;
    return postfixes(with(std::move(made), unfiltered()));
  }

  void check_name(const std::string& name) const {
    if (std::ranges::find(kOtherNames, name) != kOtherNames.end())
      throw not_supported("the name " + quote_text(name));
  }
  NodePtr constant(Value value) {
    NodePtr made = make(NodeKind::kConstant);
    made->value = std::move(value);
    return made;
  }
  NodePtr primary() {
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
  NodePtr name_or_word() {
    NodePtr made = make(NodeKind::kName);
    const std::string name = next().text;
    if (name == "true" || name == "True") return constant(Value::boolean(true));
    if (name == "false" || name == "False") return constant(Value::boolean(false));
    if (name == "none" || name == "None") return constant(Value::none());
    check_name(name);
    made->symbol = symbol_of(name);
    return made;
  }
  std::int64_t integer(const std::string& text) {
    std::int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc())
      throw not_supported("the integer " + quote_text(text) + " of more than 64 bits");
    return value;
  }
  NodePtr number() {
    const Token token = next();
    if (token.kind == TokenKind::kInteger) return constant(Value::integer(integer(token.text)));
    double value = 0;
    if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), value).ec != std::errc())
      throw not_supported("the number " + quote_text(token.text));
    return constant(Value::real(value));
  }
  NodePtr list() {
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
  NodePtr dict() {
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

  NodePtr postfixes(NodePtr node) {
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
  NodePtr member(NodePtr object) {
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
  NodePtr subscript(NodePtr object) {
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
  /// Behind the opening parenthesis.
  void arguments(Node& node) {
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
  NodePtr call(NodePtr function) {
    NodePtr made = make(NodeKind::kCall);
    ++at_;
    add(*made, std::move(function));
    arguments(*made);
    return made;
  }
  std::string dotted_name() {
    std::string name = expect_name();
    while (takes_operator(".")) name += "." + expect_name();
    return name;
  }
  NodePtr filter(NodePtr input) {
    NodePtr made = make(NodeKind::kFilter);
    made->name = dotted_name();
    if (std::ranges::find(kOtherFilters, made->name) != kOtherFilters.end())
      throw not_supported("the filter " + quote_text(made->name));
    add(*made, std::move(input));
    if (takes_operator("(")) arguments(*made);
    return made;
  }
  NodePtr filters(NodePtr node, bool with_tests = false) {
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
  NodePtr test(NodePtr input) {
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

  std::vector<Token> tokens_;
  unsigned& line_;
  std::size_t at_ = 0;
  unsigned nested_ = 0;
  unsigned loops_ = 0;   // around this place
  unsigned scopes_ = 0;  // likewise
  std::map<std::string, Symbol> symbols_;
  std::vector<std::string> names_;
};

}  // namespace

Syntax parse_template(std::string_view source, unsigned& line) {
  Syntax made = Parser(read_tokens(source, line), line).parse();
  resolve_names(*made.body);
  return made;
}

}  // namespace crumb::text::chat
