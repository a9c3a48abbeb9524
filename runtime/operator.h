// What an operator of a graph looks like to the code that computes it.
//
// Each file of ops/ holds one family: a function for each operator that takes a node and gives what computes it, and a
// table of them. Attributes are read and checked once, before anything runs. The semantics are ONNX's, for every version
// of the operator set, and QONNX's.
//
// The promise `exact`: what a kernel makes depends on its inputs' values alone, not on threads, batch or instruction
// set. Sums of floats are those of exact/products.h, functions those of exact/functions.h.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/array.h"

namespace crumb::graph {
struct SparseMatrix;
}

namespace crumb::runtime {

class KeyCache;

/// kFast: activations of matrices that are kept as codes become bytes (fast/fast_matrix.h has the bound). Here, too, threads,
/// batch and instruction set change no bit.
enum class Promise : std::uint8_t { kExact, kFast };

/// One execution of a node: its inputs, and its outputs as they are made.
class Call {
 public:
  /// inputs: null where they are left out. Those that `last_uses` says are this call's to take or to write over; the others
  /// stay as they are.
  Call(const graph::Node& node, std::span<Array* const> inputs, std::span<const char> last_uses,
       std::span<Array> outputs, int threads, KeyCache* cache = nullptr, Promise promise = Promise::kExact)
      : node_(node),
        inputs_(inputs),
        last_uses_(last_uses),
        outputs_(outputs),
        threads_(threads),
        cache_(cache),
        promise_(promise) {}

  const graph::Node& node() const { return node_; }
  int threads() const { return threads_; }
  Promise promise() const { return promise_; }
  KeyCache* cache() const { return cache_; }  ///< of an Attention node whose past a session keeps; or null

  std::size_t inputs() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] && inputs_[i]->defined(); }
  const Array& in(std::size_t i) const;  ///< throws Error where it is left out
  /// Of a carrier that the operator computes with. Throws Error where it is another.
  template <class T>
  std::span<const T> values(std::size_t i, Carrier carrier) const {
    expect(i, carrier);
    return inputs_[i]->values<T>();
  }
  std::span<const float> floats(std::size_t i) const { return values<float>(i, Carrier::kFloat); }
  Ints ints(std::size_t i) const;  ///< an input's numbers

  std::size_t outputs() const { return outputs_.size(); }  ///< that the node names
  bool wants(std::size_t i) const { return node_.has_output(i); }
  /// Output i, not set to anything. May be called for outputs that nobody wants, and that the node does not name.
  Array& make(std::size_t i, ElementType type, Ints shape);
  /// The same, in the memory of input `from` where that fits and nobody wants it any more: element k of the output may
  /// depend on element k of that input alone.
  Array& make_over(std::size_t i, std::size_t from, ElementType type, Ints shape);
  /// Whether that would be in the memory of the input.
  bool may_reuse(std::size_t from, ElementType type, const Ints& shape) const;
  /// Input i, which is gone then where nobody wants it any more.
  Array take(std::size_t i);
  const Array& made(std::size_t i) const { return outputs_[i]; }
  /// Output i shares an array's elements.
  void give(std::size_t i, Array array);

  /// An axis counted from the front. Throws Error where it is outside [-rank, rank).
  std::int64_t usual_axis(std::int64_t axis, std::int64_t rank) const;

  /// Counts work beside the making of elements: products that are added up. Throws Stopped where that is over the limit.
  void spend(const std::vector<std::size_t>& factors) const;

  /// Throws Error with the node's name before the text.
  [[noreturn]] void fail(const std::string& text) const;

 private:
  void expect(std::size_t i, Carrier carrier) const;
  Array& output(std::size_t i) { return i < outputs_.size() ? outputs_[i] : unnamed_[i]; }

  const graph::Node& node_;
  std::span<Array* const> inputs_;
  std::span<const char> last_uses_;
  std::span<Array> outputs_;
  std::map<std::size_t, Array> unnamed_;  ///< those that the node does not name
  int threads_;
  KeyCache* cache_;
  Promise promise_;
};

using Kernel = std::function<void(Call& call)>;

/// As a Call takes them.
std::vector<Array*> pointers_to(std::span<Array> arrays);

/// A node, and what is known of its inputs before anything runs.
struct NodeFacts {
  const graph::Node& node;
  std::vector<const Array*> constants;  ///< null where the input is computed or left out
  std::vector<ElementType> types;       ///< kUnknown where nobody says
  /// The constant that the kernel holds (OperatorRow::holds), where it is kept as codes; constants has it as null then.
  const graph::QuantizedConstant* packed = nullptr;
  /// The same where nodes make it that put few numbers between zeros (graph/sparse_products.h).
  const graph::SparseMatrix* sparse = nullptr;

  std::int64_t version() const { return node.version; }
  const Array* constant(std::size_t i) const { return i < constants.size() ? constants[i] : nullptr; }
  ElementType type(std::size_t i) const { return i < types.size() ? types[i] : ElementType::kUnknown; }
  std::int64_t int_or(const char* name, std::int64_t otherwise) const { return node.int_or(name, otherwise); }
  float float_or(const char* name, float otherwise) const { return node.float_or(name, otherwise); }
  std::string text_or(const char* name, const char* otherwise) const { return node.text_or(name, otherwise); }
  std::optional<Ints> ints(const char* name) const;

  /// Throws Error with the node's name before the text.
  [[noreturn]] void fail(const std::string& text) const;
};

/// What makes some of a graph's values, by their names, in place of the kernels of the nodes that have them as output 0.
using Substitutes = std::map<std::string, Kernel>;

/// Gives what computes the node. Throws Error where the node asks for what there is no kernel for.
using Maker = Kernel (*)(const NodeFacts& facts);

/// What an operator takes as input 0.
enum class Takes : std::uint8_t {
  kAll,
  kFloats,  ///< what is carried as float
  kWide,    ///< narrow integers as int64; output 0, where it is int64 then, is narrowed to what input 0 was
};

struct OperatorRow {
  std::string_view op;
  Maker maker;
  Takes takes = Takes::kAll;
  std::string_view domain = graph::kOnnxDomain;
  /// An input that belongs to the kernel where it is a constant: the maker gets it, runs do not give it. None: kNothing.
  std::size_t holds = kNothing;
  bool holds_sparse = false;  ///< that constant may come as NodeFacts::sparse

  static constexpr std::size_t kNothing = ~std::size_t{0};
};

/// The operator's row, or null.
const OperatorRow* find_operator(std::string_view op, std::string_view domain);

/// What computes the node by the operator's row. Throws Error where there is no kernel for what the node asks.
Kernel kernel_of(const OperatorRow& row, const NodeFacts& facts);

/// Every operator, by family.
std::vector<OperatorRow> all_operators();

}  // namespace crumb::runtime
