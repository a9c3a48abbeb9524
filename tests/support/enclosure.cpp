#include "tests/support/enclosure.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "libtorch/execute/operator.h"

namespace crumb::testing {
namespace {

using at::Tensor;
using graph::ElementType;
using graph::Node;
using libtorch::TypedTensor;

constexpr double kUnit = 0x1p-24;  // u of float32
constexpr double kLeast = 0x1p-149;
constexpr double kExactSum = 0x1p24;

double gamma_of(std::int64_t operations) {
  const double ku = static_cast<double>(operations) * kUnit;
  return ku / (1 - ku) * (1 + 0x1p-20);  // the float64 that it is added to is rounded, too
}

/// The float32 numbers from low to high; one tensor twice where they are the same.
struct Interval {
  TypedTensor low, high;

  bool is_exact() const { return low.tensor.is_same(high.tensor); }
  bool is_float() const { return low.type == ElementType::kFloat; }
  Tensor middle() const { return (low.tensor.to(at::kDouble) + high.tensor.to(at::kDouble)) / 2; }
  Tensor radius() const { return (high.tensor.to(at::kDouble) - low.tensor.to(at::kDouble)) / 2; }
  Tensor magnitude() const {  ///< float64
    return at::maximum(low.tensor.to(at::kDouble).abs(), high.tensor.to(at::kDouble).abs());
  }
};

Interval exact(TypedTensor value) { return {value, value}; }

Interval between(const Tensor& low, const Tensor& high) {
  if (at::equal(low, high)) return exact({low, ElementType::kFloat});
  return {{low, ElementType::kFloat}, {high, ElementType::kFloat}};
}

/// float32 numbers around middle - radius and middle + radius, both float64.
Interval around(const Tensor& middle, const Tensor& radius) {
  const auto next = [](const Tensor& x, double towards) {
    const Tensor narrow = x.to(at::kFloat);
    return at::nextafter(narrow, at::full_like(narrow, towards));
  };
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor is_one = radius.eq(0).logical_and(middle.to(at::kFloat).to(at::kDouble).eq(middle));
  const Tensor same = middle.to(at::kFloat);
  return between(at::where(is_one, same, next(middle - radius, -inf)),
                 at::where(is_one, same, next(middle + radius, inf)));
}

/// One execution of a node's kernel.
class Kernel {
 public:
  explicit Kernel(const Node& node) : node_(node), kernel_(libtorch::find_operator(node.op, node.domain)) {
    if (!kernel_) throw Error("nothing executes " + graph::text_of(node));
  }
  libtorch::Outputs all(const std::vector<TypedTensor>& inputs) const {
    return kernel_(libtorch::Call(node_, inputs));
  }
  Tensor operator()(const std::vector<TypedTensor>& inputs) const { return all(inputs).at(0).tensor; }
  Tensor wide(const std::vector<Tensor>& inputs) const {  ///< float64
    std::vector<TypedTensor> typed;
    for (const Tensor& input : inputs) {
      typed.push_back({input, input.defined() ? ElementType::kDouble : ElementType::kUnknown});
    }
    return (*this)(typed);
  }

 private:
  const Node& node_;
  libtorch::Kernel kernel_;
};

using Intervals = std::vector<Interval>;

std::vector<TypedTensor> lows(const Intervals& inputs) {
  std::vector<TypedTensor> found;
  for (const Interval& input : inputs) found.push_back(input.low);
  return found;
}
std::vector<TypedTensor> highs(const Intervals& inputs) {
  std::vector<TypedTensor> found;
  for (const Interval& input : inputs) found.push_back(input.high);
  return found;
}

bool all_exact(const Intervals& inputs) { return std::ranges::all_of(inputs, &Interval::is_exact); }

/// Outputs grow with every input: at both ends, as they are.
Intervals rising(const Node& node, const Intervals& inputs) {
  const Kernel kernel(node);
  const auto low = kernel.all(lows(inputs));
  Intervals made;
  if (all_exact(inputs)) {
    for (const TypedTensor& one : low) made.push_back(exact(one));
    return made;
  }
  const auto high = kernel.all(highs(inputs));
  for (std::size_t i = 0; i < low.size(); ++i) {
    const bool same = !low[i].defined() || at::equal(low[i].tensor, high[i].tensor);
    made.push_back(same ? exact(low[i]) : Interval{low[i], high[i]});
  }
  return made;
}

/// Monotone in either operand where the other is held: the extremes are at the corners.
Interval corners(const std::function<Tensor(const Tensor&, const Tensor&)>& f, const Interval& a,
                 const Interval& b) {
  const Tensor first = f(a.low.tensor, b.low.tensor);
  if (a.is_exact() && b.is_exact()) return exact({first, ElementType::kFloat});
  Tensor low = first, high = first;
  for (const Tensor& one :
       {f(a.low.tensor, b.high.tensor), f(a.high.tensor, b.low.tensor), f(a.high.tensor, b.high.tensor)}) {
    low = at::minimum(low, one);
    high = at::maximum(high, one);
  }
  return between(low, high);
}

Intervals by_corners(const Node& node, const Intervals& inputs) {
  if (all_exact(inputs)) return rising(node, inputs);
  const Kernel kernel(node);
  if (node.op == "Div" && !inputs[1].is_exact()) {
    const bool has_zero =
        inputs[1].low.tensor.le(0).logical_and(inputs[1].high.tensor.ge(0)).any().item<bool>();
    if (has_zero) throw Error("the divisor's bounds hold zero in " + graph::text_of(node));
  }
  return {corners(
      [&](const Tensor& a, const Tensor& b) {
        return kernel({{a, ElementType::kFloat}, {b, ElementType::kFloat}});
      },
      inputs[0], inputs[1])};
}

Intervals falling(const Node& node, const Intervals& inputs) {
  if (all_exact(inputs)) return rising(node, inputs);
  const Kernel kernel(node);
  return {between(kernel(highs(inputs)), kernel(lows(inputs)))};
}

/// Copies of the nearest element; other modes add up.
Intervals nearest(const Node& node, const Intervals& inputs) {
  if (node.text_or("mode", "nearest") != "nearest")
    throw Error("no bounds are known for " + graph::text_of(node));
  return rising(node, inputs);
}

Intervals absolute(const Node& node, const Intervals& inputs) {
  if (all_exact(inputs)) return rising(node, inputs);
  const Tensor a = inputs[0].low.tensor.abs(), b = inputs[0].high.tensor.abs();
  const Tensor crosses = inputs[0].low.tensor.lt(0).logical_and(inputs[0].high.tensor.gt(0));
  return {between(at::where(crosses, at::zeros_like(a), at::minimum(a, b)), at::maximum(a, b))};
}

/// The exponent of the greatest power of two that all float32 numbers are multiples of; 1000 for zeros.
int grid_of(const Tensor& tensor) {
  const Tensor x = tensor.to(at::kFloat).contiguous();
  int grid = 1000;
  for (const float value : std::span(x.const_data_ptr<float>(), static_cast<std::size_t>(x.numel()))) {
    if (value == 0) continue;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const int biased = static_cast<int>(bits >> 23 & 0xFF);
    const std::uint32_t mantissa = (bits & 0x7FFFFF) | (biased > 0 ? 0x800000U : 0);
    grid = std::min(grid, std::max(biased, 1) - 150 + std::countr_zero(mantissa));
  }
  return grid;
}

/// Terms that an element of a product adds up.
std::int64_t terms_of(const Node& node, const Intervals& inputs) {
  const Tensor &a = inputs[0].low.tensor, &b = inputs[1].low.tensor;
  if (node.op == "MatMul") return a.size(-1);
  if (node.op == "Gemm") return a.size(node.int_or("transA", 0) != 0 ? 0 : 1);
  return b.numel() / std::max<std::int64_t>(1, b.size(0));
}

Node with_positive_factors(Node node) {
  for (const char* name : {"alpha", "beta"}) {
    if (node.has(name)) node.attributes[name] = std::fabs(node.float_or(name, 1));
  }
  return node;
}

Intervals product(const Node& node, const Intervals& inputs) {
  const Kernel kernel(node);
  const Node positive = with_positive_factors(node);
  const Kernel sizes(positive);
  const bool has_start = inputs.size() > 2 && inputs[2].low.defined();
  const Interval &a = inputs[0], &b = inputs[1];
  const auto with_start = [&](Tensor x, Tensor y, const std::function<Tensor(const Interval&)>& start) {
    std::vector<Tensor> all{std::move(x), std::move(y)};
    if (has_start) all.push_back(start(inputs[2]));
    return all;
  };
  const auto middle_of = [](const Interval& i) { return i.middle(); };
  const auto size_of = [](const Interval& i) { return i.magnitude(); };
  const auto radius_of = [](const Interval& i) { return i.radius(); };
  const auto nothing = [](const Interval& i) { return at::zeros_like(i.middle()); };
  const Tensor middle = kernel.wide(with_start(a.middle(), b.middle(), middle_of));
  const Tensor size = sizes.wide(with_start(a.magnitude(), b.magnitude(), size_of));
  Tensor radius = at::zeros_like(middle);
  if (!all_exact(inputs)) {
    radius = sizes.wide(with_start(a.middle().abs(), b.radius(), radius_of)) +
             sizes.wide(with_start(a.radius(), b.magnitude(), nothing));
  }
  bool is_exact = all_exact(inputs) && node.float_or("alpha", 1) == 1 && node.float_or("beta", 1) == 1;
  if (is_exact && size.numel() > 0) {
    int grid = grid_of(a.low.tensor) + grid_of(b.low.tensor);
    if (has_start) grid = std::min(grid, grid_of(inputs[2].low.tensor));
    is_exact = grid > 900 || size.max().item<double>() <= std::ldexp(kExactSum, grid);
  }
  if (!is_exact) radius = radius + size * gamma_of(terms_of(node, inputs) + 3) + kLeast * 2;
  return {around(middle, radius)};
}

/// Sums and means; `terms`: what an element adds up.
Intervals sum(const Node& node, const Intervals& inputs) {
  const Kernel kernel(node);
  std::vector<TypedTensor> rest = lows(inputs);
  const auto at = [&](const Tensor& x) {
    rest[0] = {x, ElementType::kDouble};
    return kernel(rest);
  };
  const Tensor middle = at(inputs[0].middle()), size = at(inputs[0].magnitude());
  std::int64_t terms = inputs[0].low.tensor.numel() / std::max<std::int64_t>(1, middle.numel());
  if (node.op == "AveragePool") {
    terms = 1;
    for (const std::int64_t edge : node.ints_or("kernel_shape", {})) terms *= edge;
  }
  const bool is_mean = node.op != "ReduceSum";
  const bool divides_exactly =
      !is_mean || (std::has_single_bit(static_cast<std::uint64_t>(terms)) && node.op != "AveragePool");
  Tensor radius = at(inputs[0].radius());
  const bool is_exact = all_exact(inputs) && divides_exactly && size.numel() > 0 &&
                        size.max().item<double>() * (is_mean ? static_cast<double>(terms) : 1) <=
                            std::ldexp(kExactSum, std::min(grid_of(inputs[0].low.tensor), 900));
  if (!is_exact) radius = radius + size * gamma_of(terms + 3) + kLeast * 2;
  return {around(middle, radius)};
}

/// Functions that rise with their first input, and that libraries compute to a few units in the last place.
Intervals function(const Node& node, const Intervals& inputs) {
  const Kernel kernel(node);
  const auto at = [&](const TypedTensor& x) {
    std::vector<Tensor> wide{x.tensor.to(at::kDouble)};
    for (const Interval& other : std::span(inputs).subspan(1)) {
      if (!other.is_exact())
        throw Error("no bounds are known for " + graph::text_of(node) + " of two computed values");
      wide.push_back(other.low.tensor.to(at::kDouble));
    }
    return kernel.wide(wide);
  };
  const Tensor low = at(inputs[0].low), high = at(inputs[0].high);
  const Tensor more = at::maximum(low.abs(), high.abs()) * (8 * kUnit) + kLeast * 4;
  const Interval wide = around((low + high) / 2, (high - low) / 2 + more);
  // What is exact in every library.
  const Tensor zero =
      inputs[0].low.tensor.eq(0).logical_and(inputs[0].high.tensor.eq(0)).logical_and(low.eq(0));
  return {between(at::where(zero, at::zeros_like(wide.low.tensor), wide.low.tensor),
                  at::where(zero, at::zeros_like(wide.low.tensor), wide.high.tensor))};
}

/// Of positive numbers and one positive exponent: rising.
Intervals power(const Node& node, const Intervals& inputs) {
  if (inputs[0].low.tensor.lt(0).any().item<bool>() || inputs[1].low.tensor.le(0).any().item<bool>()) {
    throw Error("no bounds are known for " + graph::text_of(node) + " of negative numbers");
  }
  return function(node, inputs);
}

Intervals softmax(const Node& node, const Intervals& inputs) {
  if (node.version < 13) throw Error("no rule for " + graph::text_of(node) + " before operator set 13");
  const std::int64_t axis = node.int_or("axis", -1);
  const Tensor lo = inputs[0].low.tensor.to(at::kDouble), hi = inputs[0].high.tensor.to(at::kDouble);
  const Tensor most = hi.amax(axis, true);
  const Tensor low = (lo - most).exp(), high = (hi - most).exp();
  const Tensor least_share = low / (high.sum(axis, true) - high + low);
  const Tensor most_share = high / (low.sum(axis, true) - low + high);
  const double range = (most - lo).max().item<double>();
  const double relative =
      gamma_of(inputs[0].low.tensor.size(axis) + 12 + static_cast<std::int64_t>(2 * range));
  return {around((least_share + most_share) / 2,
                 (most_share - least_share) / 2 + most_share * relative + kLeast * 4)};
}

/// (x - mean) a + bias with a = scale / sqrt(variance + epsilon), in whatever order: eight roundings at the most.
Intervals batch_norm(const Node& node, const Intervals& inputs) {
  const Kernel kernel(node);
  for (std::size_t i = 1; i < 5; ++i) {
    if (!inputs[i].is_exact()) throw Error("the parameters of " + graph::text_of(node) + " are computed");
  }
  std::vector<Tensor> wide;
  for (const Interval& input : inputs) wide.push_back(input.low.tensor.to(at::kDouble));
  const auto at = [&](const Tensor& x, const Tensor& scale, const Tensor& bias, const Tensor& mean) {
    return kernel.wide({x, scale, bias, mean, wide[4]});
  };
  const Tensor none = at::zeros_like(wide[3]);
  const Tensor middle = at(inputs[0].middle(), wide[1], wide[2], wide[3]);
  const Tensor size = at(inputs[0].magnitude(), wide[1].abs(), wide[2].abs(), -wide[3].abs());
  const Tensor radius = at(inputs[0].radius(), wide[1].abs(), none, none);
  return {around(middle, radius + size * gamma_of(8) + kLeast * 4)};
}

struct Codes {
  Interval values;
  std::int64_t near = 0;  ///< where the ends have different codes
};

/// A quantizer of x / s: at the ends of the quotient, by steps of one, and the steps times s. `settled`: where the ends
/// have different codes, the lower one.
Codes quantized(const Node& node, const Intervals& inputs, bool settled) {
  const Kernel kernel(node);
  const Interval &x = inputs[0], &scale = inputs[1];
  if (all_exact(inputs)) return {exact({kernel(lows(inputs)), ElementType::kFloat})};
  const Interval ratio = corners([](const Tensor& a, const Tensor& b) { return a / b; }, x, scale);
  std::vector<TypedTensor> by_one = lows(inputs);
  by_one[1] = {at::ones({}), ElementType::kFloat};
  const auto steps = [&](const Tensor& at) {
    by_one[0] = {at, ElementType::kFloat};
    return kernel(by_one);
  };
  const Tensor low = steps(ratio.low.tensor), high = steps(ratio.high.tensor);
  const auto times = [](const Tensor& a, const Tensor& b) { return a * b; };
  return {corners(times, settled ? between(low, low) : between(low, high), scale),
          low.ne(high).sum().item<std::int64_t>()};
}

using Rule = Intervals (*)(const Node& node, const Intervals& inputs);

Rule rule_for(const Node& node) {
  static const std::set<std::string, std::less<>> kRising = {
      "Add",       "Cast",      "Ceil",   "Clip",         "Concat",       "Constant", "ConstantOfShape",
      "Dropout",   "Equal",     "Expand", "Flatten",      "Floor",        "Gather",   "GlobalMaxPool",
      "Greater",   "Identity",  "Max",    "MaxPool",      "Min",          "Not",      "Pad",
      "ReduceMax", "ReduceMin", "Relu",   "Reshape",      "Round",        "Shape",    "Sign",
      "Slice",     "Split",     "Sqrt",   "DepthToSpace", "SpaceToDepth", "Squeeze",  "Tile",
      "Transpose", "Unsqueeze", "Where"};
  static const std::map<std::string, Rule, std::less<>> kRules = {
      {"Abs", absolute},   {"AveragePool", sum},  {"BatchNormalization", batch_norm},
      {"Conv", product},   {"Div", by_corners},   {"Erf", function},
      {"Exp", function},   {"Gemm", product},     {"GlobalAveragePool", sum},
      {"MatMul", product}, {"Mul", by_corners},   {"Neg", falling},
      {"Pow", power},      {"ReduceMean", sum},   {"ReduceSum", sum},
      {"Resize", nearest}, {"Sigmoid", function}, {"Softmax", softmax},
      {"Sub", by_corners}, {"Tanh", function},    {"Upsample", nearest}};
  if (!node.domain.empty()) {
    if (node.op == "MultiThreshold" || node.op == "Trunc") return rising;
    throw Error("no bounds are known for " + graph::text_of(node));
  }
  if (kRising.contains(node.op)) return rising;
  if (const auto found = kRules.find(node.op); found != kRules.end()) return found->second;
  throw Error("no bounds are known for " + graph::text_of(node));
}

/// What decides takes no part in an interval.
void throw_if_undecided(const Node& node, const Intervals& inputs) {
  static const std::set<std::string, std::less<>> kDecide = {"Equal", "Greater"};
  const bool undecided =
      (kDecide.contains(node.op) && !all_exact(inputs)) || (node.op == "Where" && !inputs[0].is_exact());
  if (undecided) throw Error(graph::text_of(node) + " decides by a value that is known to rounding alone");
}

/// `settled`: near places take the lower code, so that what is behind them is as if they were not near.
Enclosure run(const graph::Graph& graph, const std::vector<Tensor>& inputs, bool settled) {
  std::map<std::string, Interval> values;
  for (const auto& [name, constant] : graph.initializers) values[name] = exact(libtorch::to_typed(constant));
  for (const auto& [name, constant] : graph.quantized) {
    values[name] = exact(libtorch::to_typed(constant.value()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[graph.inputs.at(i)] = exact(libtorch::typed(inputs[i].detach()));
  }
  Enclosure found;
  for (const Node& node : graph.nodes) {
    Intervals arguments;
    for (const std::string& name : node.inputs)
      arguments.push_back(name.empty() ? Interval() : values.at(name));
    Intervals made;
    if (graph::is_quantizer(node)) {
      const Codes codes = quantized(node, arguments, settled);
      found.quantized += codes.values.low.tensor.numel();
      found.near += codes.near;
      made = {codes.values};
    } else {
      throw_if_undecided(node, arguments);
      made = rule_for(node)(node, arguments);
      if (!node.domain.empty()) {  // MultiThreshold, Trunc
        found.quantized += made[0].low.tensor.numel();
        if (!made[0].is_exact())
          found.near += made[0].low.tensor.ne(made[0].high.tensor).sum().item<std::int64_t>();
        if (settled) made[0] = exact(made[0].low);
      }
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (node.has_output(i)) values[node.outputs[i]] = made[i];
    }
  }
  for (const std::string& name : graph.outputs) {
    found.low.push_back(values.at(name).low.tensor);
    found.high.push_back(values.at(name).high.tensor);
  }
  return found;
}

}  // namespace

Enclosure enclose(const graph::Graph& graph, const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_gradients;
  const graph::Graph ordered = graph::sorted(graph);
  Enclosure whole = run(ordered, inputs, false);
  if (whole.near > 0) whole.near = run(ordered, inputs, true).near;
  return whole;
}

std::string too_near(const Enclosure& bounds) {
  if (bounds.near <= std::max<std::int64_t>(2, bounds.quantized / 200)) return "";
  return std::to_string(bounds.near) + " of " + std::to_string(bounds.quantized) +
         " quantized values lie within rounding of a boundary";
}

std::string not_computed_by(const graph::Graph& graph, const std::vector<at::Tensor>& inputs,
                            const std::vector<at::Tensor>& outputs) {
  const Enclosure bounds = enclose(graph, inputs);
  if (std::string failure = too_near(bounds); !failure.empty()) return failure;
  if (outputs.size() != bounds.low.size())
    return "expected " + std::to_string(bounds.low.size()) + " outputs";
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor y = outputs[i].detach(), &low = bounds.low[i], &high = bounds.high[i];
    if (y.sizes() != low.sizes()) return "output " + std::to_string(i) + " has another shape";
    const std::int64_t outside =
        y.lt(low).logical_or(y.gt(high)).logical_or(y.isnan()).sum().item<std::int64_t>();
    if (outside > 0) {
      const Tensor beyond = at::maximum(low - y, y - high).max();
      return std::to_string(outside) + " of " + std::to_string(y.numel()) + " numbers of output " +
             std::to_string(i) + " lie outside their bounds, by up to " +
             std::to_string(beyond.item<double>());
    }
    const double most = at::maximum(low.abs(), high.abs()).max().item<double>();
    const std::int64_t wide = (high - low).gt(most * 1e-3).sum().item<std::int64_t>();
    if (wide * 2 >= y.numel())
      return std::to_string(wide) + " numbers of output " + std::to_string(i) + " are not known";
  }
  return "";
}

}  // namespace crumb::testing
