#include "graph/onnx/block_operators.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/files/text.h"
#include "graph/edit.h"
#include "graph/onnx/block_codes.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostBlock = std::int64_t{1} << 30;
constexpr std::int64_t kUsualBits = 4;

bool is_product(const Node& node) { return node.is("MatMulNBits", kOnnxruntimeDomain); }
bool is_gather(const Node& node) { return node.is("GatherBlockQuantized", kOnnxruntimeDomain); }

/// Inputs of both operators; what the others mean differs.
constexpr std::size_t kScales = 2, kZeros = 3, kGroupIndex = 4, kBias = 5;
std::size_t codes_input(const Node& node) { return is_product(node) ? 1 : 0; }
std::size_t data_input(const Node& node) { return is_product(node) ? 0 : 1; }

[[noreturn]] void refuse(const Node& node, const std::string& why) { throw Error(text_of(node) + " " + why); }

class BlockOperators {
 public:
  explicit BlockOperators(Graph graph) : graph_(std::move(graph)) {
    for (const Node& node : graph_.nodes) {
      if (auto constant = constant_of(node); constant && node.has_output(0))
        of_nodes_.emplace(node.outputs[0], std::move(*constant));
    }
  }

  Graph run() && {
    std::vector<Node> before = std::exchange(graph_.nodes, {});
    for (const Node& node : before)
      for (const std::string& input : node.inputs) ++uses_[input];
    for (const std::string& output : graph_.outputs) ++uses_[output];
    std::vector<bool> is_replaced;
    for (const Node& node : before) {
      is_replaced.push_back((is_product(node) || is_gather(node)) && is_of_constants(node));
      if (is_replaced.back()) ++own_uses_[node.inputs[codes_input(node)]];
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!is_replaced[i])
        graph_.nodes.push_back(std::move(before[i]));
      else
        replace(before[i]);
    }
    for (const std::string& name : left_) forget(name);
    for (auto& [name, constant] : made_) set_codes(graph_, name, std::move(constant));
    const bool has_domain =
        std::ranges::any_of(graph_.nodes, [](const Node& node) { return node.domain == kOnnxruntimeDomain; });
    if (!has_domain) graph_.opsets.erase(std::string(kOnnxruntimeDomain));
    return std::move(graph_);
  }

 private:
  const Tensor* constant(const Node& node, std::size_t i) const {
    if (!node.has_input(i)) return nullptr;
    if (const Tensor* found = graph_.constant(node.inputs[i])) return found;
    const auto made = of_nodes_.find(node.inputs[i]);
    return made == of_nodes_.end() ? nullptr : &made->second;
  }

  bool is_of_constants(const Node& node) const {
    const Tensor* codes = constant(node, codes_input(node));
    if (!codes || !constant(node, kScales) || (node.has_input(kZeros) && !constant(node, kZeros)) ||
        !node.has_input(data_input(node)) || !node.has_output(0))
      return false;
    if (is_product(node)) return true;
    const std::int64_t axis = node.int_or("quantize_axis", 1);
    return codes->type() == ElementType::kUint8 && codes->rank() == 2 && node.int_or("gather_axis", 0) == 0 &&
           (axis == 1 || axis == -1);
  }

  /// What node and constants say. Throws Error, which names the node.
  BlockCodes codes_of(const Node& node) const {
    const Tensor& codes = *constant(node, codes_input(node));
    BlockCodes made{.codes = codes, .scales = *constant(node, kScales), .zeros = {}};
    if (const Tensor* zeros = constant(node, kZeros)) made.zeros = *zeros;
    const std::int64_t bits = node.int_or("bits", kUsualBits),
                       block = node.int_or("block_size", is_product(node) ? 0 : 128);
    if (bits != 2 && bits != 4 && bits != 8)
      refuse(node, "has bits=" + std::to_string(bits) + ", expected 2, 4 or 8");
    if (block < 16 || block > kMostBlock || (block & (block - 1)) != 0)
      refuse(node, "has block_size=" + std::to_string(block) + ", expected a power of two from 16 on");
    made.bits = static_cast<int>(bits);
    made.block = block;
    is_product(node) ? size_product(node, made) : size_gather(node, made);
    return made;
  }

  static void size_product(const Node& node, BlockCodes& made) {
    if (node.has_input(kGroupIndex))
      refuse(node,
             "has g_idx, which gives each input a group of its own; Crumb reads groups that lie one "
             "behind the other (onnxruntime deprecated g_idx)");
    if (node.int_or("weight_prepacked", 0) != 0)
      refuse(node, "has weights that are prepacked for one kind of processor (weight_prepacked)");
    made.columns = node.int_or("K", 0);
    made.rows = node.int_or("N", 0);
    if (made.columns < 1 || made.rows < 1)
      refuse(node, "has K=" + std::to_string(made.columns) + " and N=" + std::to_string(made.rows) +
                       ", expected both from 1 on");
    const std::int64_t blob = made.block / 8 * made.bits;
    if (made.codes.shape() != std::vector<std::int64_t>{made.rows, made.blocks(), blob})
      refuse(node, "has codes of shape " + text_of(made.codes.shape()) + ", expected " +
                       text_of(std::vector<std::int64_t>{made.rows, made.blocks(), blob}));
    made.row_bytes = made.blocks() * blob;
  }

  static void size_gather(const Node& node, BlockCodes& made) {
    made.rows = made.codes.shape()[0];
    made.row_bytes = made.codes.shape()[1];
    if (made.rows < 1 || made.row_bytes < 1) refuse(node, "has no codes");
    made.columns = made.row_bytes * (8 / made.bits);
  }

  /// The constant of a node, which nodes with the same inputs share.
  std::string weight_of(const Node& node) {
    const std::string& codes = node.inputs[codes_input(node)];
    const Key key{is_product(node),
                  codes,
                  node.inputs[kScales],
                  node.has_input(kZeros) ? node.inputs[kZeros] : "",
                  node.int_or("K", 0),
                  node.int_or("bits", kUsualBits),
                  node.int_or("block_size", 0)};
    if (const auto found = weights_.find(key); found != weights_.end()) return found->second;
    const BlockCodes from = codes_of(node);
    Result<QuantizedTensor> tensor = tensor_of_blocks(from);
    if (!tensor.ok()) refuse(node, "cannot be read: " + tensor.failure().message);
    QuantizedConstant made{
        .tensor = std::make_shared<const QuantizedTensor>(tensor.take()),
        .axes = is_product(node) ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{0, 1}};
    const bool takes_name = uses_[codes] == own_uses_[codes] && taken_.insert(codes).second &&
                            graph_.initializers.contains(codes);
    const std::string name = takes_name ? codes : graph_.unused_value_name(codes + "_values");
    made_.emplace(name, std::move(made));
    graph_.values[name];  // the name is taken
    return weights_[key] = name;
  }

  void replace(const Node& node) {
    const std::string weight = weight_of(node);
    const ElementType type = constant(node, kScales)->type();
    for (const std::size_t i : {codes_input(node), kScales, kZeros})
      if (node.has_input(i) && --uses_[node.inputs[i]] == 0) left_.insert(node.inputs[i]);
    is_product(node) ? put_product(node, weight, type) : put_gather(node, weight, type);
  }

  void put_product(const Node& node, const std::string& weight, ElementType type) {
    const bool casts = type != ElementType::kFloat, adds = node.has_input(kBias);
    const std::string& output = node.outputs[0];
    const auto as_float = [&](const std::string& value) {
      return casts ? cast(value, between(value + "_float32", value), ElementType::kFloat) : value;
    };
    const std::string x = as_float(node.inputs[0]);
    const std::string sum = casts ? between(output + "_float32", output) : output;
    const std::string product = adds ? between(output + "_product", output) : sum;
    put(node, "MatMul", {x, weight}, product);
    if (adds) put({.name = node.name + "_bias"}, "Add", {product, as_float(node.inputs[kBias])}, sum);
    if (casts) cast(sum, output, type);
  }

  void put_gather(const Node& node, const std::string& weight, ElementType type) {
    const bool casts = type != ElementType::kFloat;
    const std::string& output = node.outputs[0];
    const std::string rows = casts ? between(output + "_float32", output) : output;
    put(node, "Gather", {weight, node.inputs[1]}, rows);
    if (casts) cast(rows, output, type);
  }

  void put(const Node& from, const char* op, std::vector<std::string> inputs, const std::string& output) {
    graph_.nodes.push_back({.name = from.name,
                            .op = op,
                            .domain = "",
                            .version = graph_.opset(),
                            .inputs = std::move(inputs),
                            .outputs = {output},
                            .attributes = {},
                            .metadata = from.metadata});
  }

  std::string cast(const std::string& from, std::string to, ElementType type) {
    put({.name = to + "_cast"}, "Cast", {from}, to);
    graph_.nodes.back().attributes["to"] = static_cast<std::int64_t>(type);
    return to;
  }

  /// A float32 value of the shape of another.
  std::string between(const std::string& requested, const std::string& like) {
    Value known{.type = ElementType::kFloat, .shape = graph_.shape_of(like)};
    return add_value(graph_, requested, known);
  }

  void forget(const std::string& name) {
    if (std::ranges::find(graph_.inputs, name) != graph_.inputs.end()) return;
    graph_.initializers.erase(name);
    graph_.values.erase(name);
    std::erase_if(graph_.nodes, [&](const Node& node) {
      return node.is("Constant") && node.has_output(0) && node.outputs[0] == name;
    });
  }

  using Key =
      std::tuple<bool, std::string, std::string, std::string, std::int64_t, std::int64_t, std::int64_t>;

  Graph graph_;
  std::map<std::string, Tensor> of_nodes_;       ///< of Constant nodes
  std::map<std::string, std::size_t> uses_;      ///< of all nodes, and as outputs
  std::map<std::string, std::size_t> own_uses_;  ///< of codes, by the nodes that are replaced
  std::map<Key, std::string> weights_;
  std::set<std::string> taken_;  ///< codes whose names constants have got
  std::set<std::string> left_;   ///< constants that no node takes any more
  std::map<std::string, QuantizedConstant> made_;
};

}  // namespace

Graph take_block_operators(Graph graph) {
  const bool has_some =
      std::ranges::any_of(graph.nodes, [](const Node& node) { return is_product(node) || is_gather(node); });
  return has_some ? BlockOperators(std::move(graph)).run() : graph;
}

}  // namespace crumb::graph
