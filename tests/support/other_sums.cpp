// Another machine's library, as far as one machine can show it: with CRUMB_OTHER_SUMS=SEED in the environment LibTorch's
// float32 products and sums on the CPU add up in another order, which depends on the operands' sizes, strides, alignment
// and on the seed. That is what libraries do (MKL by the processor, oneDNN by the layout), so what two programs compute
// around one of these operators is equal to rounding and no further; what one program computes twice is the same.
//
// Products and sums add up in one of four orders: the library's, the terms turned around, the first half and the second,
// the even terms and the odd ones. The logistic function and the hyperbolic tangent may be off by one unit in the last
// place. Linked into the executables of the tests, and into a second engine for the crumb command (CRUMB_ENGINE).
#include <ATen/ATen.h>
#include <ATen/ops/_convolution_native.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/split_mix.h"

namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

enum class Order { kAsIs, kReversed, kHalves, kEvenAndOdd };

std::uint64_t seed() {
  static const std::uint64_t kSeed = std::strtoull(std::getenv("CRUMB_OTHER_SUMS"), nullptr, 10);
  return kSeed;
}

/// Of sizes, strides and alignment; of no value.
std::uint64_t layout_of(std::initializer_list<Tensor> tensors) {
  std::uint64_t hash = seed() * crumb::kSplitMixStep + 1;
  const auto add = [&](std::uint64_t part) { hash = crumb::split_mix(hash + part); };
  for (const Tensor& tensor : tensors) {
    for (const std::int64_t size : tensor.sizes()) add(static_cast<std::uint64_t>(size));
    for (const std::int64_t stride : tensor.strides()) add(static_cast<std::uint64_t>(stride));
    add(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 64);
  }
  return hash;
}

Order order_of(std::initializer_list<Tensor> tensors) { return static_cast<Order>(layout_of(tensors) % 4); }

bool is_float(std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.scalar_type() != at::kFloat) return false;
  }
  return true;
}

/// a b along a's last axis and b's last but one. `product`: the library's.
template <class Product>
Tensor in_order(Order order, const Tensor& a, const Tensor& b, const Product& product) {
  const std::int64_t terms = a.size(-1);
  if (terms < 2 || order == Order::kAsIs) return product(a, b);
  if (order == Order::kReversed) return product(a.flip(-1), b.flip(-2));
  const auto part = [&](std::int64_t first, std::int64_t end, std::int64_t step) {
    return product(a.slice(-1, first, end, step), b.slice(-2, first, end, step));
  };
  if (order == Order::kHalves) return part(0, terms / 2, 1) + part(terms / 2, terms, 1);
  return part(0, terms, 2) + part(1, terms, 2);
}

Tensor library_mm(const Tensor& a, const Tensor& b) {
  Tensor out = at::empty({0}, a.options());
  return at::mm_out(out, a, b);
}

Tensor library_bmm(const Tensor& a, const Tensor& b) {
  Tensor out = at::empty({0}, a.options());
  return at::bmm_out(out, a, b);
}

bool is_plain(const Scalar& beta, const Scalar& alpha) {
  return beta.toDouble() == 1 && alpha.toDouble() == 1;
}

Tensor other_mm(const Tensor& a, const Tensor& b) {
  if (!is_float({a, b}) || a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0)) return library_mm(a, b);
  return in_order(order_of({a, b}), a, b, library_mm);
}

Tensor other_addmm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta,
                   const Scalar& alpha) {
  const Order order = is_float({a, b, c}) && a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0)
                          ? order_of({a, b, c})
                          : Order::kAsIs;
  if (order == Order::kAsIs || !is_plain(beta, alpha)) {
    Tensor out = at::empty({0}, a.options());
    return at::addmm_out(out, c, a, b, beta, alpha);
  }
  return in_order(order, a, b, library_mm) + c;
}

Tensor other_bmm(const Tensor& a, const Tensor& b) {
  if (!is_float({a, b}) || a.dim() != 3 || b.dim() != 3 || a.size(2) != b.size(1)) return library_bmm(a, b);
  return in_order(order_of({a, b}), a, b, library_bmm);
}

Tensor other_baddbmm(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta,
                     const Scalar& alpha) {
  const Order order = is_float({a, b, c}) && a.dim() == 3 && b.dim() == 3 && a.size(2) == b.size(1)
                          ? order_of({a, b, c})
                          : Order::kAsIs;
  if (order == Order::kAsIs || !is_plain(beta, alpha)) {
    Tensor out = at::empty({0}, a.options());
    return at::baddbmm_out(out, c, a, b, beta, alpha);
  }
  return in_order(order, a, b, library_bmm) + c;
}

Tensor other_mv(const Tensor& a, const Tensor& x) {
  TORCH_CHECK(a.dim() == 2 && x.dim() == 1 && a.size(1) == x.size(0), "mv: ", a.sizes(), " and ", x.sizes());
  return other_mm(a, x.unsqueeze(1)).squeeze(1);
}

Tensor other_dot(const Tensor& x, const Tensor& y) {
  TORCH_CHECK(x.dim() == 1 && y.dim() == 1 && x.size(0) == y.size(0), "dot: ", x.sizes(), " and ", y.sizes());
  return other_mm(x.unsqueeze(0), y.unsqueeze(1)).squeeze();
}

/// Which taps are among the first part, of the weight's shape with one for the output channels.
Tensor first_taps(Order order, const Tensor& weight, bool transposed) {
  std::vector<std::int64_t> shape = weight.sizes().vec();
  shape[transposed ? 1 : 0] = 1;
  const std::int64_t taps = c10::multiply_integers(shape);
  const Tensor place = at::arange(taps, at::kLong);
  return (order == Order::kEvenAndOdd ? place.remainder(2).eq(0) : place.lt(taps / 2)).view(shape);
}

/// In the place of _convolution, which is what tracing records.
Tensor other_convolution(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                         IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                         IntArrayRef output_padding, std::int64_t groups, bool benchmark, bool deterministic,
                         bool cudnn_enabled, bool allow_tf32) {
  const auto library = [&](const Tensor& input, const Tensor& taps, const OptionalTensor& start) {
    return at::native::_convolution(input, taps, start, stride, padding, dilation, transposed, output_padding,
                                    groups, benchmark, deterministic, cudnn_enabled, allow_tf32);
  };
  const Order order = is_float({x, weight}) ? order_of({x, weight}) : Order::kAsIs;
  if (order == Order::kAsIs || !x.isfinite().all().item<bool>()) return library(x, weight, bias);
  const std::int64_t channels = transposed ? 0 : 1;
  if (order == Order::kReversed && groups == 1 && weight.size(channels) > 1) {
    return library(x.flip(x.dim() - weight.dim() + 1), weight.flip(channels), bias);
  }
  const Tensor first = first_taps(order, weight, transposed), none = at::zeros({}, weight.options());
  return library(x, at::where(first, weight, none), {}) + library(x, at::where(first, none, weight), bias);
}

Tensor library_sum(const Tensor& x, at::OptionalIntArrayRef axes, bool keeps,
                   std::optional<at::ScalarType> type) {
  const bool is_integer = at::isIntegralType(x.scalar_type(), true);
  Tensor out = at::empty({0}, x.options().dtype(type.value_or(is_integer ? at::kLong : x.scalar_type())));
  return at::sum_out(out, x, axes, keeps, type);
}

/// Along the axes that go, in another order.
Tensor reordered(const Tensor& x, at::OptionalIntArrayRef axes) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < x.dim(); ++i) all.push_back(i);
  if (axes && !axes->empty()) all = axes->vec();
  switch (order_of({x})) {
    case Order::kAsIs: return x;
    case Order::kReversed: return x.flip(all);
    case Order::kHalves: return x.roll(x.numel() == 0 ? 0 : x.size(all[0]) / 2, all[0]);
    case Order::kEvenAndOdd: break;
  }
  return at::cat({x.slice(all[0], 0, x.size(all[0]), 2), x.slice(all[0], 1, x.size(all[0]), 2)}, all[0]);
}

Tensor other_sum(const Tensor& x, at::OptionalIntArrayRef axes, bool keeps,
                 std::optional<at::ScalarType> type) {
  return library_sum(is_float({x}) && x.dim() > 0 ? reordered(x, axes) : x, axes, keeps, type);
}

Tensor other_mean(const Tensor& x, at::OptionalIntArrayRef axes, bool keeps,
                  std::optional<at::ScalarType> type) {
  Tensor out = at::empty({0}, x.options().dtype(type.value_or(x.scalar_type())));
  return at::mean_out(out, is_float({x}) && x.dim() > 0 ? reordered(x, axes) : x, axes, keeps, type);
}

/// One unit nearer to zero, everywhere or nowhere; what is exact (at 0) stays.
Tensor nudged(const Tensor& x, Tensor y) {
  if (!is_float({x}) || layout_of({x}) % 2 == 0) return y;
  return at::where(x.eq(0), y, at::nextafter(y, at::zeros_like(y)));
}

Tensor other_sigmoid(const Tensor& x) {
  Tensor out = at::empty({0}, x.options().dtype(c10::typeMetaToScalarType(c10::get_default_dtype())));
  if (at::isFloatingType(x.scalar_type()) || at::isComplexType(x.scalar_type()))
    out = at::empty({0}, x.options());
  return nudged(x, at::sigmoid_out(out, x));
}

Tensor other_tanh(const Tensor& x) {
  Tensor out = at::empty({0}, x.options().dtype(c10::typeMetaToScalarType(c10::get_default_dtype())));
  if (at::isFloatingType(x.scalar_type()) || at::isComplexType(x.scalar_type()))
    out = at::empty({0}, x.options());
  return nudged(x, at::tanh_out(out, x));
}

/// LibTorch warns of kernels that take another's place: not here.
struct Silent : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

torch::Library* registered() {
  const char* const wanted = std::getenv("CRUMB_OTHER_SUMS");
  if (!wanted || !*wanted) return nullptr;
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  auto* const library = new torch::Library(  // for as long as the program runs
      torch::Library::IMPL, "aten", c10::make_optional(c10::DispatchKey::CPU), __FILE__, __LINE__);
  library->impl("mm", TORCH_FN(other_mm));
  library->impl("addmm", TORCH_FN(other_addmm));
  library->impl("bmm", TORCH_FN(other_bmm));
  library->impl("baddbmm", TORCH_FN(other_baddbmm));
  library->impl("mv", TORCH_FN(other_mv));
  library->impl("dot", TORCH_FN(other_dot));
  library->impl("_convolution", TORCH_FN(other_convolution));
  library->impl("sum.dim_IntList", TORCH_FN(other_sum));
  library->impl("mean.dim", TORCH_FN(other_mean));
  library->impl("sigmoid", TORCH_FN(other_sigmoid));
  library->impl("tanh", TORCH_FN(other_tanh));
  return library;
}

const torch::Library* const kRegistered = registered();

}  // namespace
