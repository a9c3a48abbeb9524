#include "qat/weights/bits_quantizer.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "libtorch/fake_quantize.h"
#include "qat/weights/scales.h"
#include "qat/weights/weight_codes.h"

namespace crumb::qat {
namespace {

constexpr double kMemory = 0.95;  // decay of the moving average

/// Returns the largest magnitude of the grid, which the clip maps to.
double largest(const QuantSpec& spec) { return spec.number->largest_value(spec.range); }

}  // namespace

bool has_learnable_bits(const QuantSpec& spec) {
  const bool channels = spec.granularity == Granularity::kTensor || spec.granularity == Granularity::kChannel;
  return !spec.block_format && spec.number->grid == Grid::kInteger && spec.number->is_signed &&
         spec.number->has_range() && spec.zero == ZeroPoint::kNone && channels;
}

BitsQuantizer::BitsQuantizer(const QuantSpec& spec, int least, int most)
    : spec_(spec), least_(least), most_(most) {
  bits_ = register_parameter(
      "bits", at::full({1}, std::clamp(spec.number->bits, least, most), at::TensorOptions(at::kFloat)));
  fixed_ = register_buffer("width", at::zeros({1}, at::kLong));
  pressure_ = register_buffer("pressure", at::zeros({1}, at::kDouble));
}

void BitsQuantizer::start(at::Tensor& latent) {
  const torch::NoGradGuard no_gradients;
  const QuantSpec now = spec();
  const at::Tensor found = find_scales(latent, now).scale;
  set_parameter(*this, "clip", clip_, at::where(found > 0, found, at::ones_like(found)) * largest(now));
  values_ = latent.numel() / std::max<std::int64_t>(1, found.numel());
}

double BitsQuantizer::real_bits() const { return std::clamp<double>(bits_.item<float>(), least_, most_); }

bool BitsQuantizer::is_fixed() const { return fixed_.item<std::int64_t>() > 0; }

int BitsQuantizer::width() const {
  const auto fixed = fixed_.item<std::int64_t>();
  return fixed > 0 ? static_cast<int>(fixed) : static_cast<int>(std::nearbyint(real_bits()));
}

void BitsQuantizer::fix(int width) {
  const torch::NoGradGuard no_gradients;
  clamp();
  fixed_.fill_(width);
  bits_.mutable_grad().reset();
}

void BitsQuantizer::clamp() {
  const torch::NoGradGuard no_gradients;
  bits_.clamp_(least_, most_);
}

double BitsQuantizer::pressure() const { return pressure_.item<double>(); }

at::Tensor BitsQuantizer::scale() const {
  const QuantSpec now = spec();
  return used_scales(now, clip_ / largest(now), lsq_factor(now, values_));
}

at::Tensor BitsQuantizer::slope(const at::Tensor& latent, const at::Tensor& made) const {
  const QuantSpec now = spec();
  const at::Tensor x = latent.detach(), y = made.detach();
  std::vector<std::int64_t> shape(static_cast<std::size_t>(std::max<std::int64_t>(1, x.dim())), 1);
  at::Tensor s = scale().detach().to(x.device());
  shape[0] = s.numel();
  s = s.view(shape);
  // d/dn over s: of the largest magnitude, and, negative, of s itself. y - x is (q - w / s) s.
  const double growth = std::numbers::ln2 * std::exp2(width() - 1), k = -growth / largest(now);
  const double low = now.number->least_code(now.range), high = now.number->greatest_code(now.range);
  const at::Tensor above =
      now.range == Range::kFull ? (y * ((k * high + growth) / high)) : at::zeros({}, x.options());
  return at::where(x > s * high, above, at::where(x < s * low, at::zeros({}, x.options()), (y - x) * k));
}

at::Tensor BitsQuantizer::quantized(const at::Tensor& latent) {
  const at::Tensor made = fake_quantize(latent, scale(), std::nullopt, spec());
  if (!at::GradMode::is_enabled() || !bits_.requires_grad() || is_fixed()) return made;
  // Zero in the forward pass; gives the slope in the backward pass.
  const at::Tensor bits = bits_.view_as(bits_);
  bits.register_hook([pressure = pressure_](const at::Tensor& gradient) {
    const torch::NoGradGuard no_gradients;
    pressure.mul_(kMemory).add_(gradient.detach().abs().to(pressure.device(), at::kDouble), 1 - kMemory);
  });
  return made + (bits - bits.detach()) * slope(latent, made);
}

QuantizedTensor BitsQuantizer::freeze(const at::Tensor& latent) {
  const torch::NoGradGuard no_gradients;
  return codes_under(spec(), latent, scale());
}

at::Tensor BitsQuantizer::scales(const at::Tensor&) {
  const torch::NoGradGuard no_gradients;
  return scale();
}

}  // namespace crumb::qat
