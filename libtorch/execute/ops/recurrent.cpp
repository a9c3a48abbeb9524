// LSTM, GRU, RNN.
//
// Where LibTorch's own recurrent layers mean the same they run; they are faster. Otherwise a loop over time,
// with the inputs' share of the gates computed for all steps at once.
#include <ATen/ATen.h>

#include <functional>
#include <limits>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/recurrent_activation.h"
#include "libtorch/execute/ops/widen.h"

namespace crumb::libtorch {
namespace {

using Tensors = std::vector<at::Tensor>;

/// The inputs that the three have in common, time first.
struct Sequence {
  at::Tensor x;        ///< [time, batch, input]
  at::Tensor w, r;     ///< [directions, gates * hidden, input or hidden]
  at::Tensor b;        ///< [directions, 2 * gates * hidden]; not defined where left out
  at::Tensor lengths;  ///< [batch], int64; not defined where all are as long as x
  at::Tensor h;        ///< [directions, batch, hidden]
  std::int64_t gates = 0, time = 0, batch = 0, hidden = 0, directions = 0;
  bool reverse = false;  ///< of one direction
  bool batch_first = false;
};

void expect(const Call& call, std::size_t input, const char* name, const at::Tensor& tensor,
            std::initializer_list<std::int64_t> shape) {
  if (tensor.sizes() == at::IntArrayRef(shape)) return;
  call.fail(std::string(name) + " is " + text_of(call.in(input)) + ", expected " +
            graph::text_of(std::vector<std::int64_t>(shape)));
}

at::Tensor state_of(const Call& call, std::size_t input, const char* name, const Sequence& s) {
  if (!call.has(input)) return at::zeros({s.directions, s.batch, s.hidden}, s.x.options());
  const at::Tensor given = widened(call.tensor(input));
  if (s.batch_first) {
    expect(call, input, name, given, {s.batch, s.directions, s.hidden});
    return given.transpose(0, 1).contiguous();
  }
  expect(call, input, name, given, {s.directions, s.batch, s.hidden});
  return given;
}

Sequence sequence_of(const Call& call, std::int64_t gates) {
  Sequence s;
  s.gates = gates;
  s.x = widened(call.tensor(0));
  s.w = widened(call.tensor(1));
  s.r = widened(call.tensor(2));
  s.batch_first = call.int_or("layout", 0) != 0;
  if (s.x.dim() != 3 || s.w.dim() != 3 || s.r.dim() != 3) {
    call.fail("expected X, W and R of 3 axes, found " + text_of(call.in(0)) + ", " + text_of(call.in(1)) +
              ", " + text_of(call.in(2)));
  }
  if (s.batch_first) s.x = s.x.transpose(0, 1);
  s.time = s.x.size(0);
  s.batch = s.x.size(1);
  s.hidden = s.r.size(2);
  const std::string direction = call.text_or("direction", "forward");
  const bool both = direction == "bidirectional";
  s.reverse = direction == "reverse";
  if (!both && !s.reverse && direction != "forward" &&
      direction != "foward") {  // GRU-1's default is misspelt
    call.fail("direction is \"" + direction + "\", expected forward, reverse or bidirectional");
  }
  s.directions = both ? 2 : 1;
  const std::int64_t stated = call.int_or("hidden_size", s.hidden);
  if (stated != s.hidden) {
    call.fail("hidden_size is " + std::to_string(stated) + ", R is " + text_of(call.in(2)));
  }
  expect(call, 1, "W", s.w, {s.directions, gates * s.hidden, s.x.size(2)});
  expect(call, 2, "R", s.r, {s.directions, gates * s.hidden, s.hidden});
  if (call.has(3)) {
    s.b = widened(call.tensor(3));
    expect(call, 3, "B", s.b, {s.directions, 2 * gates * s.hidden});
  }
  if (call.has(4)) {
    const at::Tensor lengths = call.tensor(4).to(at::kLong);
    expect(call, 4, "sequence_lens", lengths, {s.batch});
    if (s.batch > 0) {
      const auto least = lengths.min().item<std::int64_t>(), most = lengths.max().item<std::int64_t>();
      if (least < 0 || most > s.time) {
        call.fail("sequence_lens holds " + std::to_string(least < 0 ? least : most) + ", X has " +
                  std::to_string(s.time) + " steps");
      }
      if (least < s.time) s.lengths = lengths;
    }
  }
  s.h = state_of(call, 5, "initial_h", s);
  return s;
}

/// The steps of each sequence in reverse order; what follows the sequence stays where it is.
at::Tensor reversed(const Sequence& s, const at::Tensor& x) {
  if (!s.lengths.defined()) return x.flip({0});
  const at::Tensor steps = at::arange(s.time, s.lengths.options()).unsqueeze(1);
  const at::Tensor lengths = s.lengths.unsqueeze(0);
  const at::Tensor from = at::where(steps < lengths, lengths - 1 - steps, steps);
  return x.gather(0, from.unsqueeze(2).expand_as(x));
}

/// One step: the inputs' share of the gates [batch, gates * hidden] and the state (its first part is the
/// output).
using Step = std::function<Tensors(const at::Tensor& gates, const Tensors& state)>;

struct Ran {
  at::Tensor y;  ///< [time, batch, hidden]
  Tensors state;
};

Ran run_direction(const Sequence& s, std::int64_t direction, const at::Tensor& bias, Tensors state,
                  const Step& step) {
  const bool backwards = direction == 1 || s.reverse;
  const at::Tensor x = backwards ? reversed(s, s.x) : s.x;
  at::Tensor gates = at::matmul(x, s.w[direction].t());
  if (bias.defined()) gates = gates + bias;
  Tensors outputs;
  for (std::int64_t t = 0; t < s.time; ++t) {
    Tensors next = step(gates[t], state);
    if (s.lengths.defined()) {
      const at::Tensor going = (s.lengths > t).unsqueeze(1);
      outputs.push_back(at::where(going, next[0], at::zeros_like(next[0])));
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = at::where(going, next[i], state[i]);
    } else {
      outputs.push_back(next[0]);
    }
    state = std::move(next);
  }
  at::Tensor y = outputs.empty() ? at::zeros({0, s.batch, s.hidden}, s.x.options()) : at::stack(outputs);
  return {backwards ? reversed(s, y) : y, state};
}

/// y [time, directions, batch, hidden] and states [directions, batch, hidden] as the node's outputs.
Outputs outputs_of(const Call& call, const Sequence& s, const at::Tensor& y, const Tensors& states) {
  Outputs outputs = {wrapped(s.batch_first ? y.permute({2, 0, 1, 3}) : y, call.type(0))};
  for (const at::Tensor& state : states) {
    outputs.push_back(wrapped(s.batch_first ? state.transpose(0, 1) : state, call.type(0)));
  }
  return outputs;
}

/// Runs every direction; `make` gives the step and the bias of one.
template <class Make>
Outputs run_all(const Call& call, const Sequence& s, const Tensors& initial, const Make& make) {
  Tensors ys;
  std::vector<Tensors> states(initial.size());
  for (std::int64_t d = 0; d < s.directions; ++d) {
    Tensors state;
    for (const at::Tensor& all : initial) state.push_back(all[d]);
    auto [step, bias] = make(d);
    Ran ran = run_direction(s, d, bias, state, step);
    ys.push_back(ran.y);
    for (std::size_t i = 0; i < states.size(); ++i) states[i].push_back(ran.state[i]);
  }
  Tensors finals;
  for (const Tensors& state : states) finals.push_back(at::stack(state));
  return outputs_of(call, s, at::stack(ys, 1), finals);
}

/// Both halves of the bias of one direction, [gates * hidden] each; undefined where the node has no bias.
std::pair<at::Tensor, at::Tensor> biases_of(const Sequence& s, std::int64_t direction) {
  if (!s.b.defined()) return {};
  const at::Tensor b = s.b[direction];
  return {b.slice(0, 0, s.gates * s.hidden), b.slice(0, s.gates * s.hidden)};
}

at::Tensor summed_bias(const Sequence& s, std::int64_t direction) {
  const auto [input, hidden] = biases_of(s, direction);
  return input.defined() ? input + hidden : at::Tensor();
}

/// Bounds what goes into the gates' activations.
std::function<at::Tensor(const at::Tensor&)> clip_of(const Call& call) {
  if (!call.node().has("clip")) return [](const at::Tensor& x) { return x; };
  const double most = call.float_or("clip", 0);
  return [most](const at::Tensor& x) { return x.clamp(-most, most); };
}

bool are(const std::vector<RecurrentActivation>& found, const std::vector<std::string>& usual) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].name != usual[i % usual.size()]) return false;
  }
  return true;
}

/// Whether LibTorch's layers can run the sequences: every step of every sequence, one way or both.
bool suits_library(const Call& call, const Sequence& s) {
  return !s.lengths.defined() && !call.node().has("clip") && s.x.numel() > 0 && s.hidden > 0;
}

/// The rows of the gates in LibTorch's order.
at::Tensor reordered(const at::Tensor& rows, const std::vector<std::int64_t>& order, std::int64_t hidden) {
  if (order.size() == 1) return rows;
  Tensors parts;
  for (const std::int64_t gate : order) parts.push_back(rows.slice(0, gate * hidden, (gate + 1) * hidden));
  return at::cat(parts);
}

Tensors library_parameters(const Sequence& s, const std::vector<std::int64_t>& order) {
  Tensors parameters;
  for (std::int64_t d = 0; d < s.directions; ++d) {
    parameters.push_back(reordered(s.w[d], order, s.hidden));
    parameters.push_back(reordered(s.r[d], order, s.hidden));
    if (!s.b.defined()) continue;
    const auto [input, hidden] = biases_of(s, d);
    parameters.push_back(reordered(input, order, s.hidden));
    parameters.push_back(reordered(hidden, order, s.hidden));
  }
  return parameters;
}

/// LibTorch's layers run forward or both ways: a reverse one gets its input reversed.
at::Tensor library_input(const Sequence& s) { return s.reverse ? s.x.flip({0}) : s.x; }

at::Tensor library_output(const Sequence& s, const at::Tensor& y) {
  const at::Tensor split = y.reshape({s.time, s.batch, s.directions, s.hidden}).transpose(1, 2);
  return s.reverse ? split.flip({0}) : split;
}

Outputs lstm(const Call& call) {
  const Sequence s = sequence_of(call, 4);
  const at::Tensor c = state_of(call, 6, "initial_c", s);
  const auto functions =
      recurrent_activations(call, {"sigmoid", "tanh", "tanh"}, static_cast<std::size_t>(s.directions));
  const bool coupled = call.int_or("input_forget", 0) != 0;
  at::Tensor peepholes;
  if (call.has(7)) {
    peepholes = widened(call.tensor(7));
    expect(call, 7, "P", peepholes, {s.directions, 3 * s.hidden});
  }
  if (suits_library(call, s) && !coupled && !peepholes.defined() &&
      are(functions, {"sigmoid", "tanh", "tanh"})) {
    auto [y, h, cell] = at::lstm(library_input(s), {s.h, c}, library_parameters(s, {0, 2, 3, 1}),
                                 s.b.defined(), 1, 0, false, s.directions == 2, false);
    return outputs_of(call, s, library_output(s, y), {h, cell});
  }
  const auto clip = clip_of(call);
  return run_all(call, s, {s.h, c}, [&](std::int64_t d) {
    const auto* fgh = &functions[static_cast<std::size_t>(3 * d)];
    const Tensors p = peepholes.defined() ? peepholes[d].chunk(3) : Tensors{};
    const Step step = [&, fgh, p, r = s.r[d].t()](const at::Tensor& from_input, const Tensors& state) {
      const Tensors iofc = (from_input + at::matmul(state[0], r)).chunk(4, 1);
      const auto peep = [&](std::size_t gate, const at::Tensor& cell) {
        return p.empty() ? iofc[gate] : iofc[gate] + p[gate] * cell;
      };
      const at::Tensor i = fgh[0](clip(peep(0, state[1])));
      const at::Tensor f = coupled ? 1 - i : fgh[0](clip(peep(2, state[1])));
      const at::Tensor cell = f * state[1] + i * fgh[1](clip(iofc[3]));
      const at::Tensor o = fgh[0](clip(peep(1, cell)));
      // "The input of activations" are the gates' sums: onnxruntime too does not clip the cell.
      return Tensors{o * fgh[2](cell), cell};
    };
    return std::pair(step, summed_bias(s, d));
  });
}

Outputs gru(const Call& call) {
  const Sequence s = sequence_of(call, 3);
  const auto functions =
      recurrent_activations(call, {"sigmoid", "tanh"}, static_cast<std::size_t>(s.directions));
  const bool linear_first = call.int_or("linear_before_reset", 0) != 0;
  if (suits_library(call, s) && linear_first && are(functions, {"sigmoid", "tanh"})) {
    auto [y, h] = at::gru(library_input(s), s.h, library_parameters(s, {1, 0, 2}), s.b.defined(), 1, 0, false,
                          s.directions == 2, false);
    return outputs_of(call, s, library_output(s, y), {h});
  }
  const auto clip = clip_of(call);
  return run_all(call, s, {s.h}, [&](std::int64_t d) {
    const auto* fg = &functions[static_cast<std::size_t>(2 * d)];
    const auto [input_bias, hidden_bias] = biases_of(s, d);
    const std::int64_t two = 2 * s.hidden;
    const at::Tensor r = s.r[d].t();  // [hidden, z r h]
    at::Tensor bias = input_bias, last_bias;
    if (input_bias.defined()) {
      // The reset gate multiplies the hidden gate's recurrent bias where it comes after the linear map.
      last_bias = linear_first ? hidden_bias.slice(0, two) : at::Tensor();
      bias = linear_first ? at::cat({input_bias.slice(0, 0, two) + hidden_bias.slice(0, 0, two),
                                     input_bias.slice(0, two)})
                          : input_bias + hidden_bias;
    }
    const Step step = [=, gate_r = r.slice(1, 0, two), last_r = r.slice(1, two)](const at::Tensor& from_input,
                                                                                 const Tensors& state) {
      const at::Tensor& h = state[0];
      const Tensors zr = (from_input.slice(1, 0, two) + at::matmul(h, gate_r)).chunk(2, 1);
      const at::Tensor z = fg[0](clip(zr[0])), reset = fg[0](clip(zr[1]));
      at::Tensor recurrent = at::matmul(linear_first ? h : reset * h, last_r);
      if (linear_first) recurrent = reset * (last_bias.defined() ? recurrent + last_bias : recurrent);
      const at::Tensor fresh = fg[1](clip(from_input.slice(1, two) + recurrent));
      return Tensors{(1 - z) * fresh + z * h};
    };
    return std::pair(step, bias);
  });
}

Outputs rnn(const Call& call) {
  const Sequence s = sequence_of(call, 1);
  const auto functions = recurrent_activations(call, {"tanh"}, static_cast<std::size_t>(s.directions));
  if (suits_library(call, s) && (are(functions, {"tanh"}) || are(functions, {"relu"}))) {
    const Tensors parameters = library_parameters(s, {0});
    const bool both = s.directions == 2, biased = s.b.defined();
    const at::Tensor x = library_input(s);
    auto [y, h] = functions[0].name == "tanh"
                      ? at::rnn_tanh(x, s.h, parameters, biased, 1, 0, false, both, false)
                      : at::rnn_relu(x, s.h, parameters, biased, 1, 0, false, both, false);
    return outputs_of(call, s, library_output(s, y), {h});
  }
  const auto clip = clip_of(call);
  return run_all(call, s, {s.h}, [&](std::int64_t d) {
    const auto* f = &functions[static_cast<std::size_t>(d)];
    const Step step = [=, r = s.r[d].t()](const at::Tensor& from_input, const Tensors& state) {
      return Tensors{(*f)(clip(from_input + at::matmul(state[0], r)))};
    };
    return std::pair(step, summed_bias(s, d));
  });
}

constexpr OperatorRow kRecurrentRows[] = {{"LSTM", lstm}, {"GRU", gru}, {"RNN", rnn}};

}  // namespace

std::span<const OperatorRow> recurrent_operators() { return kRecurrentRows; }

}  // namespace crumb::libtorch
