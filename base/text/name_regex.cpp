#include "base/text/name_regex.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/files/text.h"
#include "base/utf8.h"

namespace crumb {
namespace {

using State = NameRegex::State;
using Set = NameRegex::Set;

constexpr uint32_t kUnbounded = UINT32_MAX;
constexpr uint32_t kMostRepeats = 1000;

/// Returns code points; a byte that is not UTF-8 becomes a value beyond Unicode, which only negated sets
/// match.
std::u32string code_points(std::string_view text) {
  std::u32string points;
  while (!text.empty()) {
    const Utf8Character first = first_character(text);
    const auto byte = static_cast<unsigned char>(text.front());
    points += first.sound ? first.code : 0x110000u + byte;
    text.remove_prefix(first.sound ? first.length : 1);
  }
  return points;
}

/// One node of the parsed pattern.
struct Node {
  enum class Kind { kEmpty, kSet, kBegin, kEnd, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kEmpty;
  uint32_t set = 0;
  uint32_t least = 0, most = 0;  ///< kRepeat
  std::vector<uint32_t> parts;   ///< indices of nodes
};

class Compiler {
 public:
  explicit Compiler(std::string_view pattern) : shown_(pattern), pattern_(code_points(pattern)) {}

  std::pair<std::vector<Set>, std::vector<State>> compile() {
    if (shown_.size() > NameRegex::kMaxBytes) {
      throw usage_error("a regular expression has at most " + std::to_string(NameRegex::kMaxBytes) +
                        " bytes, found " + std::to_string(shown_.size()));
    }
    if (!is_utf8(shown_)) fail("not UTF-8");
    const uint32_t root = choice(0);
    if (at_ < pattern_.size()) fail("a ')' without its '('");
    emit(root);
    states_.push_back({});
    return {std::move(sets_), std::move(states_)};
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw usage_error("the regular expression " + quote_text(shown_) + ", character " +
                      std::to_string(at_ + 1) + ": " + message);
  }

  bool ahead(char32_t c) const { return at_ < pattern_.size() && pattern_[at_] == c; }
  bool take(char32_t c) { return ahead(c) ? (++at_, true) : false; }

  uint32_t node(Node made) {
    nodes_.push_back(std::move(made));
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  uint32_t set_node(Set set) {
    sets_.push_back(std::move(set));
    return node({.kind = Node::Kind::kSet, .set = static_cast<uint32_t>(sets_.size() - 1)});
  }

  uint32_t choice(size_t depth) {
    if (depth > NameRegex::kMaxDepth) {
      fail("more than " + std::to_string(NameRegex::kMaxDepth) + " groups in each other");
    }
    Node made{.kind = Node::Kind::kChoice};
    do made.parts.push_back(sequence(depth));
    while (take('|'));
    return made.parts.size() == 1 ? made.parts[0] : node(std::move(made));
  }

  uint32_t sequence(size_t depth) {
    Node made{.kind = Node::Kind::kSequence};
    while (at_ < pattern_.size() && !ahead('|') && !ahead(')')) made.parts.push_back(repeated(atom(depth)));
    return node(std::move(made));
  }

  uint32_t repeated(uint32_t what) {
    const auto range = repetition();
    if (!range) return what;
    (void)take('?');
    if (repetition()) fail("a repetition of a repetition; put the first into (...)");
    return node({.kind = Node::Kind::kRepeat, .least = range->first, .most = range->second, .parts = {what}});
  }

  std::optional<std::pair<uint32_t, uint32_t>> repetition() {
    using Range = std::pair<uint32_t, uint32_t>;
    if (take('*')) return Range{0, kUnbounded};
    if (take('+')) return Range{1, kUnbounded};
    if (take('?')) return Range{0, 1};
    if (!take('{')) return std::nullopt;
    const uint32_t least = count();
    uint32_t most = least;
    if (take(',')) most = ahead('}') ? kUnbounded : count();
    if (!take('}')) fail("expected '}' after the counts of a repetition; write \\{ for a brace");
    if (most < least) fail("a repetition whose largest count is below its least");
    return Range{least, most};
  }

  uint32_t count() {
    uint32_t value = 0;
    const size_t begin = at_;
    while (at_ < pattern_.size() && pattern_[at_] >= '0' && pattern_[at_] <= '9') {
      value = value * 10 + (pattern_[at_] - '0');
      if (value > kMostRepeats) fail("a repetition of more than " + std::to_string(kMostRepeats));
      ++at_;
    }
    if (at_ == begin) fail("expected a count, as in {2,5}; write \\{ for a brace");
    return value;
  }

  uint32_t atom(size_t depth) {
    const char32_t c = pattern_[at_];
    if (c == '*' || c == '+' || c == '?' || c == '{') fail("a repetition of nothing");
    if (c == '}') fail("a '}' without its '{'; write \\} for a brace");
    if (c == ']') fail("a ']' without its '['; write \\] for a bracket");
    ++at_;
    if (c == '.') return set_node({.negated = true});
    if (c == '^') return node({.kind = Node::Kind::kBegin});
    if (c == '$') return node({.kind = Node::Kind::kEnd});
    if (c == '[') return set_node(bracket());
    if (c == '\\') return set_node(escape());
    if (c != '(') return set_node({.intervals = {{c, c}}});
    if (take('?') && !take(':')) {
      fail("found (?" +
           std::string(at_ < pattern_.size() && pattern_[at_] < 0x7f && pattern_[at_] > 0x20
                           ? std::string(1, static_cast<char>(pattern_[at_]))
                           : "") +
           "; look-around, named groups and flags are not supported");
    }
    const uint32_t inner = choice(depth + 1);
    if (!take(')')) fail("a '(' without its ')'");
    return inner;
  }

  /// Parses what follows a backslash.
  Set escape() {
    if (at_ == pattern_.size()) fail("a backslash at the end");
    const char32_t c = pattern_[at_];
    Set set;
    switch (c | 0x20) {
      case 'd': set.intervals = {{'0', '9'}}; break;
      case 'w': set.intervals = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; break;
      case 's': set.intervals = {{'\t', '\r'}, {' ', ' '}}; break;
    }
    const bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    if (!set.intervals.empty()) {
      set.negated = (c & 0x20) == 0;
    } else if (c == 't' || c == 'n') {
      const char32_t meant = c == 't' ? '\t' : '\n';
      set.intervals = {{meant, meant}};
    } else if (letter || (c >= '0' && c <= '9')) {
      fail("found \\" + std::string(1, static_cast<char>(c)) +
           "; of letters only \\d \\w \\s \\D \\W \\S \\t \\n may follow a backslash, and no digits");
    } else {
      set.intervals = {{c, c}};
    }
    ++at_;
    return set;
  }

  void add_to(Set& set, const Set& part) {
    if (!part.negated) {
      set.intervals.insert(set.intervals.end(), part.intervals.begin(), part.intervals.end());
      return;
    }
    char32_t next = 0;  // part's intervals are ascending
    for (const auto& [least, greatest] : part.intervals) {
      set.intervals.push_back({next, least - 1});
      next = greatest + 1;
    }
    set.intervals.push_back({next, 0x10ffff});
  }

  /// Parses what follows '['.
  Set bracket() {
    Set set;
    set.negated = take('^');
    bool first = true;
    while (true) {
      if (at_ == pattern_.size()) fail("a '[' without its ']'");
      if (ahead(']') && !first) break;
      if (ahead('[') && at_ + 1 < pattern_.size() && pattern_[at_ + 1] == ':') {
        fail("[:names:] of sets are not supported; say \\d, \\w or \\s");
      }
      first = false;
      const Set low = bracket_item();
      const bool range = ahead('-') && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!range) {
        add_to(set, low);
        continue;
      }
      ++at_;
      const Set high = bracket_item();
      const auto single = [](const Set& s) {
        return !s.negated && s.intervals.size() == 1 && s.intervals[0].least == s.intervals[0].greatest;
      };
      if (!single(low) || !single(high) || high.intervals[0].least < low.intervals[0].least) {
        fail("a range in [...] whose ends are not two ascending characters");
      }
      set.intervals.push_back({low.intervals[0].least, high.intervals[0].least});
    }
    ++at_;
    return set;
  }

  Set bracket_item() {
    if (at_ == pattern_.size()) fail("a '[' without its ']'");
    const char32_t c = pattern_[at_++];
    return c == '\\' ? escape() : Set{.intervals = {{c, c}}};
  }

  /// Appends the states of a node; its exits lead to the state that is appended next.
  void emit(uint32_t index) {
    if (++emitted_ > 4 * NameRegex::kMaxStates) too_large();
    const Node& made = nodes_[index];
    switch (made.kind) {
      case Node::Kind::kEmpty: return;
      case Node::Kind::kSet: return (void)add({.kind = State::Kind::kSet, .set = made.set});
      case Node::Kind::kBegin: return (void)add({.kind = State::Kind::kBegin});
      case Node::Kind::kEnd: return (void)add({.kind = State::Kind::kEnd});
      case Node::Kind::kSequence:
        for (const uint32_t part : made.parts) emit(part);
        return;
      case Node::Kind::kChoice: return emit_choice(made);
      case Node::Kind::kRepeat: return emit_repeat(made);
    }
  }

  void emit_choice(const Node& made) {
    std::vector<uint32_t> ends;
    for (size_t i = 0; i + 1 < made.parts.size(); ++i) {
      const uint32_t split = add({.kind = State::Kind::kSplit});
      emit(made.parts[i]);
      ends.push_back(add({.kind = State::Kind::kSplit}));  // a jump: both exits are the same
      states_[split].other = here();
    }
    emit(made.parts.back());
    for (const uint32_t end : ends) states_[end].next = states_[end].other = here();
  }

  void emit_repeat(const Node& made) {
    const uint32_t inner = made.parts[0];
    for (uint32_t i = 0; i < made.least; ++i) emit(inner);
    if (made.most == kUnbounded) {
      const uint32_t split = add({.kind = State::Kind::kSplit});
      emit(inner);
      const uint32_t back = add({.kind = State::Kind::kSplit});
      states_[back].next = states_[back].other = split;
      states_[split].other = here();
      return;
    }
    std::vector<uint32_t> splits;
    for (uint32_t i = made.least; i < made.most; ++i) {
      splits.push_back(add({.kind = State::Kind::kSplit}));
      emit(inner);
    }
    for (const uint32_t split : splits) states_[split].other = here();
  }

  uint32_t here() const { return static_cast<uint32_t>(states_.size()); }

  uint32_t add(State state) {
    if (states_.size() >= NameRegex::kMaxStates) too_large();
    state.next = here() + 1;
    states_.push_back(state);
    return here() - 1;
  }

  [[noreturn]] void too_large() const {
    throw usage_error("the regular expression " + quote_text(shown_) +
                      " repeats too much: it comes to more than " + std::to_string(NameRegex::kMaxStates) +
                      " states");
  }

  std::string_view shown_;
  std::u32string pattern_;
  size_t at_ = 0;
  std::vector<Node> nodes_;
  std::vector<Set> sets_;
  std::vector<State> states_;
  size_t emitted_ = 0;
};

}  // namespace

NameRegex::NameRegex(std::string_view pattern) { std::tie(sets_, states_) = Compiler(pattern).compile(); }

bool NameRegex::Set::has(char32_t c) const {
  const bool inside = std::ranges::any_of(
      intervals, [c](const Interval& interval) { return interval.least <= c && c <= interval.greatest; });
  return inside != negated;
}

bool NameRegex::matches(std::string_view text) const {
  const std::u32string points = code_points(text);
  std::vector<uint32_t> now, next, pending;
  std::vector<size_t> entered(states_.size(), SIZE_MAX);  // the position at which a state was last entered
  for (size_t at = 0;; ++at) {
    // All states that can be reached from here without a character.
    pending = now;
    if (at == 0) pending.push_back(0);
    now.clear();
    while (!pending.empty()) {
      const uint32_t index = pending.back();
      pending.pop_back();
      if (entered[index] == at) continue;
      entered[index] = at;
      const State& state = states_[index];
      switch (state.kind) {
        case State::Kind::kSplit:
          pending.push_back(state.next);
          pending.push_back(state.other);
          break;
        case State::Kind::kBegin:
          if (at == 0) pending.push_back(state.next);
          break;
        case State::Kind::kEnd:
          if (at == points.size()) pending.push_back(state.next);
          break;
        case State::Kind::kMatch:
          if (at == points.size()) return true;
          break;
        case State::Kind::kSet: now.push_back(index); break;
      }
    }
    if (at == points.size() || now.empty()) return false;
    next.clear();
    for (const uint32_t index : now) {
      if (sets_[states_[index].set].has(points[at])) next.push_back(states_[index].next);
    }
    std::swap(now, next);
  }
}

}  // namespace crumb
