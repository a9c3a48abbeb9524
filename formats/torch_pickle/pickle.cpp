#include "formats/torch_pickle/pickle.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/files/text.h"
#include "formats/torch_pickle/pickle_opcodes.h"

namespace crumb {
namespace {

constexpr PickleId kNoneId = 0, kFalseId = 1, kTrueId = 2, kEmptyTupleId = 3;
constexpr PickleId kUnset = UINT32_MAX;

}  // namespace

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, FindPickleGlobal find_global)
      : bytes_(bytes.first(std::min<std::size_t>(bytes.size(), kMaxPickle))),
        has_more_(bytes.size() > kMaxPickle),
        find_global_(find_global) {
    tree_.bytes_ = bytes_;
    make(PickleKind::kNone);
    make(PickleKind::kBool);
    make(PickleKind::kBool, 1);
    make(PickleKind::kTuple);
  }

  /// The tree of the pickle that the bytes begin with.
  Result<PickleTree> run() {
    while (!stopped_) {
      start_ = at_;
      if (at_ == bytes_.size()) return cut_short("it ends without its STOP opcode");
      const unsigned opcode = number(1);
      if (!step(opcode) || !why_.empty()) return Failure{why_};
      // Before the vectors grow once more.
      if (tree_.nodes_.size() >= kMaxPickleValues || stack_.size() >= kMaxUses || marks_.size() >= kMaxUses)
        return too_many();
    }
    tree_.byte_size_ = at_;
    return std::move(tree_);
  }

 private:
  static constexpr std::size_t kMaxUses = 2 * kMaxPickleValues;
  static constexpr std::uint32_t kDictionary = 1, kState = 2;  // of a global's node

  static Failure too_many() {
    return Failure{"the pickle holds more than " + std::to_string(kMaxPickleValues) + " values"};
  }

  Failure cut_short(const std::string& how) const {
    if (has_more_)
      return Failure{"the pickle takes more than " + byte_text(kMaxPickle) + ", which is the most"};
    return Failure{"the pickle is cut short: " + how};
  }

  bool step(unsigned opcode) {
    using namespace pickle_opcode;
    switch (opcode) {
      case kProto: return protocol();
      case kFrame: return text_size(8) != UINT64_MAX;
      case kStop: return stop();
      case kNone: return push(kNoneId);
      case kNewTrue: return push(kTrueId);
      case kNewFalse: return push(kFalseId);
      case kInt: return decimal();
      case kBinInt: return need(4) && integer(static_cast<std::int32_t>(number(4)));
      case kBinInt1: return need(1) && integer(static_cast<std::int64_t>(number(1)));
      case kBinInt2: return need(2) && integer(static_cast<std::int64_t>(number(2)));
      case kLong1: return long_integer(1);
      case kLong4: return long_integer(4);
      case kBinFloat: return need(8) && real();
      case kShortBinString:
      case kShortBinUnicode: return text(1, PickleKind::kText);
      case kBinString:
      case kBinUnicode: return text(4, PickleKind::kText);
      case kBinUnicode8: return text(8, PickleKind::kText);
      case kShortBinBytes: return text(1, PickleKind::kBytes);
      case kBinBytes: return text(4, PickleKind::kBytes);
      case kBinBytes8:
      case kByteArray8: return text(8, PickleKind::kBytes);
      case kMark: marks_.push_back(static_cast<std::uint32_t>(stack_.size())); return true;
      case kPop: return pop_one();
      case kPopMark: return marked() && drop_marked();
      case kEmptyTuple: return push(kEmptyTupleId);
      case kTuple1: return tuple(1);
      case kTuple2: return tuple(2);
      case kTuple3: return tuple(3);
      case kTuple: return collect(PickleKind::kTuple);
      case kFrozenSet: return collect(PickleKind::kSet);
      case kEmptyList: return push(make(PickleKind::kList));
      case kEmptyDict: return push(make(PickleKind::kDict));
      case kEmptySet: return push(make(PickleKind::kSet));
      case kAppend: return have(2) && move_into(PickleKind::kList, 1);
      case kSetItem: return have(3) && move_into(PickleKind::kDict, 2);
      case kAppends: return move_marked(PickleKind::kList);
      case kSetItems: return move_marked(PickleKind::kDict);
      case kAddItems: return move_marked(PickleKind::kSet);
      case kGlobal: return global_lines();
      case kInst: return global_lines() && refuse("opcode INST is none that torch.save writes");
      case kStackGlobal: return stack_global();
      case kReduce:
      case kNewObj: return call();
      case kBuild: return build();
      case kBinPersId: return persistent_id();
      case kBinPut: return need(1) && put(number(1));
      case kLongBinPut: return need(4) && put(number(4));
      case kMemoize: return put(memoized_);
      case kBinGet: return need(1) && get(number(1));
      case kLongBinGet: return need(4) && get(number(4));
      default: return unknown(opcode);
    }
  }

  bool refuse(const std::string& why) {
    if (why_.empty()) why_ = "the pickle is damaged at byte " + std::to_string(start_) + ": " + why;
    return false;
  }

  bool unknown(unsigned opcode) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string name = std::string("0x") + kDigits[opcode >> 4] + kDigits[opcode & 15];
    if (opcode > ' ' && opcode < 0x7f) name += std::string(" ('") + static_cast<char>(opcode) + "')";
    return refuse("opcode " + name + " is none that torch.save writes");
  }

  // Bytes.

  bool need(std::uint64_t count) {
    if (count <= bytes_.size() - at_) return true;
    why_ = cut_short("the opcode at byte " + std::to_string(start_) + " takes " + byte_text(count) +
                     ", of which " + std::to_string(bytes_.size() - at_) + " are there")
               .message;
    return false;
  }

  bool skip(std::uint64_t count) {
    at_ += count;
    return true;
  }

  /// Little-endian; the bytes must be there.
  std::uint64_t number(unsigned size) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) value |= std::to_integer<std::uint64_t>(bytes_[at_ + i]) << (8 * i);
    at_ += size;
    return value;
  }

  /// A count of bytes that follow, all of them there; UINT64_MAX and a reason otherwise.
  std::uint64_t text_size(unsigned width) {
    if (!need(width)) return UINT64_MAX;
    const std::uint64_t size = number(width);
    return need(size) ? size : UINT64_MAX;
  }

  bool protocol() {
    if (start_ != 0) return refuse("opcode PROTO within the pickle");
    if (!need(1)) return false;
    const std::uint64_t version = number(1);
    return (version >= 2 && version <= 5) ||
           refuse("pickle protocol " + std::to_string(version) + ", protocols 2 to 5 are read");
  }

  bool text(unsigned width, PickleKind kind) {
    const std::uint64_t size = text_size(width);
    if (size == UINT64_MAX) return false;
    const std::uint64_t begin = at_;
    at_ += size;
    return push(make(kind, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size)));
  }

  bool integer(std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    return push(make(PickleKind::kInt, static_cast<std::uint32_t>(bits & UINT32_MAX),
                     static_cast<std::uint32_t>(bits >> 32)));
  }

  /// A line of digits, as Python 2 writes what 32 bits do not hold; 00 and 01 are booleans.
  bool decimal() {
    std::string_view digits;
    if (!line(digits, "number")) return false;
    if (digits == "00" || digits == "01") return push(digits == "01" ? kTrueId : kFalseId);
    std::int64_t value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc() || stopped != end)
      return refuse("opcode INT is given " + quote_text(digits) + ", expected an integer of 64 bits");
    return integer(value);
  }

  /// Big-endian, unlike all others.
  bool real() {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 8; ++i) bits = bits << 8 | std::to_integer<std::uint64_t>(bytes_[at_ + i]);
    at_ += 8;
    return push(make(PickleKind::kFloat, static_cast<std::uint32_t>(bits & UINT32_MAX),
                     static_cast<std::uint32_t>(bits >> 32)));
  }

  /// Two's complement, little-endian, of any length.
  bool long_integer(unsigned width) {
    const std::uint64_t size = text_size(width);
    if (size == UINT64_MAX) return false;
    if (size > 8) return skip(size) && push(make(PickleKind::kBigInt));
    std::uint64_t bits = number(static_cast<unsigned>(size));
    if (size > 0 && size < 8 && (bits >> (8 * size - 1)) != 0) bits |= UINT64_MAX << (8 * size);
    return integer(static_cast<std::int64_t>(bits));
  }

  // Values and the stack.

  PickleId make(PickleKind kind, std::uint32_t a = 0, std::uint32_t b = 0) {
    tree_.nodes_.push_back({kind, a, b, 0});
    return static_cast<PickleId>(tree_.nodes_.size() - 1);
  }

  bool push(PickleId id) {
    stack_.push_back(id);
    return true;
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  /// Values above the last mark.
  bool have(std::size_t count) {
    return stack_.size() - floor() >= count || refuse("the opcode takes more values than there are");
  }

  bool marked() { return !marks_.empty() || refuse("the opcode takes a mark, and there is none"); }

  bool drop_marked() {
    stack_.resize(marks_.back());
    marks_.pop_back();
    return true;
  }

  PickleId pop() {
    const PickleId id = stack_.back();
    stack_.pop_back();
    return id;
  }

  bool pop_one() {
    if (!marks_.empty() && stack_.size() == marks_.back()) {
      marks_.pop_back();  // POP on a mark takes the mark.
      return true;
    }
    if (!have(1)) return false;
    stack_.pop_back();
    return true;
  }

  void append(PickleId to, PickleId value) {
    const auto edge = static_cast<std::uint32_t>(tree_.edges_.size());
    tree_.edges_.push_back({value, PickleTree::kEnd});
    PickleTree::Node& node = tree_.nodes_[to];
    if (node.c++ == 0)
      node.a = edge;
    else
      tree_.edges_[node.b].next = edge;
    node.b = edge;
  }

  /// Whether so many values may be put into containers.
  bool has_room(std::size_t uses) {
    if (uses <= kMaxUses - tree_.edges_.size()) return true;
    why_ = too_many().message;
    return false;
  }

  /// The values from `begin` on leave the stack for a container.
  bool move(PickleId to, std::size_t begin) {
    if (!has_room(stack_.size() - begin)) return false;
    for (std::size_t i = begin; i < stack_.size(); ++i) append(to, stack_[i]);
    stack_.resize(begin);
    return true;
  }

  bool tuple(std::size_t count) {
    if (!have(count)) return false;
    const PickleId id = make(PickleKind::kTuple);
    return move(id, stack_.size() - count) && push(id);
  }

  bool collect(PickleKind kind) {
    if (!marked()) return false;
    const std::size_t begin = marks_.back();
    marks_.pop_back();
    const PickleId id = make(kind);
    return move(id, begin) && push(id);
  }

  bool move_into(PickleKind kind, std::size_t count) {
    const std::size_t begin = stack_.size() - count;
    const PickleId target = stack_[begin - 1];
    if (!tree_.is(target, kind))
      return refuse("entries for " + std::string(pickle_kind_text(kind)) + " are put into " +
                    std::string(pickle_kind_text(tree_.kind(target))));
    return move(target, begin);
  }

  bool move_marked(PickleKind kind) {
    if (!marked()) return false;
    const std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    if (kind == PickleKind::kDict && count % 2 != 0) return refuse("a key without a value");
    return have(count + 1) && move_into(kind, count);
  }

  bool stop() {
    if (!marks_.empty() || stack_.size() != 1)
      return refuse("it stops with " + std::to_string(stack_.size()) + " values and " +
                    std::to_string(marks_.size()) + " marks on its stack, expected one value");
    tree_.root_ = stack_.back();
    stopped_ = true;
    return true;
  }

  // Globals and calls.

  bool line(std::string_view& out, const char* what) {
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
    const auto end = std::find(begin, bytes_.end(), std::byte{'\n'});
    if (end == bytes_.end()) {
      why_ =
          cut_short("the " + std::string(what) + " at byte " + std::to_string(at_) + " does not end").message;
      return false;
    }
    out = {reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<std::size_t>(end - begin)};
    at_ += out.size() + 1;
    return true;
  }

  bool global_lines() {
    std::string_view module, name;
    return line(module, "name") && line(name, "name") && push_global(module, name);
  }

  bool stack_global() {
    if (!have(2)) return false;
    const PickleId name = pop(), module = pop();
    if (!tree_.is(name, PickleKind::kText) || !tree_.is(module, PickleKind::kText))
      return refuse("the name of a global is no string");
    return push_global(tree_.text(module), tree_.text(name));
  }

  bool push_global(std::string_view module, std::string_view name) {
    // Protocol 2 writes the module names of Python 2.
    if (module == "__builtin__") module = "builtins";
    constexpr std::size_t kLongest = 4096;
    if (module.size() > kLongest || name.size() > kLongest) return refuse("the name of a global is too long");
    const Result<PickleGlobal> found = find_global_(std::string(module) + "." + std::string(name));
    if (!found.ok()) {
      why_ = found.failure().message;
      return false;
    }
    const PickleGlobal& global = found.value();
    const std::uint32_t traits = (global.is_dictionary ? kDictionary : 0) | (global.has_state ? kState : 0);
    return push(make(PickleKind::kGlobal, global.id, traits));
  }

  bool call() {
    if (!have(2)) return false;
    const PickleId arguments = pop(), callee = pop();
    if (!tree_.is(callee, PickleKind::kGlobal))
      return refuse("it calls " + std::string(pickle_kind_text(tree_.kind(callee))));
    if (!tree_.is(arguments, PickleKind::kTuple))
      return refuse("the arguments of a call are " + std::string(pickle_kind_text(tree_.kind(arguments))) +
                    ", expected a tuple");
    if ((tree_.nodes_[callee].b & kDictionary) == 0) return push(make(PickleKind::kCall, callee, arguments));
    const PickleId made = make(PickleKind::kDict);
    return (tree_.size(arguments) == 0 || take_pairs(arguments, made)) && push(made);
  }

  /// Python 2 pickles collections.OrderedDict with one argument, a list of lists of a key and its value.
  bool take_pairs(PickleId arguments, PickleId into) {
    const PickleId pairs = tree_.value(tree_.first(arguments));
    if (tree_.size(arguments) != 1 || !tree_.is(pairs, PickleKind::kList))
      return refuse("a dictionary is made with arguments that are no list of pairs");
    // Every pair was written once, and takes more than a byte.
    taken_pairs_ += tree_.size(pairs);
    if (taken_pairs_ > start_) return refuse("dictionaries are made of the same pairs over and over");
    for (std::uint32_t item = tree_.first(pairs); item != PickleTree::kEnd; item = tree_.next(item)) {
      const PickleId pair = tree_.value(item);
      const bool is_pair = tree_.is(pair, PickleKind::kList) || tree_.is(pair, PickleKind::kTuple);
      if (!is_pair || tree_.size(pair) != 2)
        return refuse("a dictionary's entry is no pair of key and value");
      if (!has_room(2)) return false;
      const std::uint32_t key = tree_.first(pair);
      append(into, tree_.value(key));
      append(into, tree_.value(tree_.next(key)));
    }
    return true;
  }

  /// The state of a dictionary is its attributes (_metadata of a state dict): not its entries, left out as
  /// that of whatever else may have one.
  bool build() {
    if (!have(2)) return false;
    const PickleId state = pop(), target = stack_.back();
    const bool has_state =
        tree_.is(target, PickleKind::kCall) && (tree_.nodes_[tree_.callee(target)].b & kState) != 0;
    if (has_state) return true;
    if (!tree_.is(target, PickleKind::kDict) || !tree_.is(state, PickleKind::kDict))
      return refuse("opcode BUILD gives " + std::string(pickle_kind_text(tree_.kind(target))) +
                    " the state " + std::string(pickle_kind_text(tree_.kind(state))) +
                    ", only dictionaries have state, which is a dictionary");
    return true;
  }

  bool persistent_id() {
    if (!have(1)) return false;
    const PickleId id = pop();
    return push(make(PickleKind::kPersistent, id));
  }

  // The memo.

  bool put(std::uint64_t index) {
    if (!have(1)) return false;
    // Picklers count upwards, one for each value.
    if (index > start_) return refuse("memo entry " + std::to_string(index) + " is out of order");
    if (index >= memo_.size()) memo_.resize(index + 1, kUnset);
    memo_[index] = stack_.back();
    ++memoized_;
    return true;
  }

  bool get(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index] == kUnset)
      return refuse("memo entry " + std::to_string(index) + " was never set");
    return push(memo_[index]);
  }

  std::span<const std::byte> bytes_;
  bool has_more_;  ///< bytes than may be read
  FindPickleGlobal find_global_;
  PickleTree tree_;
  std::vector<PickleId> stack_;
  std::vector<std::uint32_t> marks_;
  std::vector<PickleId> memo_;
  std::uint64_t memoized_ = 0;
  std::uint64_t taken_pairs_ = 0;
  std::uint64_t at_ = 0;
  std::uint64_t start_ = 0;  ///< of the opcode that runs
  bool stopped_ = false;
  std::string why_;
};

std::string_view PickleTree::text(PickleId id) const {
  return {reinterpret_cast<const char*>(bytes_.data()) + nodes_[id].a, nodes_[id].b};
}

Result<PickleTree> read_pickle(std::span<const std::byte> bytes, FindPickleGlobal find_global) {
  if (bytes.size() > kMaxPickle)
    return Failure{"the pickle takes " + byte_text(bytes.size()) + ", at most " + std::to_string(kMaxPickle) +
                   " are read"};
  Result<PickleTree> tree = PickleMachine(bytes, find_global).run();
  if (!tree.ok()) return tree;
  const std::uint64_t end = tree.value().byte_size();
  if (end != bytes.size())
    return Failure{"the pickle is damaged: " + byte_text(bytes.size() - end) +
                   " after its STOP opcode at byte " + std::to_string(end - 1)};
  return tree;
}

Result<PickleTree> read_leading_pickle(std::span<const std::byte> bytes, FindPickleGlobal find_global) {
  return PickleMachine(bytes, find_global).run();
}

std::string_view pickle_kind_text(PickleKind kind) {
  switch (kind) {
    case PickleKind::kNone: return "None";
    case PickleKind::kBool: return "a boolean";
    case PickleKind::kInt:
    case PickleKind::kBigInt: return "an integer";
    case PickleKind::kFloat: return "a number";
    case PickleKind::kText: return "a string";
    case PickleKind::kBytes: return "bytes";
    case PickleKind::kTuple: return "a tuple";
    case PickleKind::kList: return "a list";
    case PickleKind::kSet: return "a set";
    case PickleKind::kDict: return "a dictionary";
    case PickleKind::kGlobal: return "a global";
    case PickleKind::kCall: return "an object";
    case PickleKind::kPersistent: return "a storage";
  }
  return "a value";
}

}  // namespace crumb
