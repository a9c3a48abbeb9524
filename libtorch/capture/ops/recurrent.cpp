// LSTM, GRU and RNN of any number of layers, one or two directions.
//
// The parameters stay as they are in the module, one initializer each; Split and Concat bring their gates
// into ONNX's order (LSTM: i f g o to i o f c; GRU: r z n to z r h), so that they train under their names.
#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

struct Kind {
  const char* op;
  Ints order;  ///< for each of ONNX's gates, the index of LibTorch's gate
  std::string activation;
};

/// [gates * hidden, ...] in ONNX's order.
std::string reordered(Op& op, const std::string& rows, const Kind& kind, std::int64_t hidden) {
  if (kind.order.size() == 1) return rows;
  const Names parts = op.net.add_many("Split", {rows, op.net.ints(Ints(kind.order.size(), hidden))},
                                      {{"axis", std::int64_t{0}}}, kind.order.size());
  Names placed;
  for (const std::int64_t gate : kind.order) placed.push_back(parts[static_cast<std::size_t>(gate)]);
  return op.net.add("Concat", placed, {{"axis", std::int64_t{0}}});
}

std::string joined(Op& op, const Names& parts, std::int64_t axis) {
  return parts.size() == 1 ? parts[0] : op.net.add("Concat", parts, {{"axis", axis}});
}

/// The parameters of one layer, of each direction: w_ih, w_hh and, where there are some, b_ih, b_hh.
struct Layer {
  Names w, r, b;  ///< with an axis for the directions in front
};

Layer layer_of(Op& op, const Names& parameters, std::size_t first, std::size_t directions, bool biased,
               const Kind& kind, std::int64_t hidden) {
  Layer layer;
  const std::size_t each = biased ? 4 : 2;
  for (std::size_t d = 0; d < directions; ++d) {
    const std::string* p = &parameters[first + d * each];
    const auto front = [&](const std::string& value) { return op.net.unsqueeze(value, {0}); };
    layer.w.push_back(front(reordered(op, p[0], kind, hidden)));
    layer.r.push_back(front(reordered(op, p[1], kind, hidden)));
    if (!biased) continue;
    layer.b.push_back(
        front(joined(op, {reordered(op, p[2], kind, hidden), reordered(op, p[3], kind, hidden)}, 0)));
  }
  return layer;
}

/// [time, directions, batch, hidden] to [time, batch, directions * hidden].
std::string sequence_of(Op& op, const std::string& y, std::size_t directions, std::int64_t hidden) {
  if (directions == 1) return op.net.squeeze(y, {1});
  return op.net.add("Reshape", {op.net.transpose(y, {0, 2, 1, 3}), op.net.ints({0, 0, 2 * hidden})});
}

void recurrent(Op& op, const Kind& kind, const Names& states) {
  Network& net = op.net;
  if (!op.has("input")) op.fail("packed sequences");
  const bool biased = op.flag("has_biases"), batch_first = op.flag("batch_first");
  const std::size_t directions = op.flag("bidirectional") ? 2 : 1;
  const auto layers = static_cast<std::size_t>(op.integer("num_layers"));
  const Names parameters = op.tensors("params");
  const std::size_t each = biased ? 4 : 2;
  if (parameters.size() != layers * directions * each) op.fail("proj_size, or weights of an unknown kind");
  const std::int64_t hidden = op.seen_all("params").at(1).sizes.at(1).first;
  if (op.batch_statistics && op.flag("train") && op.real("dropout") > 0)
    op.fail("dropout between its layers");

  std::string x = op.tensor("input");
  if (op.seen("input").rank() != 3) op.fail("an input without a batch");
  if (batch_first) x = net.transpose(x, {1, 0, 2});
  std::vector<Names> finals(states.size());
  for (std::size_t i = 0; i < layers; ++i) {
    const Layer layer = layer_of(op, parameters, i * directions * each, directions, biased, kind, hidden);
    Names inputs = {x, joined(op, layer.w, 0), joined(op, layer.r, 0), biased ? joined(op, layer.b, 0) : "",
                    ""};
    for (const std::string& state : states) {
      if (state.empty()) continue;  // zeros, which are left out
      const auto begin = static_cast<std::int64_t>(i * directions),
                 end = static_cast<std::int64_t>(directions) + begin;
      inputs.push_back(layers == 1 ? state : net.slice(state, 0, begin, end));
    }
    while (inputs.back().empty()) inputs.pop_back();
    Attributes attributes = {{"hidden_size", hidden}};
    if (directions == 2) attributes["direction"] = std::string("bidirectional");
    if (std::string(kind.op) == "GRU") attributes["linear_before_reset"] = std::int64_t{1};
    if (!kind.activation.empty()) {
      attributes["activations"] = std::vector<std::string>(directions, kind.activation);
    }
    const Names made = net.add_many(kind.op, inputs, attributes, 1 + states.size());
    x = sequence_of(op, made[0], directions, hidden);
    for (std::size_t s = 0; s < states.size(); ++s) finals[s].push_back(made[s + 1]);
  }
  op.set(batch_first ? net.transpose(x, {1, 0, 2}) : x);
  for (std::size_t s = 0; s < states.size(); ++s) {
    if (op.wants(s + 1)) op.set(joined(op, finals[s], 0), s + 1);
  }
}

/// The states at the beginning; "" for each where all are zeros.
Names states_of(Op& op) {
  if (op.is_zeros("hx", 0) && op.is_zeros("hx", 1)) return {"", ""};
  return op.tensors("hx");
}
Names state_of(Op& op) { return {op.is_zeros("hx", 0) ? "" : op.tensor("hx")}; }

void lstm(Op& op) {
  if (!op.has("input")) op.fail("packed sequences");
  recurrent(op, {"LSTM", {0, 3, 1, 2}, ""}, states_of(op));
}
void gru(Op& op) {
  if (!op.has("input")) op.fail("packed sequences");
  recurrent(op, {"GRU", {1, 0, 2}, ""}, state_of(op));
}
void rnn(Op& op, const char* activation) {
  if (!op.has("input")) op.fail("packed sequences");
  recurrent(op, {"RNN", {0}, activation}, state_of(op));
}
void rnn_tanh(Op& op) { rnn(op, "Tanh"); }
void rnn_relu(Op& op) { rnn(op, "Relu"); }

const ConversionRow kRecurrentRows[] = {
    {"aten::lstm", lstm},
    {"aten::gru", gru},
    {"aten::rnn_tanh", rnn_tanh},
    {"aten::rnn_relu", rnn_relu},
};

}  // namespace

std::span<const ConversionRow> recurrent_conversions() { return kRecurrentRows; }

}  // namespace crumb::libtorch
