// Runs of one model with values that live from run to run and grow along an axis: keys and values of a decoder.
//
// A tie says that output `present` of a run is input `past` of the next. Neither is given or handed out then. Where past and
// present are those of an Attention node and nobody else reads their elements, its cache grows in place
// (attention/cache.h): a step copies its own places alone. Otherwise the value made is kept, and given as it is.
//
// Before the first run the past has no places: its other sizes are those that the graph states, or that the inputs of the
// run give a size of that name, or (of axis 0) the first input's.
//
// Steps have the bits of the whole wherever the graph's operators do: docs/runtime.md.
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
  std::int64_t axis = 2;  ///< along which places lie
};

/// The ties that a graph shows: past and present of its Attention nodes, and inputs and outputs of one type and rank whose
/// names are alike but for past, past_key_values and present, present_key_values at their beginning.
std::vector<Tie> find_ties(const graph::Graph& graph);

/// One thread at a time. Many sessions may run one model.
class Session {
 public:
  /// The model must outlive it. At most so many places; 0: as many as memory has. Throws Error where a tie names no input or
  /// output, one twice, or one whose rank is not stated.
  Session(const Model& model, std::vector<Tie> ties, std::int64_t most_places = 0);

  const std::vector<Tie>& ties() const { return ties_; }
  bool holds_input(std::size_t index) const;
  bool holds_output(std::size_t index) const;
  /// Whether tie `index` grows in place.
  bool grows_in_place(std::size_t index) const { return held_[index].cache != nullptr; }

  /// The graph's inputs, of those that are not tied. Throws Error as check_inputs() does.
  std::vector<Array> complete(std::vector<Array> inputs) const;
  /// What complete() gave; outputs in the graph's order, tied ones undefined. A run that fails leaves the places before it.
  /// Throws as Model::run does, and Error where present values have not as many places as each other.
  std::vector<Array> run_complete(std::vector<Array> inputs, RunOptions options);
  std::vector<Array> run(std::vector<Array> inputs, const RunOptions& options) {
    return run_complete(complete(std::move(inputs)), options);
  }

  std::int64_t length() const { return length_; }  ///< places
  std::uint64_t bytes() const;                     ///< of memory
  void reset() { truncate(0); }                    ///< memory is kept for a run of the same batch
  void truncate(std::int64_t length);              ///< keeps the first; throws Error where there are fewer

  /// What lay behind a session's first places, which it can have again.
  class Tail {
   private:
    friend class Session;
    std::int64_t from_ = 0, length_ = 0;
    std::vector<KeyCache::Tail> caches_;
    std::vector<Array> values_;
  };
  /// A copy of the places behind the first `length`, in memory of the scope's meter. Throws Stopped and std::bad_alloc, and Error
  /// where there are fewer.
  Tail tail(std::int64_t length) const;
  /// The session is as it was when the tail was made: what came behind its first places since then goes. Throws Error,
  /// Stopped and std::bad_alloc where memory lacks; then it has those first places alone.
  /// Precondition: it had them ever since.
  void put_back(Tail tail);

  /// Everything that is held. The same places give the same bytes.
  std::vector<std::byte> save() const;
  /// Throws Error where the bytes are damaged, or of a session of other ties, types or sizes, and has changed nothing then.
  /// Names and sizes are compared, not the networks' weights.
  void restore(std::span<const std::byte> bytes);

 private:
  struct HeldValue {
    std::size_t input = 0, output = 0, axis = 0;
    ElementType type = ElementType::kFloat;
    std::size_t cache_index = 0;
    KeyCache* cache = nullptr;  ///< null: `value` is what is held
    bool is_value = false;      ///< of the cache, not its key
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
  std::map<std::size_t, KeyCache*> by_node_;
};

}  // namespace crumb::runtime
