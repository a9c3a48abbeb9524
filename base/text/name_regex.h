// Regular expressions for names, matched in time and memory proportional to pattern times name, whatever the
// pattern (Thompson, "Regular expression search algorithm", 1968: all states at once, no backtracking).
//
//   a \. \t \n    characters; a backslash takes punctuation as it is
//   . [a-z_] [^.] any character, one of a set, one of all others
//   \d \w \s      digits, letters digits and _, white space (ASCII); \D \W \S the others; also inside [...]
//   (x) (?:x) x|y groups, alternatives
//   x* x+ x? x{2} x{2,} x{2,5}   repetition, at most 1000 times when counted; a ? after it is allowed and
//                 changes nothing, since only whole names match
//   ^ $           the beginning and the end
//
// Characters are Unicode code points. Look-around, back references, \b and flags are refused by name. A
// pattern has at most kMaxBytes bytes, kMaxDepth groups in each other, and at most kMaxStates states.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace crumb {

class NameRegex {
 public:
  static constexpr size_t kMaxBytes = 1000;
  static constexpr size_t kMaxDepth = 32;
  static constexpr size_t kMaxStates = 4000;

  /// Throws Error(kUsage) that says what is wrong, and at which position in the pattern.
  explicit NameRegex(std::string_view pattern);

  /// Whether the whole text matches.
  bool matches(std::string_view text) const;

  struct Set {
    struct Interval {
      char32_t least, greatest;
    };
    std::vector<Interval> intervals;
    bool negated = false;
    bool has(char32_t c) const;
  };

  struct State {
    enum class Kind : uint8_t { kSet, kSplit, kBegin, kEnd, kMatch };
    Kind kind = Kind::kMatch;
    uint32_t set = 0;    ///< kSet: index in sets_
    uint32_t next = 0;   ///< kSet, kBegin, kEnd: the next state; kSplit: one of the two
    uint32_t other = 0;  ///< kSplit: the other one
  };

 private:
  std::vector<Set> sets_;
  std::vector<State> states_;
};

}  // namespace crumb
