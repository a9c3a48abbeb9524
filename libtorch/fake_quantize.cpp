#include "libtorch/fake_quantize.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "libtorch/device_quantizer.h"
#include "libtorch/operators.h"
#include "libtorch/scaled_quantizer.h"
#include "quant/quantizer.h"

namespace crumb {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Plain = at::Tensor(const at::Tensor& x, std::string_view spec);
using Scaled = at::Tensor(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& zero_point,
                          std::string_view spec);

/// The operator of that overload, registered.
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* overload) {
  register_operators();
  return c10::Dispatcher::singleton().findSchemaOrThrow("crumb::fake_quantize", overload).typed<Signature>();
}

const c10::TypedOperatorHandle<Plain>& plain_operator() {
  static const auto handle = find_operator<Plain>("");
  return handle;
}

const c10::TypedOperatorHandle<Scaled>& scaled_operator() {
  static const auto handle = find_operator<Scaled>("scaled");
  return handle;
}

int threads() { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

std::vector<uint64_t> shape_of(const at::Tensor& x) { return {x.sizes().begin(), x.sizes().end()}; }

void check_tensor(const at::Tensor& tensor, const char* name) {
  const auto fail = [&](const std::string& found) {
    throw Error("fake_quantize: " + std::string(name) + " is " + found +
                ", expected a dense tensor of floats (float32, float64, float16 or bfloat16)");
  };
  if (!tensor.defined()) fail("an undefined tensor");
  const at::ScalarType type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kHalf && type != at::kBFloat16) {
    fail("of type " + std::string(c10::toString(type)));
  }
  if (tensor.layout() != at::kStrided) fail("not strided");
}

/// The tensor's values in row-major order as float32 on the CPU; the tensor itself where that is what it is.
at::Tensor to_floats(const at::Tensor& tensor) {
  return tensor.to(tensor.options().device(at::kCPU).dtype(at::kFloat)).contiguous();
}

at::Tensor empty_floats(at::IntArrayRef shape) { return at::empty(shape, at::TensorOptions(at::kFloat)); }

/// A result in the type and on the device of the tensor it belongs to.
at::Tensor like(const at::Tensor& result, const at::Tensor& tensor) {
  return result.to(tensor.options().requires_grad(std::nullopt));
}

/// The elements of a contiguous tensor, to read and to write.
std::span<const float> span_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

template <class T = float>
std::span<T> writable(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<T>(), static_cast<size_t>(tensor.numel())};
}

at::Tensor tensor_of(std::span<const float> values) {
  at::Tensor tensor = empty_floats({static_cast<int64_t>(values.size())});
  std::ranges::copy(values, writable(tensor).begin());
  return tensor;
}

FoundScales scales_of(const QuantizedTensor& quantized) {
  const RowDecoder decoder(quantized.view());
  const uint64_t blocks = quantized.layout.blocks();
  FoundScales found{.scale = empty_floats({static_cast<int64_t>(blocks)}), .zero_point = {}};
  for (uint64_t b = 0; b < blocks; ++b) writable(found.scale)[b] = decoder.scale(b);
  if (quantized.encoding.zero == ZeroPoint::kNone) return found;
  found.zero_point = at::empty_like(found.scale);
  for (uint64_t b = 0; b < blocks; ++b) writable(*found.zero_point)[b] = decoder.zero_point(b);
  return found;
}

/// What an operator's text says, and the shape in which its blocks lie: of tokens, each a row.
struct Layout {
  QuantSpec spec;
  std::vector<uint64_t> shape;
};

Layout layout_of(std::string_view text, const at::Tensor& x) {
  QuantSpec spec = QuantSpec::parse_either(text);
  if (!spec.is_dynamic()) return {spec, shape_of(x)};
  spec.granularity = Granularity::kChannel;
  const auto last = static_cast<uint64_t>(x.dim() == 0 ? 1 : x.size(-1));
  return {spec, {last == 0 ? 0 : static_cast<uint64_t>(x.numel()) / last, last}};
}

BlockScales spans_of(const at::Tensor& scale, const OptionalTensor& zero_point) {
  return {span_of(scale), zero_point ? span_of(*zero_point) : std::span<const float>()};
}

/// y, and dy/dx as a bool tensor where `pass` is wanted.
at::Tensor run_plain(const at::Tensor& x, std::string_view text, at::Tensor* pass) {
  check_tensor(x, "x");
  const auto [spec, shape] = layout_of(text, x);
  if (x.is_meta()) {
    ScaledQuantizer::blocks(spec, shape);
    if (pass) *pass = at::empty(x.sizes(), x.options().dtype(at::kBool));
    return at::empty(x.sizes(), x.options());
  }
  const at::Tensor values = to_floats(x);
  const at::Tensor out = empty_floats(x.sizes());
  const QuantizedTensor quantized =
      quantize(spec, span_of(values), shape, {.threads = threads(), .name = "x", .codes = false});
  const FoundScales found = scales_of(quantized);
  std::vector<float> codebook(quantized.codebook.size() / sizeof(float));
  if (!codebook.empty()) std::memcpy(codebook.data(), quantized.codebook.data(), quantized.codebook.size());
  const ScaledQuantizer quantizer(spec, shape, spans_of(found.scale, found.zero_point), codebook);
  quantizer.values(span_of(values), writable(out));
  if (pass) {
    const at::Tensor inside = at::empty(x.sizes(), at::TensorOptions(at::kBool));
    quantizer.pass(span_of(values), writable<bool>(inside));
    *pass = inside.to(x.device());
  }
  return like(out, x);
}

/// Learned scales and zero points as the arithmetic wants them, checked.
struct ScaleTensors {
  at::Tensor scale;
  OptionalTensor zero_point;

  ScaleTensors(const at::Tensor& s, const OptionalTensor& z) {
    check_tensor(s, "scale");
    scale = to_floats(s);
    if (!z || !z->defined()) return;
    check_tensor(*z, "zero_point");
    zero_point = to_floats(*z);
  }
};

/// Where x lies on a device that has its own way.
std::optional<DeviceQuantizer> device_quantizer(const QuantSpec& spec, const at::Tensor& x) {
  return x.is_cpu() ? std::nullopt : DeviceQuantizer::of(spec, x.sizes(), x.device());
}

/// As float32 where x lies.
at::Tensor there(const OptionalTensor& numbers, const at::Tensor& x) {
  return numbers && numbers->defined() ? numbers->detach().to(x.device(), at::kFloat) : at::Tensor();
}

/// y, and the codebook that palettes learned where it is wanted.
at::Tensor run_scaled(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& zero_point,
                      std::string_view text, at::Tensor* codebook) {
  const QuantSpec spec = QuantSpec::parse_either(text);
  check_tensor(x, "x");
  if (x.is_meta()) {
    const uint64_t blocks = ScaledQuantizer::blocks(spec, shape_of(x));
    if (static_cast<uint64_t>(scale.numel()) != blocks) {
      throw Error("fake_quantize: " + spec.to_string() + " needs " + std::to_string(blocks) +
                  " scales, found " + std::to_string(scale.numel()));
    }
    return at::empty(x.sizes(), x.options());
  }
  if (const auto elsewhere = device_quantizer(spec, x)) {
    return like(elsewhere->values(x.to(at::kFloat), there(scale, x), there(zero_point, x)), x);
  }
  const ScaleTensors scales(scale, zero_point);
  const at::Tensor values = to_floats(x);
  const at::Tensor out = empty_floats(x.sizes());
  ScaledQuantizer quantizer(spec, shape_of(x), spans_of(scales.scale, scales.zero_point));
  if (spec.number->learned) {
    const std::vector<float> learned = quantizer.learn(span_of(values));
    if (codebook) *codebook = tensor_of(learned);
  }
  quantizer.values(span_of(values), writable(out));
  return like(out, x);
}

class PlainFunction : public torch::autograd::Function<PlainFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::string& spec) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor pass;
    at::Tensor y = run_plain(x, spec, &pass);
    context->save_for_backward({pass});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    // In LibTorch's own operators, so that it can be differentiated again.
    return {at::where(context->get_saved_variables()[0], grads[0], at::zeros({}, grads[0].options())), {}};
  }
};

class ScaledFunction : public torch::autograd::Function<ScaledFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& scale, const OptionalTensor& zero_point,
                            const std::string& spec) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    at::Tensor codebook;
    at::Tensor y = run_scaled(x, scale, zero_point, spec, &codebook);
    context->save_for_backward({x, scale, zero_point.value_or(at::Tensor()), codebook});
    context->saved_data["spec"] = spec;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    if (at::GradMode::is_enabled()) {
      throw Error("fake_quantize with given scales is differentiable once; drop create_graph");
    }
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &scale = saved[1], &zero_point = saved[2], &codebook = saved[3];
    const auto wanted = [&](size_t input, const at::Tensor& tensor) {
      return tensor.defined() && context->needs_input_grad(input);  // an input that is absent has no index
    };
    if (x.is_meta()) {
      const auto empty = [&](size_t input, const at::Tensor& tensor) {
        return wanted(input, tensor) ? at::empty_like(tensor) : at::Tensor();
      };
      return {empty(0, x), empty(1, scale), empty(2, zero_point), {}};
    }
    const QuantSpec spec = QuantSpec::parse_either(context->saved_data["spec"].toStringRef());
    if (const auto elsewhere = device_quantizer(spec, x)) {
      const DeviceQuantizer::Gradients found = elsewhere->gradients(
          x.to(at::kFloat), there(scale, x), there(zero_point, x), grads[0].to(at::kFloat));
      const auto wanted_like = [&](size_t input, const at::Tensor& result, const at::Tensor& tensor) {
        return wanted(input, tensor) ? like(result, tensor) : at::Tensor();
      };
      return {wanted_like(0, found.x, x),
              wanted_like(1, found.scale, scale),
              wanted_like(2, found.zero, zero_point),
              {}};
    }
    const ScaleTensors scales(scale, zero_point);
    const at::Tensor values = to_floats(x), grad = to_floats(grads[0]);
    const ScaledQuantizer quantizer(spec, shape_of(x), spans_of(scales.scale, scales.zero_point),
                                    codebook.defined() ? span_of(codebook) : std::span<const float>());
    const auto floats = [&](size_t input, const at::Tensor& tensor) {
      return wanted(input, tensor) ? empty_floats(tensor.sizes()) : at::Tensor();
    };
    // Memory of a gradient that nobody else holds becomes that of dx.
    const bool is_ours =
        !grads[0].is_same(grad) || (grad.use_count() == 2 && grad.storage().use_count() == 1);
    const at::Tensor dx = is_ours && wanted(0, x) ? grad : floats(0, x);
    const at::Tensor dscale = floats(1, scale), dzero = floats(2, zero_point);
    const auto span = [](const at::Tensor& tensor) {
      return tensor.defined() ? writable(tensor) : std::span<float>();
    };
    quantizer.gradients(span_of(values), span_of(grad), {span(dx), span(dscale), span(dzero)});
    const auto typed = [](const at::Tensor& result, const at::Tensor& tensor) {
      return result.defined() ? like(result, tensor) : result;
    };
    return {typed(dx, x), typed(dscale, scale), typed(dzero, zero_point), {}};
  }
};

at::Tensor plain_kernel(const at::Tensor& x, std::string_view spec) { return run_plain(x, spec, nullptr); }

at::Tensor scaled_kernel(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& zero_point,
                         std::string_view spec) {
  return run_scaled(x, scale, zero_point, spec, nullptr);
}

/// Whether a tensor carries a gradient backward, or a tangent forward (which the functions refuse aloud).
bool is_differentiated(const at::Tensor& tensor) {
  return tensor.defined() &&
         ((at::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(0).defined());
}

at::Tensor plain_autograd(const at::Tensor& x, std::string_view spec) {
  if (is_differentiated(x)) return PlainFunction::apply(x, std::string(spec));
  const at::AutoDispatchBelowADInplaceOrView guard;
  return plain_operator().call(x, spec);
}

at::Tensor scaled_autograd(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& zero_point,
                           std::string_view spec) {
  if (is_differentiated(x) || is_differentiated(scale) || (zero_point && is_differentiated(*zero_point))) {
    return ScaledFunction::apply(x, scale, zero_point, std::string(spec));
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return scaled_operator().call(x, scale, zero_point, spec);
}

}  // namespace

void detail::define_fake_quantize(torch::Library& library) {
  library.def("fake_quantize(Tensor x, str spec) -> Tensor");
  library.def("fake_quantize.scaled(Tensor x, Tensor scale, Tensor? zero_point, str spec) -> Tensor");
  constexpr auto kEverywhere = c10::DispatchKey::CompositeExplicitAutograd;
  library.impl("fake_quantize", torch::dispatch(kEverywhere, TORCH_FN(plain_kernel)));
  library.impl("fake_quantize.scaled", torch::dispatch(kEverywhere, TORCH_FN(scaled_kernel)));
  library.impl("fake_quantize", torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(plain_autograd)));
  library.impl("fake_quantize.scaled",
               torch::dispatch(c10::DispatchKey::Autograd, TORCH_FN(scaled_autograd)));
}

at::Tensor fake_quantize(const at::Tensor& x, const std::string& spec) {
  if (!x.defined()) check_tensor(x, "x");  // the dispatcher would find no device to ask
  return plain_operator().call(x, spec);
}

at::Tensor fake_quantize(const at::Tensor& x, const QuantSpec& spec) {
  return fake_quantize(x, spec.to_string());
}

at::Tensor fake_quantize(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& zero_point,
                         const std::string& spec) {
  if (!x.defined()) check_tensor(x, "x");
  return scaled_operator().call(x, scale, zero_point, spec);
}

at::Tensor fake_quantize(const at::Tensor& x, const at::Tensor& scale, const OptionalTensor& zero_point,
                         const QuantSpec& spec) {
  return fake_quantize(x, scale, zero_point, spec.to_string());
}

FoundScales find_scales(const at::Tensor& x, const QuantSpec& spec) {
  check_tensor(x, "x");
  const at::NoGradGuard no_grad;
  const at::Tensor values = to_floats(x);
  return scales_of(
      quantize(spec, span_of(values), shape_of(x), {.threads = threads(), .name = "x", .codes = false}));
}

}  // namespace crumb
