// A template as it was read. What of Jinja is understood stands at chat_template.h.
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

/// What a name of a scope is when the scope is entered.
enum class Load : std::uint8_t {
  kParameter,  ///< given by whoever enters
  kContext,    ///< what the caller of the template gave
  kOuter,      ///< what it is in the scope around
  kMissing     ///< undefined until it is set
};
using ScopeNames = std::map<Symbol, Load>;

struct Node {
  enum class Kind : std::uint8_t {
    // Expressions, with the parts that they have; of calls, filters and tests the last names.size() arguments have names.
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
  std::vector<std::string> names;  ///< of symbols
};

/// Throws Trouble, with `line` set to where.
Syntax parse_template(std::string_view source, unsigned& line);

/// Fills in the scopes below a body, and its own.
void resolve_names(Node& body);

}  // namespace crumb::text::chat
