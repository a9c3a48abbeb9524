// Python pickles, protocols 2 to 5, read as data.
//
// A pickle is a program for a stack machine that builds values. Here it builds a tree of a closed set of
// kinds and nothing is imported, called or constructed: a global is a number that the caller gives to a name
// it knows (a name it does not know ends the reading), a call is a node that holds what would be called and
// the arguments. What a call means is for the caller to say.
//
// Opcodes read: those that Python's pickler writes in protocols 2 to 5 for None, booleans, numbers, strings,
// bytes, tuples, lists, dictionaries, sets, globals, calls (REDUCE, NEWOBJ), dictionary state (BUILD),
// persistent ids (BINPERSID), and the memo; and those that Python 2 writes besides, for strings and integers.
// Everything else is refused.
//
// Values may be shared and may contain themselves. At most 16 bytes are kept for a value and 8 for each of
// its uses; every opcode makes at most one of each, and a dictionary that is made of a list of pairs (so
// Python 2 pickles collections.OrderedDict) two uses for each pair, of which there are less than bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace crumb {

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  ///< an integer beyond 64 bits; its value is not kept
  kFloat,
  kText,
  kBytes,
  kTuple,
  kList,
  kSet,
  kDict,  ///< its items are key, value, key, value, ... as they were set
  kGlobal,
  kCall,
  kPersistent,
};

/// What a known global is to the caller; whether a call of it makes a dictionary (collections.OrderedDict),
/// an empty one without arguments, else one of a list of pairs; and whether what another call of it makes may
/// be given a state, which is left out (the attributes of an argparse.Namespace).
struct PickleGlobal {
  std::uint16_t id = 0;
  bool is_dictionary = false;
  bool has_state = false;
};

/// Gives "module.name" its meaning. A Failure refuses the pickle.
using FindPickleGlobal = Result<PickleGlobal> (*)(std::string_view name);

using PickleId = std::uint32_t;

class PickleTree {
 public:
  PickleId root() const { return root_; }
  std::size_t node_count() const { return nodes_.size(); }
  std::size_t item_count() const { return edges_.size(); }
  /// Of the pickle, from its first byte to its STOP opcode.
  std::uint64_t byte_size() const { return byte_size_; }

  PickleKind kind(PickleId id) const { return nodes_[id].kind; }
  bool is(PickleId id, PickleKind kind) const { return nodes_[id].kind == kind; }
  bool is_true(PickleId id) const { return is(id, PickleKind::kBool) && nodes_[id].a == 1; }
  std::int64_t integer(PickleId id) const {
    return static_cast<std::int64_t>(std::uint64_t{nodes_[id].b} << 32 | nodes_[id].a);
  }
  /// Of kFloat.
  double real(PickleId id) const {
    return std::bit_cast<double>(std::uint64_t{nodes_[id].b} << 32 | nodes_[id].a);
  }
  /// Of kText (not checked to be UTF-8) and kBytes; a view of the pickle.
  std::string_view text(PickleId id) const;
  std::uint16_t global(PickleId id) const { return static_cast<std::uint16_t>(nodes_[id].a); }
  PickleId callee(PickleId call) const { return nodes_[call].a; }     ///< a kGlobal
  PickleId arguments(PickleId call) const { return nodes_[call].b; }  ///< a kTuple
  PickleId persistent(PickleId id) const { return nodes_[id].a; }     ///< the id that was saved

  /// Items of tuples, lists, sets and dictionaries (there keys and values, so twice the entries).
  std::uint32_t size(PickleId id) const { return nodes_[id].c; }
  static constexpr std::uint32_t kEnd = UINT32_MAX;
  std::uint32_t first(PickleId id) const { return nodes_[id].c == 0 ? kEnd : nodes_[id].a; }
  std::uint32_t next(std::uint32_t item) const { return edges_[item].next; }
  PickleId value(std::uint32_t item) const { return edges_[item].value; }

  bool has_items(PickleId id) const {
    return kind(id) >= PickleKind::kTuple && kind(id) <= PickleKind::kDict;
  }

 private:
  friend class PickleMachine;
  struct Node {
    PickleKind kind = PickleKind::kNone;
    std::uint32_t a = 0, b = 0, c = 0;  ///< items: first, last, count; text: begin, size; see the accessors
  };
  struct Edge {
    PickleId value = 0;
    std::uint32_t next = kEnd;
  };
  std::span<const std::byte> bytes_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  PickleId root_ = 0;
  std::uint64_t byte_size_ = 0;
};

inline constexpr std::uint64_t kMaxPickle = std::uint64_t{256} << 20;
inline constexpr std::size_t kMaxPickleValues = std::size_t{1} << 24;

/// `bytes` must outlive the tree. A Failure names the byte of the pickle where it is damaged, or what it asks
/// for that may not be, and pickles above kMaxPickle bytes or kMaxPickleValues values.
Result<PickleTree> read_pickle(std::span<const std::byte> bytes, FindPickleGlobal find_global);

/// The same of a pickle that other bytes may follow: PickleTree::byte_size says where they begin.
Result<PickleTree> read_leading_pickle(std::span<const std::byte> bytes, FindPickleGlobal find_global);

/// "an integer", "a list": for messages.
std::string_view pickle_kind_text(PickleKind kind);

}  // namespace crumb
