// The syntax tree of a template. chat_template.h says which part of Jinja is supported.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/value.h"

namespace crumb::text::chat {

/// Names as numbers.
using Symbol = int;
constexpr Symbol kLoopSymbol = 0;  // `loop`, in every template

/// The value of a name when its scope is entered.
enum class Load : std::uint8_t {
  kParameter,  ///< passed by the caller
  kContext,    ///< a variable that the template is given
  kOuter,      ///< its value in the scope around
  kMissing     ///< undefined until it is set
};
using ScopeNames = std::map<Symbol, Load>;

struct Node {
  enum class Kind : std::uint8_t {
    // Expressions, with their parts. The last names.size() arguments of calls, filters and tests have names.
    kConstant,   // value
    kName,       // symbol
    kAttribute,  // object, name
    kItem,       // object, key
    kSlice,      // object, first, end, step: each but the object may be null
    kCall,       // function, arguments
    kFilter,     // input (null: the text of a block), arguments; name
    kTest,       // input, arguments; name
    kNot,
    kMinus,
    kPlus,
    kAnd,
    kOr,
    kCompare,  // operands, and the operators between them as names
    kConcat,
    kArithmetic,  // left, right; name
    kChoice,      // condition, value, otherwise (may be null)
    kList,
    kTuple,
    kDict,  // key, value, key, value ...
    // Statements.
    kBody,
    kData,    // value
    kOutput,  // expression
    kIf,      // condition, body, condition, body ..., otherwise
    kFor,  // target, sequence, condition (may be null), body, otherwise (may be null); a scope for the condition
    kSet,          // target, value
    kSetBlock,     // target, filter (may be null), body
    kMacro,        // symbol; defaults of the last parameters, body; parameters as names
    kFilterBlock,  // filter, body
    kGeneration,   // body
    kBreak,
    kContinue,
    kSetAttribute,  // a target: symbol, name
  };
  using Parts = std::vector<std::unique_ptr<Node>>;

  Kind kind = Kind::kBody;
  unsigned line = 0;
  unsigned depth = 1;  ///< of nodes inside each other
  Symbol symbol = -1;
  std::string name;
  Value value;
  Parts parts;
  std::vector<std::string> names;
  std::vector<Symbol> parameters;
  ScopeNames scope;  ///< of a body or macro that is one
};

using NodeKind = Node::Kind;

struct Syntax {
  std::unique_ptr<Node> body;
  std::vector<std::string> names;  ///< by symbol
};

/// Throws Trouble, with `line` set to the line of the error.
Syntax parse_template(std::string_view source, unsigned& line);

/// Fills in the scope of a body, and those inside of it.
void resolve_names(Node& body);

}  // namespace crumb::text::chat
