// The interface between the operators of a graph and the kernels that compute them.
//
// Each file of ops/ holds one family: for each operator a function that takes a node and returns its kernel,
// and a table of them. Attributes are read and checked once, before anything runs. The semantics are those of
// ONNX, for every version of the operator set, and of QONNX.
//
// The promise `exact`: what a kernel makes depends on the values of its inputs alone, not on threads, batch
// or instruction set. Sums of floats are those of exact/products.h, functions those of exact/functions.h.
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

/// What a session keeps for an Attention node; null: nothing.
struct CacheUse {
  KeyCache* cache = nullptr;
  /// Whether the node appends this run's keys and values to it; else an earlier node has.
  bool appends = false;
};

/// kFast: activations that are multiplied by packed weights become bytes (fast/fast_matrix.h has the bound).
/// Threads, batch and instruction set change no bit here either.
enum class Promise : std::uint8_t { kExact, kFast };

/// One execution of a node: its inputs, and its outputs once they are made.
class Call {
 public:
  /// A left-out input is null. The call may take or write over the inputs whose `last_uses` is set; the
  /// others stay as they are.
  Call(const graph::Node& node, std::span<Array* const> inputs, std::span<const char> last_uses,
       std::span<Array> outputs, int threads, CacheUse cache = {}, Promise promise = Promise::kExact)
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
  /// The cache of an Attention node whose positions a session keeps; else null.
  KeyCache* cache() const { return cache_.cache; }
  bool appends() const { return cache_.appends; }

  std::size_t inputs() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] && inputs_[i]->defined(); }
  const Array& in(std::size_t i) const;  ///< throws Error where it is left out
  /// The elements of an input. Throws Error where its carrier is another than the operator computes with.
  template <class T>
  std::span<const T> values(std::size_t i, Carrier carrier) const {
    expect(i, carrier);
    return inputs_[i]->values<T>();
  }
  std::span<const float> floats(std::size_t i) const { return values<float>(i, Carrier::kFloat); }
  Ints ints(std::size_t i) const;  ///< the numbers of an integer input

  std::size_t outputs() const { return outputs_.size(); }  ///< that the node names
  bool wants(std::size_t i) const { return node_.has_output(i); }
  /// Makes output i, with uninitialized elements. May be called for outputs that nobody wants or that the
  /// node does not name.
  Array& make(std::size_t i, ElementType type, Ints shape);
  /// make(), but in the memory of input `from` where it fits and nobody wants the input any more. Element k
  /// of the output may then depend on element k of that input alone.
  Array& make_over(std::size_t i, std::size_t from, ElementType type, Ints shape);
  /// Whether make_over() would use the memory of the input.
  bool may_reuse(std::size_t from, ElementType type, const Ints& shape) const;
  /// Input i, moved out where nobody wants it any more.
  Array take(std::size_t i);
  const Array& made(std::size_t i) const { return outputs_[i]; }
  /// Makes an array, whose elements are shared, output i.
  void give(std::size_t i, Array array);

  /// An axis as a number from 0 on. Throws Error where it is outside [-rank, rank).
  std::int64_t usual_axis(std::int64_t axis, std::int64_t rank) const;

  /// Counts work in addition to the elements made: products that are added up. Throws Stopped where the limit
  /// is passed.
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
  CacheUse cache_;
  Promise promise_;
};

using Kernel = std::function<void(Call& call)>;

/// The inputs as a Call takes them.
std::vector<Array*> pointers_to(std::span<Array> arrays);

/// A node, and what is known of its inputs before anything runs.
struct NodeFacts {
  const graph::Node& node;
  std::vector<const Array*> constants;  ///< null where the input is computed or left out
  std::vector<ElementType> types;       ///< kUnknown where nobody says
  /// The constant that the kernel holds (OperatorRow::holds) where it is packed; it is null in `constants`
  /// then.
  const graph::QuantizedConstant* packed = nullptr;
  /// The same of packed weights without codes (Tensor::packed_rows), and of floats that are stored transposed
  /// (Tensor::origin).
  const graph::Tensor* rows = nullptr;
  /// The constant that the kernel holds where nodes make it as a sparse matrix (graph/sparse_products.h).
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

/// Kernels for some of a graph's values, by name: they replace the kernels of the nodes whose output 0 is the
/// value.
using Substitutes = std::map<std::string, Kernel>;

/// Returns the kernel of a node. Throws Error where no kernel does what the node asks for.
using Maker = Kernel (*)(const NodeFacts& facts);

/// The types that an operator takes as input 0.
enum class Takes : std::uint8_t {
  kAll,
  kFloats,  ///< types whose carrier is float
  kWide,    ///< narrow integers as int64; an int64 output 0 is narrowed to the type of input 0
};

struct OperatorRow {
  std::string_view op;
  Maker maker;
  Takes takes = Takes::kAll;
  std::string_view domain = graph::kOnnxDomain;
  /// The input that belongs to the kernel where it is constant: the maker gets it, and runs do not pass it.
  /// kNothing: none.
  std::size_t holds = kNothing;
  bool holds_sparse = false;  ///< that constant may come as NodeFacts::sparse

  static constexpr std::size_t kNothing = ~std::size_t{0};
};

/// The operator's row, or null.
const OperatorRow* find_operator(std::string_view op, std::string_view domain);

/// The kernel of the node by the operator's row. Throws Error where no kernel does what the node asks for.
Kernel kernel_of(const OperatorRow& row, const NodeFacts& facts);

/// Every operator, by family.
std::vector<OperatorRow> all_operators();

}  // namespace crumb::runtime
