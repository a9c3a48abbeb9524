#include "libtorch/execute/simulate_accumulators.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <functional>
#include <map>
#include <numeric>
#include <string>

#include "libtorch/execute/ops/integer_products.h"
#include "libtorch/execute/ops/window.h"

namespace crumb::libtorch {
namespace {

using analysis::ProductLayer;
using analysis::SimulatedLayer;
using Sizes = std::vector<std::int64_t>;

std::span<const std::int64_t> ints_of(const at::Tensor& codes) {
  return {codes.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(codes.numel())};
}

std::span<std::int64_t> writable(const at::Tensor& sums) {
  return {sums.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(sums.numel())};
}

at::Tensor as_codes(const std::vector<std::int64_t>& codes, at::IntArrayRef shape) {
  const at::Tensor made = at::empty(shape, at::kLong);
  std::ranges::copy(codes, writable(made).begin());
  return made;
}

std::span<const double> doubles_of(const at::Tensor& values) {
  return {values.const_data_ptr<double>(), static_cast<std::size_t>(values.numel())};
}

/// Which of a rule's operands the layer's input is: 0 or 1.
std::size_t input_at(const SimulatedLayer& layer) { return 1 - layer.weight_at(); }

std::size_t place_of(const SimulatedLayer& layer, std::size_t operand) {
  return operand == 0 ? layer.rule().a : layer.rule().b;
}

/// The integers of an operand, less their zero point: int64, contiguous, on the CPU, of the same shape. `is_weight`: of a
/// weight that is computed.
at::Tensor codes_of(const SimulatedLayer& layer, const Call& call, std::size_t operand, bool is_weight) {
  const graph::ProductRule& rule = layer.rule();
  if (rule.integers) {
    const bool is_convolution = rule.terms == graph::Terms::kConvolution;
    const at::Tensor codes = centred_operand(call, place_of(layer, operand),
                                             operand == 0 ? rule.a_zero : rule.b_zero, is_convolution)
                                 .to(at::kCPU)
                                 .contiguous();
    if (rule.matches) return codes;  // bits, of which the terms are made
    is_weight ? layer.check_weights(ints_of(codes)) : layer.check_inputs(ints_of(codes));
    return codes;
  }
  const at::Tensor values = call.tensor(place_of(layer, operand)).to(at::kCPU, at::kDouble).contiguous();
  const auto codes =
      is_weight ? layer.weight_codes(doubles_of(values)) : layer.input_codes(doubles_of(values));
  return as_codes(codes, values.sizes());
}

/// What registers hold, and what makes values of it: double, broadcasts.
struct Sums {
  at::Tensor sums, scale;
};

/// In the type of the inputs.
at::Tensor result_of(const Sums& of, const TypedTensor& like) {
  const at::Tensor made = graph::is_integer(like.type) ? wrapped(of.sums, like.type).tensor
                                                       : (of.sums.to(at::kDouble) * of.scale);
  return made.to(like.tensor.device(), like.tensor.scalar_type());
}

at::Tensor scales_of(const SimulatedLayer& layer) { return at::tensor(layer.result_scale(), at::kDouble); }

/// Of a weight that is computed there is one scale.
at::Tensor one_scale_of(const SimulatedLayer& layer) {
  return at::tensor(layer.result_scale().empty() ? 1.0 : layer.result_scale()[0], at::kDouble);
}

/// The matrices of a batch, one after the other: [batch..., rows, terms].
Sums multiply(SimulatedLayer& layer, at::Tensor x, bool turned) {
  const Sizes& w = layer.weight_shape();
  const bool first = layer.weight_first(), vector = x.dim() == 1;
  if (vector) x = x.unsqueeze(first ? 1 : 0);
  if (turned != first) x = x.transpose(-1, -2);
  if (x.size(-1) != static_cast<std::int64_t>(layer.length())) {
    throw Error("layer " + layer.name() + ": rows of " + std::to_string(x.size(-1)) +
                " inputs do not fit rows of " + std::to_string(layer.length()) + " terms");
  }
  const Sizes stack(w.begin(), w.end() - std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(w.size())));
  const std::int64_t channels = w.size() == 1 ? 1 : first ? w[w.size() - 2] : w.back();
  const Sizes batch = at::infer_size(x.sizes().slice(0, static_cast<std::size_t>(x.dim() - 2)), stack);
  Sizes shape = batch;
  shape.insert(shape.end(), {x.size(-2), x.size(-1)});
  x = x.expand(shape).contiguous();
  shape.back() = channels;
  const at::Tensor sums = at::empty(shape, at::kLong);
  // Which of the weight's matrices each meets.
  const std::int64_t matrices =
      std::accumulate(stack.begin(), stack.end(), std::int64_t{1}, std::multiplies<>());
  const at::Tensor which = at::arange(matrices, at::kLong).reshape(stack).expand(batch).contiguous();
  const int threads = at::get_num_threads();
  const auto count = static_cast<std::size_t>(channels);
  if (matrices == 1) {
    layer.multiply(ints_of(x), 0, count, writable(sums), threads);
  } else {
    const auto in = ints_of(x);
    const auto out = writable(sums), numbers = writable(which);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t a = in.size() / numbers.size(), b = out.size() / numbers.size();
      layer.multiply(in.subspan(i * a, a), static_cast<std::size_t>(numbers[i]) * count, count,
                     out.subspan(i * b, b), threads);
    }
  }
  const at::Tensor scale =
      scales_of(layer).reshape({matrices, channels}).index_select(0, which.flatten()).reshape([&] {
        Sizes one = batch;
        one.insert(one.end(), {1, channels});
        return one;
      }());
  const auto as_result = [&](at::Tensor y) {
    if (first) y = y.transpose(-1, -2);
    if (w.size() == 1) y = y.squeeze(first ? -2 : -1);
    if (vector) y = y.squeeze(first || w.size() == 1 ? -1 : -2);
    return y.contiguous();
  };
  return {as_result(sums), as_result(scale)};
}

/// Calls of one matrix by one: [rows, terms] by [channels, terms], into [rows, channels].
using OneProduct = std::function<void(const at::Tensor& x, const at::Tensor& w, const at::Tensor& sums)>;

/// a by b as at::matmul multiplies them, matrix by matrix.
at::Tensor multiply_batch(at::Tensor a, at::Tensor b, const OneProduct& product) {
  const bool row = a.dim() == 1, column = b.dim() == 1;
  if (row) a = a.unsqueeze(0);
  if (column) b = b.unsqueeze(1);
  if (a.size(-1) != b.size(-2)) {
    throw Error("matrices with rows of " + std::to_string(a.size(-1)) + " and columns of " +
                std::to_string(b.size(-2)) + " numbers cannot be multiplied");
  }
  const std::int64_t rows = a.size(-2), terms = a.size(-1), channels = b.size(-1);
  const Sizes batch = at::infer_size(a.sizes().slice(0, static_cast<std::size_t>(a.dim() - 2)),
                                     b.sizes().slice(0, static_cast<std::size_t>(b.dim() - 2)));
  const auto spread = [&](const at::Tensor& one, std::int64_t m, std::int64_t n) {
    Sizes shape = batch;
    shape.insert(shape.end(), {m, n});
    return one.expand(shape).reshape({-1, m, n});
  };
  const at::Tensor left = spread(a, rows, terms), right = spread(b.transpose(-1, -2), channels, terms);
  const at::Tensor sums = at::empty({left.size(0), rows, channels}, at::kLong);
  for (std::int64_t i = 0; i < left.size(0); ++i)
    product(left[i].contiguous(), right[i].contiguous(), sums[i]);
  Sizes shape = batch;
  if (!row) shape.push_back(rows);
  if (!column) shape.push_back(channels);
  return sums.reshape(shape);
}

/// With a weight that is computed.
OneProduct by_computed_weight(SimulatedLayer& layer) {
  return [&layer](const at::Tensor& x, const at::Tensor& w, const at::Tensor& sums) {
    const auto codes = ints_of(w);
    layer.set_codes({codes.begin(), codes.end()}, {w.size(1), w.size(0)});
    layer.multiply(ints_of(x), 0, static_cast<std::size_t>(w.size(0)), writable(sums), at::get_num_threads());
  };
}

/// Terms that are whether two bits are the same; each channel has its own.
OneProduct by_matches(SimulatedLayer& layer) {
  return [&layer](const at::Tensor& x, const at::Tensor& w, const at::Tensor& sums) {
    if (at::logical_or(x.lt(0), x.gt(1)).any().item<bool>() ||
        at::logical_or(w.lt(0), w.gt(1)).any().item<bool>())
      throw Error("layer " + layer.name() + " (" + layer.op() + ") takes bits, 0 and 1, found other numbers");
    if (layer.has_computed_weight()) {
      layer.set_codes(std::vector<std::int64_t>(static_cast<std::size_t>(w.numel()), 1),
                      {w.size(1), w.size(0)});
    }
    const at::Tensor column = at::empty({x.size(0)}, at::kLong);
    for (std::int64_t c = 0; c < w.size(0); ++c) {
      const at::Tensor terms = x.eq(w[c]).to(at::kLong).contiguous();
      layer.multiply(ints_of(terms), static_cast<std::size_t>(c), 1, writable(column), at::get_num_threads());
      sums.select(1, c).copy_(column);
    }
  };
}

/// Axes of labels, by their order; sizes of 1 spread.
at::Tensor arranged(const at::Tensor& codes, const std::string& labels, const std::string& wanted,
                    const std::map<char, std::int64_t>& sizes) {
  Sizes order, shape;
  at::Tensor made = codes;
  std::string has = labels;
  for (const char label : wanted) {
    if (has.find(label) != std::string::npos) continue;
    made = made.unsqueeze(-1);
    has += label;
  }
  for (const char label : wanted) {
    order.push_back(static_cast<std::int64_t>(has.find(label)));
    shape.push_back(sizes.at(label));
  }
  return made.permute(order).expand(shape);
}

/// An Einsum of two operands: for each row of the weight (its labels that are not summed over), a matrix by a vector.
Sums contract(SimulatedLayer& layer, const Call& call) {
  const analysis::Contraction equation =
      analysis::contraction_of(call.node()).take(graph::text_of(call.node()));
  const std::size_t at = input_at(layer);
  const std::string &x_labels = at == 0 ? equation.a : equation.b,
                    &w_labels = at == 0 ? equation.b : equation.a;
  const at::Tensor x = codes_of(layer, call, at, false);
  const at::Tensor& weight = call.tensor(place_of(layer, 1 - at));
  std::map<char, std::int64_t> sizes;
  const auto note_sizes = [&](const std::string& labels, at::IntArrayRef shape) {
    if (labels.size() != shape.size()) call.fail("its equation does not fit its operands");
    for (std::size_t i = 0; i < shape.size(); ++i) sizes[labels[i]] = std::max(sizes[labels[i]], shape[i]);
  };
  note_sizes(x_labels, x.sizes());
  note_sizes(w_labels, weight.sizes());
  std::string kept, summed;  // of the weight
  Sizes rows;
  for (std::size_t i = 0; i < w_labels.size(); ++i) {
    const bool is_summed = equation.summed.find(w_labels[i]) != std::string::npos;
    (is_summed ? summed : kept) += w_labels[i];
    if (!is_summed) rows.push_back(weight.size(static_cast<std::int64_t>(i)));
  }
  std::string free;  // of the input alone
  for (const char label : x_labels) {
    if (w_labels.find(label) == std::string::npos) free += label;
  }
  const auto terms = static_cast<std::int64_t>(layer.length());
  if (layer.has_computed_weight()) {
    const at::Tensor codes = arranged(codes_of(layer, call, 1 - at, true), w_labels, kept + summed, [&] {
      std::map<char, std::int64_t> own = sizes;
      for (std::size_t i = 0; i < w_labels.size(); ++i)
        own[w_labels[i]] = weight.size(static_cast<std::int64_t>(i));
      return own;
    }());
    const at::Tensor flat = codes.contiguous();
    const auto span = ints_of(flat);
    layer.set_codes({span.begin(), span.end()}, {terms, terms == 0 ? 0 : flat.numel() / terms});
  }
  // The input's matrices for each row of the weight: a batch label of both picks one.
  const at::Tensor inputs = arranged(x, x_labels, kept + free + summed, sizes).contiguous();
  Sizes places;
  for (const char label : kept) places.push_back(sizes.at(label));
  std::int64_t of_free = 1;
  for (const char label : free) of_free *= sizes.at(label);
  const std::int64_t count =
      std::accumulate(places.begin(), places.end(), std::int64_t{1}, std::multiplies<>());
  const at::Tensor matrices = inputs.reshape({count, of_free, terms});
  const at::Tensor which =
      at::arange(std::accumulate(rows.begin(), rows.end(), std::int64_t{1}, std::multiplies<>()), at::kLong)
          .reshape(rows)
          .expand(places)
          .contiguous();
  const at::Tensor sums = at::empty({count, of_free}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    const at::Tensor matrix = matrices[i].contiguous();
    layer.multiply(ints_of(matrix), static_cast<std::size_t>(ints_of(which)[static_cast<std::size_t>(i)]), 1,
                   writable(sums[i]), at::get_num_threads());
  }
  const at::Tensor scale = layer.has_computed_weight()
                               ? one_scale_of(layer).expand({count, 1})
                               : scales_of(layer).index_select(0, which.flatten()).reshape({count, 1});
  Sizes shape = places;
  for (const char label : free) shape.push_back(sizes.at(label));
  const auto as_result = [&](const at::Tensor& y) {
    return arranged(y.expand({count, of_free}).reshape(shape), kept + free, equation.out, sizes).contiguous();
  };
  return {as_result(sums), as_result(scale)};
}

/// Of MatMul, Gemm and their integer and bitwise kin.
Sums multiply(SimulatedLayer& layer, const Call& call) {
  const std::size_t at = input_at(layer);
  const auto turned = [&](std::size_t operand) {
    return call.node().is("Gemm") && call.int_or(operand == 0 ? "transA" : "transB", 0) != 0;
  };
  const auto straight = [&](const at::Tensor& x, std::size_t operand) {
    return turned(operand) ? x.transpose(-1, -2) : x;
  };
  if (layer.rule().matches) {
    return {
        multiply_batch(codes_of(layer, call, 0, false), codes_of(layer, call, 1, true), by_matches(layer)),
        {}};
  }
  if (!layer.has_computed_weight()) return multiply(layer, codes_of(layer, call, at, false), turned(at));
  const at::Tensor a = straight(codes_of(layer, call, 0, false), 0),
                   b = straight(codes_of(layer, call, 1, true), 1);
  return {multiply_batch(a, b, by_computed_weight(layer)), one_scale_of(layer)};
}

analysis::WindowSteps steps_of(const Call& call, const at::Tensor& x, const SimulatedLayer& layer) {
  const Sizes& w = layer.weight_shape();
  const Sizes input = x.sizes().slice(2).vec();
  if (layer.kind() == ProductLayer::Kind::kConvolution) {
    const Window window = window_of(call, x, Sizes(w.begin() + 2, w.end()));
    return {input, window.output, window.strides, window.dilations, window.begin};
  }
  const Sizes kernel(w.begin() + 3, w.end());
  const Sizes strides = sizes_attribute(call, "strides", spatial_axes(call, x), 1);
  const Sizes dilations = sizes_attribute(call, "dilations", strides.size(), 1);
  KeptResult kept = kept_of(call, x, kernel, strides, dilations);
  return {input, std::move(kept.output), strides, dilations, std::move(kept.begin)};
}

/// [n, channels, places...]; the scale broadcasts.
Sums convolve(SimulatedLayer& layer, const Call& call) {
  const bool last = call.node().domain == graph::kChannelsLastDomain;
  const auto canonical = [&](const at::Tensor& x) { return last ? x.movedim(-1, 1) : x; };
  if (layer.has_computed_weight()) {
    const at::Tensor w = canonical(codes_of(layer, call, 1, true)).contiguous();
    const auto codes = ints_of(w);
    layer.set_codes({codes.begin(), codes.end()}, w.sizes().vec());
  }
  const at::Tensor x = canonical(codes_of(layer, call, 0, false)).contiguous();
  const analysis::WindowSteps steps = steps_of(call, x, layer);
  const Sizes& w = layer.weight_shape();
  const std::int64_t inputs = layer.kind() == ProductLayer::Kind::kTransposed
                                  ? w[0] * w[1]
                                  : w[1] * std::max<std::int64_t>(1, call.int_or("group", 1));
  if (x.size(1) != inputs) {
    call.fail("the input has " + std::to_string(x.size(1)) + " channels, expected " + std::to_string(inputs));
  }
  const auto channels = static_cast<std::int64_t>(layer.channels());
  Sizes shape{x.size(0), channels}, one{1, channels};
  shape.insert(shape.end(), steps.output.begin(), steps.output.end());
  one.resize(shape.size(), 1);
  const at::Tensor sums = at::empty(shape, at::kLong);
  layer.convolve(ints_of(x), steps, writable(sums), at::get_num_threads());
  return {sums, layer.has_computed_weight() ? one_scale_of(layer) : scales_of(layer).reshape(one)};
}

/// [1, channels, 1, ...].
at::Tensor beside_channels_of(const at::Tensor& sums, const at::Tensor& bias) {
  Sizes one(static_cast<std::size_t>(sums.dim()), 1);
  one[1] = -1;
  return bias.reshape(one);
}

Outputs run_convolution(SimulatedLayer& layer, const Call& call) {
  const graph::ProductRule& rule = layer.rule();
  Sums made = convolve(layer, call);
  const bool adds_after = rule.bias != graph::kNoInput && call.has(rule.bias) && !layer.bias_inside();
  if (rule.integers) {
    if (adds_after)
      made.sums = made.sums + beside_channels_of(made.sums, call.tensor(rule.bias)).to(at::kLong);
    if (rule.requantizes) return quantized_conv(call, made.sums);
    return one(made.sums.to(at::kInt), graph::ElementType::kInt32);
  }
  at::Tensor y = result_of(made, call.in(0));
  if (adds_after) y = y + beside_channels_of(y, call.tensor(rule.bias));
  return one(call.node().domain == graph::kChannelsLastDomain ? y.movedim(1, -1).contiguous() : y,
             call.type(0));
}

Outputs run(SimulatedLayer& layer, const graph::Node& node, const std::vector<TypedTensor>& arguments) {
  const Call call(node, arguments);
  const graph::ProductRule& rule = layer.rule();
  if (layer.kind() != ProductLayer::Kind::kMatrix) return run_convolution(layer, call);
  const Sums made = rule.terms == graph::Terms::kEquation ? contract(layer, call) : multiply(layer, call);
  if (rule.requantizes) return quantized_matmul(call, made.sums);
  if (rule.matches) return one(made.sums.to(at::kFloat), graph::ElementType::kFloat);
  if (rule.integers) return one(made.sums.to(at::kInt), graph::ElementType::kInt32);
  const TypedTensor& like = call.in(place_of(layer, input_at(layer)));
  at::Tensor y = result_of(made, like);
  if (const float alpha = call.float_or("alpha", 1); node.is("Gemm") && alpha != 1) y = y * alpha;
  const bool adds_after = rule.bias != graph::kNoInput && call.has(rule.bias) && !layer.bias_inside();
  if (adds_after) y = at::add(y, call.tensor(rule.bias), call.float_or("beta", 1));
  return one(y, like.type);
}

}  // namespace

void simulate(GraphModule& module, const analysis::AccumulatorSimulation& simulation) {
  for (const auto& product : simulation.products) {
    const auto layer = product.layer;
    module.replace_maker(product.output,
                         [layer](const graph::Node& node, const std::vector<TypedTensor>& arguments) {
                           Outputs made = run(*layer, node, arguments);
                           if (layer->inner().mode() == OverflowMode::kCheck && layer->report().first)
                             throw Error(layer->text_of_overflow());
                           return made;
                         });
    if (product.bias_sum.empty()) continue;
    module.replace_maker(
        product.bias_sum,
        [output = product.output](const graph::Node& node, const std::vector<TypedTensor>& arguments) {
          const std::size_t at = node.inputs[0] == output ? 0 : 1;
          const at::Tensor &sum = arguments[at].tensor, &bias = arguments[1 - at].tensor;
          return one(sum.expand(at::infer_size(sum.sizes(), bias.sizes())).contiguous(), arguments[at].type);
        });
  }
}

}  // namespace crumb::libtorch
