// Runs a template.
#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <string>

#include "text/chat/functions.h"
#include "text/chat/syntax.h"

namespace crumb::text::chat {

class Renderer {
 public:
  /// `context`: the variables that the template is given. The syntax must outlive it.
  Renderer(const Syntax& syntax, Pairs context, std::uint64_t steps, std::time_t now);

  /// Throws Trouble; line() says where.
  std::string render();
  unsigned line() const { return line_; }

 private:
  /// The most calls of the interpreter inside each other, which all use the stack.
  static constexpr unsigned kMostCalls = 500;

  enum class Flow { kOn, kBreak, kContinue };

  /// The variables of a scope; missing ones are not set yet.
  struct Scope {
    const ScopeNames* names = nullptr;
    Scope* outer = nullptr;
    std::vector<std::optional<Value>> values;

    std::optional<Value>* find(Symbol name);
  };
  void add_functions();
  void go_deeper();
  Scope enter(const ScopeNames& names, Scope* outer);
  std::optional<Value> in_context(Symbol name);
  Value variable(Symbol name, Scope& scope);

  // Statements.
  Flow run(const Node& node, Scope& scope);
  Flow run_statement(const Node& node, Scope& scope);
  Flow run_if(const Node& node, Scope& scope);
  Flow run_loop(const Node& node, Scope& scope);
  List loop_items(const Node& node, Scope& scope);
  Flow run_set_block(const Node& node, Scope& scope);
  void write(const std::string& text);
  void assign(const Node& target, const Value& value, Scope& scope);
  /// The text that a body writes, and how the body ends.
  std::pair<std::string, Flow> captured(const Node& body, Scope& scope);

  // Expressions.
  Value evaluate(const Node& node, Scope& scope, bool may_be_loop = false);
  Value compute(const Node& node, Scope& scope, bool may_be_loop);
  Value compare(const Node& node, Scope& scope);
  Value slice_of(const Node& node, Scope& scope);
  Value concatenation(const Node& node, Scope& scope);
  Value sequence_of(const Node& node, Scope& scope);
  Value dict_of(const Node& node, Scope& scope);
  Value call(const Node& node, Scope& scope);
  Value call_value(const Value& function, const Arguments& arguments);
  Value call_macro(const Node& macro, const Arguments& arguments);
  Value call_function(int function, const Arguments& arguments);
  Value call_loop(Loop& loop, const std::string& name, const Arguments& arguments);
  Value filtered(const Node& node, const Value& input, Scope& scope);
  Value filter_text(const Node& filter, std::string text, Scope& scope);
  Arguments arguments_of(const Node& node, Scope& scope);

  const Syntax& syntax_;
  Pairs context_;
  Meter meter_;
  std::time_t now_;
  unsigned line_ = 0;
  unsigned depth_ = 0;
  std::string* out_ = nullptr;
  Scope* root_ = nullptr;
  std::deque<Pairs> namespaces_;  // they may refer to each other
};

}  // namespace crumb::text::chat
