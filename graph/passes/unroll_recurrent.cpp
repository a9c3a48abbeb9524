// unroll_recurrent: writes every step of a recurrent layer as a cell of plain operators.
//
// The inputs' share of all sums is one Gemm over all steps. Then, step by step, with PyTorch's gates:
//   LSTM  s = x_t + h R' + b;  c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)
//   GRU   h = n + sigmoid(z) (h - n);  n = tanh(x_n + sigmoid(r) (h R_n' + b_n))
//   RNN   h = tanh(x_t + h R' + b), or its relu
// Without an initial state the first step leaves out the products with it.
#include <algorithm>
#include <set>

#include "graph/edit.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/passes/passes.h"
#include "graph/passes/recurrent_weights.h"
#include "graph/recurrent_cell.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kMostSteps = 4096;
constexpr std::int64_t kLeastVersion = 7;  // operators broadcast, Reshape has its shape as an input

/// Whether the node has its default activations and no unusual attribute or input.
bool is_plain(const Node& node) {
  for (const char* unusual : {"clip", "activation_alpha", "activation_beta"}) {
    if (node.has(unusual)) return false;
  }
  if (node.int_or("input_forget", 0) != 0 || node.int_or("layout", 0) != 0) return false;
  if (node.has_input(4) || node.has_input(7)) return false;  // sequence lengths, peepholes
  const std::string direction = node.text_or("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") return false;
  if (node.is("GRU") && node.int_or("linear_before_reset", 0) == 0) return false;
  const std::vector<std::string> given = node.texts_or("activations", {});
  if (node.is("RNN"))
    return std::ranges::all_of(given, [&](const auto& f) { return f == given[0]; }) &&
           (given.empty() || given[0] == "Tanh" || given[0] == "Relu");
  const std::vector<std::string> usual = node.is("LSTM") ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                                         : std::vector<std::string>{"Sigmoid", "Tanh"};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] != usual[i % usual.size()]) return false;
  }
  return true;
}

/// Writes the cells of one layer.
class Unroller {
 public:
  Unroller(Graph& graph, const Node& node, std::int64_t steps, std::string base)
      : graph_(graph), layer_(node), base_(std::move(base)), steps_(steps) {
    const auto r = graph.shape_of(node.inputs[2]);
    units_ = r->back().size;
    inputs_ = graph.shape_of(node.inputs[1])->back().size;
  }

  void run(const std::vector<DirectionWeights>& weights) {
    std::vector<std::string> sequences, hiddens, states;
    for (std::size_t d = 0; d < weights.size(); ++d) {
      run_direction(weights[d], d, weights.size());
      sequences.push_back(sequence_);
      if (layer_.has_output(1)) hiddens.push_back(reshaped(hidden_, {1, -1, units_}, "last_hidden"));
      if (layer_.has_output(2)) states.push_back(reshaped(state_, {1, -1, units_}, "last_state"));
    }
    finish(0, sequences, 1);
    finish(1, hiddens, 0);
    finish(2, states, 0);
  }

  std::vector<Node> take() { return std::move(nodes_); }

 private:
  // Adds a node; returns its output.

  std::string add(const std::string& op, const std::string& name, std::vector<std::string> inputs,
                  const std::string& part, std::map<std::string, Attribute> attributes = {}) {
    return add_many(op, name, std::move(inputs), part, std::move(attributes), 1)[0];
  }

  std::vector<std::string> add_many(const std::string& op, const std::string& name,
                                    std::vector<std::string> inputs, const std::string& part,
                                    std::map<std::string, Attribute> attributes, std::size_t outputs) {
    Node node{.name = graph_.unused_node_name(name),
              .op = op,
              .version = layer_.version,
              .inputs = std::move(inputs),
              .attributes = std::move(attributes)};
    for (std::size_t i = 0; i < outputs; ++i) {
      const std::string requested = outputs == 1 ? name : name + "_" + std::to_string(i);
      node.outputs.push_back(
          add_value(graph_, requested, {.type = ElementType::kFloat, .shape = {}, .annotations = {}}));
    }
    if (!part.empty()) set_cell_part(node, {.cell = cell_, .part = part});
    nodes_.push_back(std::move(node));
    return nodes_.back().outputs;
  }

  std::string reshaped(const std::string& value, const std::vector<std::int64_t>& shape,
                       const std::string& name) {
    const auto size = static_cast<std::int64_t>(shape.size());
    const std::string constant =
        add_constant(graph_, cell_ + "." + name + "_shape", Tensor::ints({size}, shape));
    return add("Reshape", cell_ + "." + name, {value, constant}, "");
  }

  std::vector<std::string> split(const std::string& value, const std::string& name, std::int64_t axis,
                                 std::size_t parts, const std::string& part) {
    if (parts == 1) return {value};
    std::map<std::string, Attribute> attributes{{"axis", axis}};
    if (layer_.version >= 18) attributes["num_outputs"] = static_cast<std::int64_t>(parts);
    return add_many("Split", name, {value}, part, std::move(attributes), parts);
  }

  std::string gemm(const std::string& name, const std::string& x, const std::string& weight,
                   const std::string& bias) {
    std::vector<std::string> inputs{x, weight};
    if (!bias.empty()) inputs.push_back(bias);
    return add("Gemm", name, std::move(inputs), "product", {{"transB", std::int64_t{1}}});
  }

  /// Returns a name in this step.
  std::string at(const char* what) const { return cell_ + "." + std::to_string(step_) + "." + what; }

  // Writes the cells of one direction.

  void run_direction(const DirectionWeights& weights, std::size_t d, std::size_t directions) {
    const bool backwards = d == 1 || layer_.text_or("direction", "forward") == "reverse";
    cell_ = base_ + (d == 1 ? "_reverse" : "");
    const std::string flat = reshaped(layer_.inputs[0], {-1, inputs_}, "inputs");
    const std::string shares = gemm(cell_ + ".input_products", flat, weights.input, weights.input_bias);
    const std::vector<std::string> by_step =
        split(shares, cell_ + ".by_step", 0, static_cast<std::size_t>(steps_), "");
    hidden_ = initial(5, "initial_hidden", d, directions);
    state_ = layer_.is("LSTM") ? initial(6, "initial_state", d, directions) : "";
    std::vector<std::string> made(static_cast<std::size_t>(steps_));
    for (std::int64_t i = 0; i < steps_; ++i) {
      step_ = backwards ? steps_ - 1 - i : i;
      run_step(by_step[static_cast<std::size_t>(step_)], weights);
      made[static_cast<std::size_t>(step_)] = hidden_;
    }
    const std::string all = made.size() == 1 ? made[0]
                                             : add("Concat", cell_ + ".sequence", std::move(made), "",
                                                   {{"axis", std::int64_t{0}}});
    sequence_ = reshaped(all, {steps_, 1, -1, units_}, "outputs");
  }

  /// Returns the initial state [batch, units] of a direction; "" where it is zeros.
  std::string initial(std::size_t input, const char* name, std::size_t d, std::size_t directions) {
    if (!layer_.has_input(input)) return "";
    const std::vector<std::string> parts =
        split(layer_.inputs[input], cell_ + "." + name + "_of_both", 0, directions, "");
    return reshaped(parts[d], {-1, units_}, name);
  }

  void run_step(const std::string& share, const DirectionWeights& weights) {
    if (layer_.is("GRU")) return gru_step(share, weights);
    const std::string sum = sum_of(share, weights);
    if (layer_.is("LSTM")) return lstm_step(sum);
    const std::vector<std::string> given = layer_.texts_or("activations", {"Tanh"});
    hidden_ = add(given[0], at("hidden"), {sum}, "hidden");
  }

  /// Returns the sum of the inputs' share and the share of the last hidden state.
  std::string sum_of(const std::string& share, const DirectionWeights& weights) {
    if (!hidden_.empty()) {
      const std::string products = gemm(at("products"), hidden_, weights.hidden, weights.hidden_bias);
      return add("Add", at("sum"), {share, products}, "sum");
    }
    if (weights.hidden_bias.empty()) return add("Identity", at("sum"), {share}, "sum");
    return add("Add", at("sum"), {share, weights.hidden_bias}, "sum");
  }

  void lstm_step(const std::string& sum) {
    const std::vector<std::string> gates = split(sum, at("gates"), 1, 4, "gates");
    const std::string i = add("Sigmoid", at("i"), {gates[0]}, "gate_i");
    const std::string g = add("Tanh", at("g"), {gates[2]}, "gate_g");
    const std::string o = add("Sigmoid", at("o"), {gates[3]}, "gate_o");
    if (state_.empty()) {
      state_ = add("Mul", at("state"), {i, g}, "state");
    } else {
      const std::string f = add("Sigmoid", at("f"), {gates[1]}, "gate_f");
      const std::string kept = add("Mul", at("kept"), {f, state_}, "product");
      const std::string written = add("Mul", at("written"), {i, g}, "product");
      state_ = add("Add", at("state"), {kept, written}, "state");
    }
    const std::string squashed = add("Tanh", at("squashed"), {state_}, "squashed");
    hidden_ = add("Mul", at("hidden"), {o, squashed}, "hidden");
  }

  void gru_step(const std::string& share, const DirectionWeights& weights) {
    const std::vector<std::string> in = split(share, at("input_gates"), 1, 3, "");
    std::vector<std::string> own(3);  // the hidden state's share
    if (!hidden_.empty()) {
      own = split(gemm(at("products"), hidden_, weights.hidden, weights.hidden_bias), at("hidden_gates"), 1,
                  3, "share");
    } else if (!weights.hidden_bias.empty()) {
      // The bias alone, broadcast to the batch: a Split of the bias itself would be folded into constants of
      // its own.
      const std::string zero = add_constant(graph_, cell_ + ".zero", Tensor::scalar(0.0F));
      const std::string zeros = add("Mul", at("zeros"), {share, zero}, "");
      own = split(add("Add", at("products"), {zeros, weights.hidden_bias}, ""), at("hidden_gates"), 1, 3,
                  "share");
    }
    const auto sum = [&](const char* name, std::size_t gate) {
      if (own[gate].empty()) return add("Identity", at(name), {in[gate]}, "sum");
      return add("Add", at(name), {in[gate], own[gate]}, "sum");
    };
    const std::string z = add("Sigmoid", at("z"), {sum("sum_z", 1)}, "gate_z");
    if (!own[2].empty()) {
      const std::string r = add("Sigmoid", at("r"), {sum("sum_r", 0)}, "gate_r");
      own[2] = add("Mul", at("reset"), {r, own[2]}, "product");
    }
    const std::string n = add("Tanh", at("n"), {sum("sum_n", 2)}, "gate_n");
    if (hidden_.empty()) {
      const std::string taken = add("Mul", at("taken"), {z, n}, "product");
      hidden_ = add("Sub", at("hidden"), {n, taken}, "hidden");
      return;
    }
    const std::string change = add("Sub", at("change"), {hidden_, n}, "change");
    const std::string kept = add("Mul", at("kept"), {z, change}, "product");
    hidden_ = add("Add", at("hidden"), {n, kept}, "hidden");
  }

  /// Joins the parts of both directions as the layer's output.
  void finish(std::size_t output, const std::vector<std::string>& parts, std::int64_t axis) {
    if (!layer_.has_output(output)) return;
    nodes_.push_back({.name = graph_.unused_node_name(base_ + ".output_" + std::to_string(output)),
                      .op = parts.size() == 1 ? "Identity" : "Concat",
                      .version = layer_.version,
                      .inputs = parts,
                      .outputs = {layer_.outputs[output]}});
    if (parts.size() > 1) nodes_.back().attributes["axis"] = axis;
  }

  Graph& graph_;
  const Node& layer_;
  std::string base_, cell_;
  std::int64_t steps_, units_ = 0, inputs_ = 0, step_ = 0;
  std::vector<Node> nodes_;
  std::string sequence_, hidden_, state_;  // of the current direction
};

/// Returns the number of steps if the layer can be unrolled, else 0.
std::int64_t steps_of(const Graph& graph, const Node& node) {
  if (gate_places(node).empty() || node.inputs.size() < 3 || node.version < kLeastVersion || !is_plain(node))
    return 0;
  const auto shape = graph.shape_of(node.inputs[0]);
  const Value* known = graph.find(node.inputs[0]);
  if (!shape || shape->size() != 3 || !known || known->type != ElementType::kFloat) return 0;
  const std::int64_t steps = shape->front().size;
  return steps > kMostSteps ? 0 : std::max<std::int64_t>(steps, 0);
}

}  // namespace

Graph unroll_recurrent(Graph graph) {
  graph = infer_shapes(sorted(std::move(graph)));
  std::vector<Node> nodes;
  std::set<std::string> bases;
  const std::vector<Node> before = graph.nodes;
  for (const Node& node : before) {
    const std::int64_t steps = steps_of(graph, node);
    std::string base = node.name.empty() ? node.op : node.name;
    for (int i = 1; steps > 0 && !bases.insert(base).second; ++i) base = node.name + "_" + std::to_string(i);
    const auto weights = steps > 0 ? direction_weights(graph, node, base) : std::nullopt;
    if (!weights) {
      nodes.push_back(node);
      continue;
    }
    Unroller unroller(graph, node, steps, std::move(base));
    unroller.run(*weights);
    for (Node& made : unroller.take()) nodes.push_back(std::move(made));
  }
  graph.nodes = std::move(nodes);
  drop_unused(graph);
  return infer_shapes(sorted(std::move(graph)));
}

}  // namespace crumb::graph
