// Runs of one model with values that live from run to run and grow along an axis: the keys and values of a
// decoder.
//
// A tie says that output `present` of a run is input `past` of the next. Neither is passed in or out then.
// Where past and present belong to an Attention node, and only attention over the same positions reads their
// elements (graph/attention_caches.h), one cache for all of these nodes grows in place (attention/cache.h): a
// step copies its own positions alone. Otherwise the session keeps the value and passes it on as it is.
//
// Before the first run the past has no positions. Its other sizes are those that the graph states, those that
// an input of the run gives a size of the same name, or (on axis 0) the size of the first input.
//
// A sequence in steps has the same bits as the sequence in one run wherever the graph's operators allow it:
// docs/runtime.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/attention/cache.h"
#include "runtime/model.h"

namespace crumb::runtime {

struct Tie {
  std::string past;       ///< an input
  std::string present;    ///< an output
  std::int64_t axis = 2;  ///< the axis of positions
};

/// The ties that a graph shows: past and present of its Attention nodes; and inputs and outputs of one type
/// and rank whose names are equal but for a prefix (past and present, past_key_values and present or
/// present_key_values).
std::vector<Tie> find_ties(const graph::Graph& graph);

/// For one thread at a time. Several sessions may run one model.
class Session {
 public:
  /// The model must outlive the session. It holds at most `most_places` positions; 0: as many as fit the
  /// memory. Throws Error where a tie names no input or output, names one twice, or names one whose rank is
  /// not stated.
  Session(const Model& model, std::vector<Tie> ties, std::int64_t most_places = 0);

  const std::vector<Tie>& ties() const { return ties_; }
  bool holds_input(std::size_t index) const;
  bool holds_output(std::size_t index) const;
  /// Whether tie `index` grows in place.
  bool grows_in_place(std::size_t index) const { return held_[index].cache != nullptr; }

  /// Adds the tied inputs to those that are given. Throws Error as check_inputs() does.
  std::vector<Array> complete(std::vector<Array> inputs) const;
  /// Takes what complete() returned. Outputs are in the graph's order, tied ones undefined. A run that fails
  /// leaves the positions before it. Throws as Model::run does, and Error where the present values differ in
  /// their number of positions.
  std::vector<Array> run_complete(std::vector<Array> inputs, RunOptions options);
  std::vector<Array> run(std::vector<Array> inputs, const RunOptions& options) {
    return run_complete(complete(std::move(inputs)), options);
  }

  std::int64_t length() const { return length_; }  ///< positions
  std::uint64_t bytes() const;                     ///< of memory
  void reset() { truncate(0); }                    ///< memory is kept for a run of the same batch
  /// Keeps the first positions. Throws Error where there are fewer.
  void truncate(std::int64_t length);

  /// The positions that a session had behind the first ones, kept to be put back.
  class Tail {
   private:
    friend class Session;
    std::int64_t from_ = 0, length_ = 0;
    std::vector<KeyCache::Tail> caches_;
    std::vector<Array> values_;
  };
  /// Copies the positions behind the first `length`, into memory of the scope's meter. Throws Stopped and
  /// std::bad_alloc, and Error where there are fewer.
  Tail tail(std::int64_t length) const;
  /// Restores the session to what it was when tail() was called; later positions are dropped. Throws Error,
  /// Stopped and std::bad_alloc where memory is lacking; the session then has the first positions alone.
  /// Precondition: the session has kept those first positions ever since.
  void put_back(Tail tail);

  /// Everything that the session holds. Equal contents give equal bytes.
  std::vector<std::byte> save() const;
  /// Throws Error where the bytes are damaged, or come from a session with other ties, types or sizes; the
  /// session is unchanged then. Names and sizes are compared, the networks' weights are not.
  void restore(std::span<const std::byte> bytes);

 private:
  struct HeldValue {
    std::size_t input = 0, output = 0, axis = 0;
    ElementType type = ElementType::kFloat;
    std::size_t cache_index = 0;
    KeyCache* cache = nullptr;  ///< null: `value` holds the elements
    bool is_value = false;      ///< whether this is the cache's value, not its key
    Array value;
  };

  HeldValue held_by(const Tie& tie) const;
  void find_caches();
  Ints first_shape(const HeldValue& held, const std::vector<Array>& inputs) const;
  Ints shape_of(const HeldValue& held) const;
  Array array_of(const HeldValue& held) const;
  std::int64_t places_made(const HeldValue& held, const std::vector<Array>& outputs) const;
  void check_restored(const HeldValue& held, const Array& array,
                      std::map<std::string, std::int64_t>& sizes) const;

  const Model* model_;
  std::vector<Tie> ties_;
  std::int64_t most_places_, length_ = 0;
  std::vector<HeldValue> held_;
  std::vector<std::unique_ptr<KeyCache>> caches_;
  std::vector<std::size_t> keepers_;         ///< nodes whose past and present they are, by cache
  std::map<std::size_t, CacheUse> by_node_;  ///< all that attend over them
};

}  // namespace crumb::runtime
