#include "models/torch/execute/simulate_accumulators.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <functional>
#include <numeric>

#include "models/torch/execute/ops/window.h"

namespace crumb::torch_ops {
namespace {

using graph::ProductLayer;
using graph::SimulatedLayer;
using Sizes = std::vector<std::int64_t>;

std::span<const std::int64_t> ints_of(const at::Tensor& codes) {
  return {codes.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(codes.numel())};
}

std::span<std::int64_t> writable(const at::Tensor& sums) {
  return {sums.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(sums.numel())};
}

/// int64, contiguous, on the CPU, of the same shape.
at::Tensor codes_of(const SimulatedLayer& layer, const at::Tensor& x) {
  const at::Tensor values = x.to(at::kCPU, at::kDouble).contiguous();
  const std::vector<std::int64_t> codes =
      layer.input_codes({values.const_data_ptr<double>(), static_cast<std::size_t>(values.numel())});
  const at::Tensor made = at::empty(values.sizes(), at::kLong);
  std::ranges::copy(codes, writable(made).begin());
  return made;
}

/// Sums times their scales, in the type of the inputs. `scale`: double, broadcasts.
at::Tensor result_of(const at::Tensor& sums, const at::Tensor& scale, const TypedTensor& like) {
  const at::Tensor made =
      graph::is_integer(like.type) ? wrapped(sums, like.type).tensor : (sums.to(at::kDouble) * scale);
  return made.to(like.tensor.device(), like.tensor.scalar_type());
}

at::Tensor scales_of(const SimulatedLayer& layer) { return at::tensor(layer.result_scale(), at::kDouble); }

/// The matrices of a batch, one after the other: [batch..., rows, terms].
at::Tensor multiply(SimulatedLayer& layer, const TypedTensor& input, bool turned) {
  at::Tensor x = codes_of(layer, input.tensor);
  const Sizes& w = layer.weight_shape();
  const bool first = layer.weight_first(), vector = x.dim() == 1;
  if (vector) x = x.unsqueeze(first ? 1 : 0);
  if (turned != first) x = x.transpose(-1, -2);
  if (x.size(-1) != static_cast<std::int64_t>(layer.length())) {
    throw Error("layer " + layer.name() + ": " + text_of(input) + " does not fit rows of " +
                std::to_string(layer.length()) + " terms");
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
  at::Tensor y = result_of(sums, scale, input);
  if (first) y = y.transpose(-1, -2);
  if (w.size() == 1) y = y.squeeze(first ? -2 : -1);
  if (vector) y = y.squeeze(first || w.size() == 1 ? -1 : -2);
  return y.contiguous();
}

graph::WindowSteps steps_of(const Call& call, const at::Tensor& x, const SimulatedLayer& layer) {
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

/// [n, channels, places...].
at::Tensor convolve(SimulatedLayer& layer, const Call& call) {
  const bool last = call.node().domain == graph::kChannelsLastDomain;
  const at::Tensor x = last ? call.tensor(0).movedim(-1, 1) : call.tensor(0);
  const graph::WindowSteps steps = steps_of(call, x, layer);
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
  layer.convolve(ints_of(codes_of(layer, x)), steps, writable(sums), at::get_num_threads());
  at::Tensor y = result_of(sums, scales_of(layer).reshape(one), call.in(0));
  if (call.has(2) && !layer.bias_inside()) y = y + call.tensor(2).reshape(one);
  return last ? y.movedim(1, -1).contiguous() : y;
}

Outputs run(SimulatedLayer& layer, const graph::Node& node, const std::vector<TypedTensor>& arguments) {
  const Call call(node, arguments);
  if (layer.kind() != ProductLayer::Kind::kMatrix) return one(convolve(layer, call), call.type(0));
  const std::size_t at = layer.weight_first() ? 1 : 0;
  const bool turned = node.is("Gemm") && call.int_or(at == 0 ? "transA" : "transB", 0) != 0;
  at::Tensor y = multiply(layer, call.in(at), turned);
  if (const float alpha = call.float_or("alpha", 1); alpha != 1) y = y * alpha;
  if (call.has(2) && !layer.bias_inside()) y = at::add(y, call.tensor(2), call.float_or("beta", 1));
  return one(y, call.type(at));
}

}  // namespace

void simulate(GraphModule& module, const graph::AccumulatorSimulation& simulation) {
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

}  // namespace crumb::torch_ops
