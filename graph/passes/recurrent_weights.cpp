#include "graph/passes/recurrent_weights.h"

#include <algorithm>
#include <numeric>

#include "graph/edit.h"

namespace crumb::graph {
namespace {

/// The rows of one gate, in an initializer seen as a matrix.
struct Block {
  std::string constant;
  std::int64_t number = 0;  ///< the index of this block in the constant
  bool operator==(const Block&) const = default;
};
using Blocks = std::vector<Block>;

constexpr std::size_t kMostDepth = 64;  // nodes between a parameter and the recurrent node

/// Finds gates in matrices of `columns`; 0: in a bias, whose rows are numbers.
class BlockFinder {
 public:
  BlockFinder(const Graph& graph, const Links& links, std::int64_t units, std::int64_t columns)
      : graph_(graph), links_(links), units_(units), columns_(columns) {}

  /// Returns the gates of which a value consists; nothing where they are not whole gates.
  std::optional<Blocks> blocks_of(const std::string& value, std::size_t depth = 0) const {
    if (depth > kMostDepth) return std::nullopt;
    if (const Tensor* constant = graph_.constant(value)) return blocks_of_constant(value, *constant);
    const std::size_t producer = links_.producer(value);
    if (producer == Links::kNone) return std::nullopt;
    const Node& node = graph_.nodes[producer];
    if (node.is("Unsqueeze") || node.is("Squeeze")) {
      // Only leading axes of size 1 change: the rows stay as they are.
      const auto before = graph_.shape_of(node.inputs[0]), after = graph_.shape_of(value);
      if (!before || !after || !same_behind_ones(*before, *after)) return std::nullopt;
      return blocks_of(node.inputs[0], depth + 1);
    }
    if (node.int_or("axis", 0) != 0) return std::nullopt;
    if (node.is("Concat")) return joined(node, depth);
    if (node.is("Split")) return part_of(node, value, depth);
    return std::nullopt;
  }

 private:
  static bool same_behind_ones(const Shape& a, const Shape& b) {
    const auto tail = [](const Shape& shape) {
      return Shape(std::ranges::find_if(shape, [](const Dim& dim) { return dim.size != 1; }), shape.end());
    };
    return tail(a) == tail(b) && std::ranges::all_of(a, &Dim::known);
  }

  std::optional<Blocks> blocks_of_constant(const std::string& name, const Tensor& constant) const {
    if (constant.type() != ElementType::kFloat || constant.rank() == 0) return std::nullopt;
    // [directions, rows, columns], [directions, rows], [rows, columns] and [rows] all are rows of a matrix.
    const std::vector<std::int64_t>& shape = constant.shape();
    if (columns_ > 0 && (shape.size() < 2 || shape.back() != columns_)) return std::nullopt;
    const std::int64_t rows = constant.size() / std::max<std::int64_t>(columns_, 1);
    if (rows == 0 || rows % units_ != 0) return std::nullopt;
    Blocks blocks;
    for (std::int64_t i = 0; i < rows / units_; ++i) blocks.push_back({name, i});
    return blocks;
  }

  std::optional<Blocks> joined(const Node& node, std::size_t depth) const {
    Blocks all;
    for (const std::string& input : node.inputs) {
      const auto blocks = blocks_of(input, depth + 1);
      if (!blocks) return std::nullopt;
      all.insert(all.end(), blocks->begin(), blocks->end());
    }
    return all;
  }

  /// Handles a Split into equal parts.
  std::optional<Blocks> part_of(const Node& node, const std::string& value, std::size_t depth) const {
    const auto blocks = blocks_of(node.inputs[0], depth + 1);
    if (!blocks || blocks->size() % node.outputs.size() != 0) return std::nullopt;
    const auto first = graph_.shape_of(node.outputs[0]);
    for (const std::string& output : node.outputs) {
      if (!first || first->empty() || !first->front().known() || graph_.shape_of(output) != first)
        return std::nullopt;
    }
    const std::size_t each = blocks->size() / node.outputs.size();
    const auto output = std::ranges::find(node.outputs, value) - node.outputs.begin();
    const auto begin = blocks->begin() + output * static_cast<std::ptrdiff_t>(each);
    return Blocks(begin, begin + static_cast<std::ptrdiff_t>(each));
  }

  const Graph& graph_;
  const Links& links_;
  std::int64_t units_, columns_;
};

/// Takes gates in PyTorch's order and returns the initializer with just them.
class Gatherer {
 public:
  Gatherer(Graph& graph, std::int64_t units) : graph_(graph), units_(units) {}

  std::string gathered(const Blocks& blocks, std::int64_t columns, const std::string& requested) {
    const Tensor& first = graph_.initializers.at(blocks[0].constant);
    const std::int64_t size =
        static_cast<std::int64_t>(blocks.size()) * units_ * std::max<std::int64_t>(columns, 1);
    bool in_order = first.size() == size && first.rank() == (columns > 0 ? 2 : 1);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      in_order = in_order && blocks[i] == Block{blocks[0].constant, static_cast<std::int64_t>(i)};
    }
    if (in_order) return blocks[0].constant;
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(size));
    for (const Block& block : blocks) {
      const std::vector<float> all = graph_.initializers.at(block.constant).to_floats();
      const std::int64_t each = units_ * std::max<std::int64_t>(columns, 1);
      const auto begin = all.begin() + block.number * each;
      values.insert(values.end(), begin, begin + each);
    }
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(blocks.size()) * units_};
    if (columns > 0) shape.push_back(columns);
    return add_constant(graph_, requested, Tensor::floats(shape, values));
  }

 private:
  Graph& graph_;
  std::int64_t units_;
};

/// Returns one direction's gates of `blocks`, from `first` on, in PyTorch's order.
Blocks ordered(const Blocks& blocks, std::size_t first, const std::vector<std::size_t>& order) {
  Blocks made;
  for (const std::size_t gate : order) made.push_back(blocks[first + gate]);
  return made;
}

}  // namespace

std::vector<std::size_t> gate_places(const Node& node) {
  if (node.is("LSTM")) return {0, 2, 3, 1};
  if (node.is("GRU")) return {1, 0, 2};
  if (node.is("RNN")) return {0};
  return {};
}

std::optional<std::vector<DirectionWeights>> direction_weights(Graph& graph, const Node& node,
                                                               const std::string& base) {
  const std::vector<std::size_t> order = gate_places(node);
  const auto w = graph.shape_of(node.inputs[1]), r = graph.shape_of(node.inputs[2]);
  if (order.empty() || !w || !r || w->size() != 3 || r->size() != 3) return std::nullopt;
  if (!std::ranges::all_of(*w, &Dim::known) || !std::ranges::all_of(*r, &Dim::known)) return std::nullopt;
  const auto directions = static_cast<std::size_t>((*w)[0].size);
  const std::int64_t units = (*r)[2].size, inputs = (*w)[2].size;
  const std::size_t gates = order.size();
  if (units == 0 || inputs == 0) return std::nullopt;

  const Links links(graph);
  const bool is_biased = node.has_input(3);
  const auto input_blocks = BlockFinder(graph, links, units, inputs).blocks_of(node.inputs[1]);
  const auto hidden_blocks = BlockFinder(graph, links, units, units).blocks_of(node.inputs[2]);
  const auto bias_blocks =
      is_biased ? BlockFinder(graph, links, units, 0).blocks_of(node.inputs[3]) : std::optional(Blocks{});
  if (!input_blocks || !hidden_blocks || !bias_blocks || input_blocks->size() != directions * gates ||
      hidden_blocks->size() != directions * gates ||
      bias_blocks->size() != (is_biased ? 2 * directions * gates : 0)) {
    return std::nullopt;
  }
  Gatherer gatherer(graph, units);
  std::vector<DirectionWeights> made;
  for (std::size_t d = 0; d < directions; ++d) {
    const std::string end = d == 1 ? "_reverse" : "";
    DirectionWeights one;
    one.input =
        gatherer.gathered(ordered(*input_blocks, d * gates, order), inputs, base + ".weight_ih" + end);
    one.hidden =
        gatherer.gathered(ordered(*hidden_blocks, d * gates, order), units, base + ".weight_hh" + end);
    if (is_biased) {
      const std::size_t first = 2 * d * gates;
      one.input_bias = gatherer.gathered(ordered(*bias_blocks, first, order), 0, base + ".bias_ih" + end);
      one.hidden_bias =
          gatherer.gathered(ordered(*bias_blocks, first + gates, order), 0, base + ".bias_hh" + end);
    }
    made.push_back(one);
  }
  return made;
}

}  // namespace crumb::graph
