// Parses a template into nodes, by the grammar of Jinja 3 as far as chat_template.h supports it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/text.h"
#include "text/chat/syntax.h"
#include "text/chat/tokens.h"

namespace crumb::text::chat {

using NodePtr = std::unique_ptr<Node>;
using TokenKind = Token::Kind;

inline Trouble not_supported(const std::string& what) { return Trouble(what + " is not supported"); }

inline constexpr unsigned kMostNested = 100;  // calls of the parser inside each other
inline constexpr unsigned kDeepestNode = 250;

/// Parses one template. Throws Trouble where it is malformed, or uses what is not supported. `line` is the
/// line of the current token.
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

  /// Counts one call of the parser inside others while it lives.
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

  // Tokens.
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

  // Nodes.
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

  // Statements (parser.cpp).
  /// Reads up to a tag with one of these names, which is the current token then; without names up to the end.
  NodePtr body(const std::vector<std::string_view>& ends);
  /// A body inside of a tag: reads the end of the tag first.
  NodePtr inner_body(const std::vector<std::string_view>& ends);
  NodePtr last_body(std::string_view end);
  NodePtr statement();
  NodePtr for_loop();
  bool names_loop(const Node& node) const;
  NodePtr if_chain();
  NodePtr assignment();
  NodePtr macro();
  NodePtr filter_block();
  NodePtr target(bool with_attributes, std::string_view end);
  NodePtr single_target(bool with_attributes);

  // Expressions (parse_expressions.cpp). Each function reads one rule of the grammar.
  bool ends_tuple(std::string_view word);
  NodePtr tuple(bool with_choice, std::string_view end = {}, bool in_parentheses = false);
  NodePtr expression();
  NodePtr disjunction();
  NodePtr conjunction();
  NodePtr negation();
  NodePtr comparison();
  NodePtr arithmetic(NodePtr left, NodePtr (Parser::*operand)());
  NodePtr sum();
  NodePtr concatenation();
  NodePtr product();
  NodePtr power();
  NodePtr signed_value();
  NodePtr unfiltered();
  void check_name(const std::string& name) const;
  NodePtr constant(Value value);
  NodePtr primary();
  NodePtr name_or_word();
  std::int64_t integer(const std::string& text);
  NodePtr number();
  NodePtr list();
  NodePtr dict();
  NodePtr postfixes(NodePtr node);
  NodePtr member(NodePtr object);
  NodePtr subscript(NodePtr object);
  /// Reads the arguments of a call behind its opening parenthesis.
  void arguments(Node& node);
  NodePtr call(NodePtr function);
  std::string dotted_name();
  NodePtr filter(NodePtr input);
  NodePtr filters(NodePtr node, bool with_tests = false);
  NodePtr test(NodePtr input);

  std::vector<Token> tokens_;
  unsigned& line_;
  std::size_t at_ = 0;
  unsigned nested_ = 0;
  unsigned loops_ = 0;   // around the current token
  unsigned scopes_ = 0;  // likewise
  std::map<std::string, Symbol> symbols_;
  std::vector<std::string> names_;
};

}  // namespace crumb::text::chat
