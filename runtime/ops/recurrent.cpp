// LSTM, GRU, RNN.
//
// In the order in which it is computed: the inputs' products, then the biases (both halves added up), then
// the products of the state, then peepholes; clipped; then the activations. Products are those of
// exact/products.h. Lowering has the inputs' products computed by nodes in front (lower/domain.h): these take
// codes as they are.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"
#include "runtime/lower/domain.h"
#include "runtime/ops/families.h"
#include "runtime/ops/held_matrix.h"
#include "runtime/ops/movement.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kStepsOfFloats = 8;                  // for which decoding R pays
constexpr std::size_t kMostFloats = std::size_t{1} << 19;  // of R, that caches hold

/// An activation of a gate, with its parameters.
struct Activation {
  enum class Kind : std::uint8_t {
    kSigmoid,
    kTanh,
    kRelu,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus,
  };
  Kind kind = Kind::kSigmoid;
  float alpha = 0, beta = 0;

  void operator()(std::span<float> x) const {
    const auto each = [&](const auto& f) { std::ranges::transform(x, x.begin(), f); };
    switch (kind) {
      case Kind::kSigmoid: return exact::apply(exact::Function::kSigmoid, x, x);
      case Kind::kTanh: return exact::apply(exact::Function::kTanh, x, x);
      case Kind::kRelu: return each([](float v) { return v < 0 ? 0.0F : v; });
      case Kind::kAffine: return each([&](float v) { return v * alpha + beta; });
      case Kind::kLeakyRelu: return each([&](float v) { return v < 0 ? v * alpha : v; });
      case Kind::kThresholdedRelu: return each([&](float v) { return v >= alpha ? v : 0.0F; });
      case Kind::kScaledTanh: return each([&](float v) { return exact::tanh_of(v * beta) * alpha; });
      case Kind::kHardSigmoid: return each([&](float v) { return std::clamp(v * alpha + beta, 0.0F, 1.0F); });
      case Kind::kElu: return each([&](float v) { return v > 0 ? v : alpha * (exact::exp_of(v) - 1); });
      case Kind::kSoftsign: return each([](float v) { return v / (std::fabs(v) + 1); });
      case Kind::kSoftplus:
        return each([](float v) {
          float sum = 1 + exact::exp_of(v);
          exact::apply(exact::Function::kLog, {&sum, 1}, {&sum, 1});
          return v > 20 ? v : sum;
        });
    }
  }
};

struct ActivationRow {
  const char* name;
  Activation::Kind kind;
  bool has_alpha, has_beta;
  float alpha, beta;
};
constexpr ActivationRow kActivationRows[] = {
    {"sigmoid", Activation::Kind::kSigmoid, false, false, 0, 0},
    {"tanh", Activation::Kind::kTanh, false, false, 0, 0},
    {"relu", Activation::Kind::kRelu, false, false, 0, 0},
    {"affine", Activation::Kind::kAffine, true, true, 1, 0},
    {"leakyrelu", Activation::Kind::kLeakyRelu, true, false, 0.01F, 0},
    {"thresholdedrelu", Activation::Kind::kThresholdedRelu, true, false, 1, 0},
    {"scaledtanh", Activation::Kind::kScaledTanh, true, true, 1, 1},
    {"hardsigmoid", Activation::Kind::kHardSigmoid, true, true, 0.2F, 0.5F},
    {"elu", Activation::Kind::kElu, true, false, 1, 0},
    {"softsign", Activation::Kind::kSoftsign, false, false, 0, 0},
    {"softplus", Activation::Kind::kSoftplus, false, false, 0, 0},
};

/// The functions of each direction: as the node says, else the usual ones. A list of parameters has a number
/// for each function that takes one, in their order, or one for every function.
std::vector<Activation> activations_of(const NodeFacts& facts, const std::vector<std::string>& usual,
                                       std::size_t directions) {
  std::vector<std::string> names = facts.node.texts_or("activations", {});
  if (names.empty()) {
    for (std::size_t i = 0; i < directions; ++i) names.insert(names.end(), usual.begin(), usual.end());
  }
  const std::size_t wanted = usual.size() * directions;
  if (names.size() > wanted && usual.size() == 1)
    names.resize(wanted);  // RNN's default names two whatever the direction
  if (names.size() != wanted)
    facts.fail("activations has " + std::to_string(names.size()) + " entries, expected " +
               std::to_string(wanted));
  const std::vector<float> alphas = facts.node.floats_or("activation_alpha", {}),
                           betas = facts.node.floats_or("activation_beta", {});
  std::size_t next_alpha = 0, next_beta = 0;
  const auto take = [&](const std::vector<float>& values, std::size_t& next, bool has, float otherwise) {
    const bool there = (has || values.size() == wanted) && next < values.size();
    const float value = there ? values[next++] : otherwise;
    return has ? value : 0;
  };
  std::vector<Activation> found;
  for (std::string name : names) {
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const auto* row =
        std::ranges::find_if(kActivationRows, [&](const ActivationRow& r) { return name == r.name; });
    if (row == std::end(kActivationRows)) facts.fail("the activation function \"" + name + "\" is not known");
    found.push_back({.kind = row->kind,
                     .alpha = take(alphas, next_alpha, row->has_alpha, row->alpha),
                     .beta = take(betas, next_beta, row->has_beta, row->beta)});
  }
  return found;
}

/// What LSTM, GRU and RNN have in common.
struct Cell {
  std::size_t gates = 1;  ///< rows of W and R, in hidden sizes
  std::size_t states = 1;
  std::vector<Activation> functions;  ///< of each direction
  bool both = false, reverse = false, batch_first = false;
  bool coupled = false, linear_first = false;
  float most = 0;  ///< of what goes into the gates' activations; 0: no bound
  std::optional<std::int64_t> hidden;
  bool takes_products = false;             ///< inputs 0 and 1 are the products of each direction
  std::shared_ptr<const HeldMatrix> held;  ///< R; null where it is computed

  std::size_t directions() const { return both ? 2 : 1; }
  std::size_t own_functions() const { return functions.size() / directions(); }
};

Cell cell_of(const NodeFacts& facts, std::size_t gates, std::size_t states,
             const std::vector<std::string>& usual) {
  Cell cell{.gates = gates, .states = states};
  const std::string direction = facts.text_or("direction", "forward");
  cell.both = direction == "bidirectional";
  cell.reverse = direction == "reverse";
  if (!cell.both && !cell.reverse && direction != "forward" &&
      direction != "foward")  // GRU-1's default is misspelt
    facts.fail("direction is \"" + direction + "\", expected forward, reverse or bidirectional");
  cell.functions = activations_of(facts, usual, cell.directions());
  cell.batch_first = facts.int_or("layout", 0) != 0;
  cell.coupled = facts.int_or("input_forget", 0) != 0;
  cell.linear_first = facts.int_or("linear_before_reset", 0) != 0;
  cell.most = facts.float_or("clip", 0);
  if (facts.node.has("hidden_size")) cell.hidden = facts.int_or("hidden_size", 0);
  cell.takes_products = facts.node.domain == kRuntimeDomain;
  cell.held = HeldMatrix::of(facts, 2, MatrixOrder::kOutputsTerms);
  return cell;
}

/// One run: sizes, and where things lie.
struct CellSizes {
  std::size_t time = 0, batch = 0, inputs = 0, hidden = 0;
};

void expect(const Call& call, std::size_t i, const char* name, const Ints& shape) {
  if (call.in(i).shape() != shape)
    call.fail(std::string(name) + " is " + text_of(call.in(i)) + ", expected " + graph::text_of(shape));
}

class Recurrence {
 public:
  Recurrence(const Cell& cell, Call& call) : cell_(cell), call_(call) {
    const Array& x = call.in(0);
    Ints r = cell.held ? cell.held->shape() : call.in(2).shape();
    if (r.size() == 2) r.insert(r.begin(), 1);  // as codes are held
    if (x.rank() != 3 || (!cell.takes_products && call.in(1).rank() != 3) || r.size() != 3)
      call.fail("expected X, W and R of 3 axes, found " + text_of(x) +
                (cell.takes_products ? "" : ", " + text_of(call.in(1))) + ", " + graph::text_of(r));
    const std::int64_t time = x.dim(cell.batch_first ? 1 : 0), batch = x.dim(cell.batch_first ? 0 : 1);
    const std::int64_t hidden = r[2], inputs = x.dim(2);
    const auto gates = static_cast<std::int64_t>(cell.gates),
               directions = static_cast<std::int64_t>(cell.directions());
    if (cell.hidden.value_or(hidden) != hidden)
      call.fail("hidden_size is " + std::to_string(*cell.hidden) + ", R is " + graph::text_of(r));
    if (!cell.takes_products) expect(call, 1, "W", {directions, gates * hidden, inputs});
    for (std::size_t d = 0; cell.takes_products && d < cell.directions(); ++d)
      expect(call, d, "X W", {x.dim(0), x.dim(1), gates * hidden});
    if (r != Ints{directions, gates * hidden, hidden})
      call.fail("R is " + graph::text_of(r) + ", expected " +
                graph::text_of(Ints{directions, gates * hidden, hidden}));
    if (call.has(3)) expect(call, 3, "B", {directions, 2 * gates * hidden});
    s_ = {static_cast<std::size_t>(time), static_cast<std::size_t>(batch), static_cast<std::size_t>(inputs),
          static_cast<std::size_t>(hidden)};
    lengths_.assign(s_.batch, time);
    if (call.has(4)) {
      expect(call, 4, "sequence_lens", {batch});
      lengths_ = call.ints(4);
      for (const std::int64_t length : lengths_) {
        if (length < 0 || length > time)
          call.fail("sequence_lens holds " + std::to_string(length) + ", X has " + std::to_string(time) +
                    " steps");
      }
    }
    if (call.has(7)) expect(call, 7, "P", {directions, 3 * hidden});
    state_shape_ = cell.batch_first ? Ints{batch, directions, hidden} : Ints{directions, batch, hidden};
    call.spend({s_.time, s_.batch, cell.directions(), cell.gates * s_.hidden, s_.inputs + s_.hidden});
    y_shape_ =
        cell.batch_first ? Ints{batch, time, directions, hidden} : Ints{time, directions, batch, hidden};
  }

  void run() {
    const ElementType type = call_.in(0).type();
    Array y(type, y_shape_);
    std::ranges::fill(y.writable<float>(), 0.0F);
    std::vector<Array> last;
    for (std::size_t i = 0; i < cell_.states; ++i) last.emplace_back(type, state_shape_);
    for (std::size_t d = 0; d < cell_.directions(); ++d) run_direction(d, y, last);
    call_.give(0, std::move(y));
    for (std::size_t i = 0; i < last.size() && i + 1 < call_.outputs(); ++i)
      call_.give(i + 1, std::move(last[i]));
  }

 private:
  std::size_t width() const { return cell_.gates * s_.hidden; }
  /// Offsets of a row of X, of Y, of a state.
  std::size_t x_row(std::size_t t, std::size_t b) const {
    return cell_.batch_first ? b * s_.time + t : t * s_.batch + b;
  }
  std::size_t y_row(std::size_t t, std::size_t d, std::size_t b) const {
    const std::size_t directions = cell_.directions();
    return cell_.batch_first ? (b * s_.time + t) * directions + d : (t * directions + d) * s_.batch + b;
  }
  std::size_t state_row(std::size_t d, std::size_t b) const {
    return cell_.batch_first ? b * cell_.directions() + d : d * s_.batch + b;
  }

  std::vector<float> initial(std::size_t input, const char* name, std::size_t d) const {
    std::vector<float> state(s_.batch * s_.hidden, 0.0F);
    if (!call_.has(input)) return state;
    expect(call_, input, name, state_shape_);
    const auto given = call_.floats(input);
    for (std::size_t b = 0; b < s_.batch; ++b)
      std::copy_n(given.data() + state_row(d, b) * s_.hidden, s_.hidden, state.data() + b * s_.hidden);
    return state;
  }

  void multiply(std::size_t rows, std::size_t columns, std::size_t terms, const float* x, const float* w,
                float* y) const {
    if (rows * columns == 0) return;
    exact::multiply({.rows = rows,
                     .columns = columns,
                     .terms = terms,
                     .x = x,
                     .x_stride = terms,
                     .w = w,
                     .w_stride = terms,
                     .y = y,
                     .y_row = columns},
                    call_.threads());
  }

  /// R as floats for this run, where so many steps take it that codes would take longer, and a cache holds
  /// it; else undefined.
  Array decoded_state(std::size_t d) const {
    const std::size_t size = width() * s_.hidden;
    if (!cell_.held || !cell_.held->is_packed() || s_.time < kStepsOfFloats || size > kMostFloats) return {};
    Array made(ElementType::kFloat, {static_cast<std::int64_t>(size)});
    cell_.held->decode(d, made.writable<float>());
    return made;
  }

  /// By R: `rows` of the hidden state to the gates' products.
  void multiply_state(std::size_t d, std::size_t rows, const float* h, const float* r, float* y) const {
    if (r) return multiply(rows, width(), s_.hidden, h, r, y);
    if (rows * width() == 0) return;
    cell_.held->multiply({.rows = rows, .x = h, .x_stride = s_.hidden, .y = y, .y_row = width()}, d,
                         call_.threads());
  }

  void run_direction(std::size_t d, Array& y, std::vector<Array>& last) {
    const std::size_t n = s_.hidden;
    const bool backwards = cell_.reverse || d == 1;
    const Array decoded = decoded_state(d);
    const float* const r = decoded.defined() ? decoded.values<float>().data()
                           : cell_.held      ? nullptr
                                             : call_.floats(2).data() + d * width() * n;
    const float* const b = call_.has(3) ? call_.floats(3).data() + d * 2 * width() : nullptr;
    std::vector<float> inputs(s_.time * s_.batch * width()), products(s_.batch * width());
    if (cell_.takes_products) {
      std::ranges::copy(call_.floats(d), inputs.begin());
    } else {
      const float* const w = call_.floats(1).data() + d * width() * s_.inputs;
      multiply(s_.time * s_.batch, width(), s_.inputs, call_.floats(0).data(), w, inputs.data());
    }
    for (std::size_t row = 0; b && row < s_.time * s_.batch; ++row) {
      for (std::size_t i = 0; i < width(); ++i) {
        // The reset gate multiplies the hidden gate's own bias where it comes after the linear map.
        const bool later = cell_.gates == 3 && cell_.linear_first && i >= 2 * n;
        inputs[row * width() + i] += later ? b[i] : b[i] + b[width() + i];
      }
    }
    std::vector<std::vector<float>> state{initial(5, "initial_h", d)};
    if (cell_.states == 2) state.push_back(initial(6, "initial_c", d));
    const auto ys = y.writable<float>();
    for (std::size_t step = 0; step < s_.time; ++step) {
      multiply_state(d, s_.batch, state[0].data(), r, products.data());
      for (std::size_t i = 0; i < s_.batch; ++i) {
        const auto length = static_cast<std::size_t>(lengths_[i]);
        if (step >= length) continue;
        const std::size_t t = backwards ? length - 1 - step : step;
        const std::span<float> gates(inputs.data() + x_row(t, i) * width(), width());
        const std::span<float> of_state(products.data() + i * width(), width());
        const std::span<float> h(state[0].data() + i * n, n);
        if (cell_.gates == 4) {
          lstm(d, gates, of_state, h, std::span(state[1].data() + i * n, n));
        } else if (cell_.gates == 3) {
          gru(d, gates, of_state, h, r, b ? b + width() + 2 * n : nullptr);
        } else {
          add(gates, of_state);
          clip(gates);
          cell_.functions[d](gates);
          std::ranges::copy(gates, h.begin());
        }
        std::ranges::copy(h, ys.begin() + static_cast<std::ptrdiff_t>(y_row(t, d, i) * n));
      }
    }
    for (std::size_t k = 0; k < last.size(); ++k) {
      const auto to = last[k].writable<float>();
      for (std::size_t i = 0; i < s_.batch; ++i)
        std::copy_n(state[k].data() + i * n, n, to.data() + state_row(d, i) * n);
    }
  }

  static void add(std::span<float> to, std::span<const float> from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

  void clip(std::span<float> x) const {
    if (cell_.most <= 0) return;
    for (float& v : x) v = std::min(std::max(v, -cell_.most), cell_.most);
  }

  /// Gates i, o, f, c.
  void lstm(std::size_t d, std::span<float> gates, std::span<const float> of_state, std::span<float> h,
            std::span<float> c) {
    const std::size_t n = s_.hidden;
    const Activation* const f = cell_.functions.data() + d * cell_.own_functions();
    add(gates, of_state);
    const std::span<float> in = gates.first(n), out = gates.subspan(n, n), forget = gates.subspan(2 * n, n),
                           fresh = gates.subspan(3 * n, n);
    const float* const p = call_.has(7) ? call_.floats(7).data() + d * 3 * n : nullptr;
    for (std::size_t j = 0; p && j < n; ++j) {
      in[j] += p[j] * c[j];
      forget[j] += p[2 * n + j] * c[j];
    }
    for (const std::span<float> gate : {in, forget}) {
      clip(gate);
      f[0](gate);
    }
    clip(fresh);
    f[1](fresh);
    for (std::size_t j = 0; j < n; ++j) {
      const float keep = cell_.coupled ? 1 - in[j] : forget[j];
      c[j] = keep * c[j] + in[j] * fresh[j];
      if (p) out[j] += p[n + j] * c[j];
    }
    clip(out);
    f[0](out);
    std::ranges::copy(c, fresh.begin());
    f[2](fresh);
    for (std::size_t j = 0; j < n; ++j) h[j] = out[j] * fresh[j];
  }

  /// Gates z, r, h. `r`: the direction's R, null where it is held; `bias`: the hidden gate's half of B.
  void gru(std::size_t d, std::span<float> gates, std::span<const float> of_state, std::span<float> h,
           const float* r, const float* bias) {
    const std::size_t n = s_.hidden;
    const Activation* const f = cell_.functions.data() + d * cell_.own_functions();
    const std::span<float> z = gates.first(n), reset = gates.subspan(n, n), fresh = gates.subspan(2 * n, n);
    add(gates.first(2 * n), of_state.first(2 * n));
    for (const std::span<float> gate : {z, reset}) {
      clip(gate);
      f[0](gate);
    }
    if (cell_.linear_first) {
      for (std::size_t j = 0; j < n; ++j)
        fresh[j] += reset[j] * (bias ? of_state[2 * n + j] + bias[j] : of_state[2 * n + j]);
    } else {
      std::vector<float> masked(n), recurrent(3 * n);
      for (std::size_t j = 0; j < n; ++j) masked[j] = reset[j] * h[j];
      if (r) {
        multiply(1, n, n, masked.data(), r + 2 * n * n, recurrent.data() + 2 * n);
      } else {
        multiply_state(d, 1, masked.data(), r, recurrent.data());
      }
      add(fresh, std::span(recurrent).subspan(2 * n));
    }
    clip(fresh);
    f[1](fresh);
    for (std::size_t j = 0; j < n; ++j) h[j] = (1 - z[j]) * fresh[j] + z[j] * h[j];
  }

  const Cell& cell_;
  Call& call_;
  CellSizes s_;
  Ints lengths_, state_shape_, y_shape_;
};

/// `states`: that go from step to step; `usual`: activations.
Kernel recurrent(const NodeFacts& facts, std::size_t gates, std::size_t states,
                 const std::vector<std::string>& usual) {
  return [cell = cell_of(facts, gates, states, usual)](Call& call) { Recurrence(cell, call).run(); };
}
Kernel lstm(const NodeFacts& facts) { return recurrent(facts, 4, 2, {"sigmoid", "tanh", "tanh"}); }
Kernel gru(const NodeFacts& facts) { return recurrent(facts, 3, 1, {"sigmoid", "tanh"}); }
Kernel rnn(const NodeFacts& facts) { return recurrent(facts, 1, 1, {"tanh"}); }

}  // namespace

std::span<const OperatorRow> recurrent_operators() {
  constexpr std::size_t kR = 2;
  static constexpr OperatorRow kRows[] = {
      {.op = "LSTM", .maker = lstm, .takes = Takes::kFloats, .holds = kR},
      {.op = "GRU", .maker = gru, .takes = Takes::kFloats, .holds = kR},
      {.op = "RNN", .maker = rnn, .takes = Takes::kFloats, .holds = kR},
      {.op = "LSTM", .maker = lstm, .takes = Takes::kFloats, .domain = kRuntimeDomain, .holds = kR},
      {.op = "GRU", .maker = gru, .takes = Takes::kFloats, .domain = kRuntimeDomain, .holds = kR},
      {.op = "RNN", .maker = rnn, .takes = Takes::kFloats, .domain = kRuntimeDomain, .holds = kR}};
  return kRows;
}

}  // namespace crumb::runtime
