#include "libtorch/device_quantizer.h"

#include <ATen/ATen.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/number/encoding.h"
#include "libtorch/pass_band.h"
#include "quant/code_grid.h"

namespace crumb {
namespace {

/// A float's rank among all floats; zeros of both signs are neighbours.
std::int64_t place_of(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : -static_cast<std::int64_t>(bits & 0x7FFFFFFF) - 1;
}
float at_place(std::int64_t place) {
  return place >= 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(place))
                    : -std::bit_cast<float>(static_cast<std::uint32_t>(-place - 1));
}

struct Table {
  std::vector<float> last, values;
};

Table table_of(const CodeGrid& grid) {
  const auto value = [&](std::int64_t place) {
    return grid.values[encode_ref(grid, at_place(place), 1.0F, 0.0F)];
  };
  const std::int64_t end = place_of(std::numeric_limits<float>::max());
  Table table;
  for (std::int64_t place = place_of(-std::numeric_limits<float>::max());; ++place) {
    const float here = value(place);
    table.values.push_back(here);
    if (value(end) == here) return table;
    std::int64_t in = place, out = end;
    while (out - in > 1) {
      const std::int64_t middle = in + (out - in) / 2;
      (value(middle) == here ? in : out) = middle;
    }
    table.last.push_back(at_place(in));
    place = in;
  }
}

at::Tensor column(const at::Tensor& numbers) { return numbers.flatten().unsqueeze(1); }

}  // namespace

const DeviceQuantizer::Steps& DeviceQuantizer::steps_of(const QuantSpec& spec, at::Device device) {
  static std::mutex mutex;
  static auto* known = new std::map<std::pair<std::string, std::string>, Steps>;  // outlives devices
  const std::scoped_lock lock(mutex);
  Steps& steps = (*known)[{spec.to_string(), device.str()}];
  if (steps.values.defined()) return steps;
  const CodeGrid grid = make_code_grid(*spec.number, spec.range, spec.round);
  const PassBand band(grid);
  const Table table = table_of(grid);
  const bool is_half = grid.number->grid == Grid::kHalfInteger;
  return steps = {.last = at::tensor(table.last).to(device),
                  .values = at::tensor(table.values).to(device),
                  .add = is_half ? grid.offset : 0.0F,
                  .is_half = is_half,
                  .lo = band.lo(),
                  .hi = band.hi(),
                  .shifts = grid.number->grid == Grid::kInteger,
                  .passes_scale = grid.number->grid != Grid::kBinary};
}

std::optional<DeviceQuantizer> DeviceQuantizer::of(const QuantSpec& spec, at::IntArrayRef shape,
                                                   at::Device device) {
  if (spec.round.rounding == Rounding::kStochastic || spec.number->learned || spec.block_format)
    return std::nullopt;
  const std::vector<std::uint64_t> sizes(shape.begin(), shape.end());
  if (spec.misfit(sizes) || spec.zero == ZeroPoint::kMinimum) return std::nullopt;  // which says why
  const Encoding encoding = spec.encoding(sizes);
  const EncodedLayout layout = encoded_layout(encoding, sizes).take("fake_quantize");
  const bool is_one = layout.blocks() == 1;
  if (layout.matrix.size() == 0 ||
      (!is_one && (encoding.block_rows != 1 || layout.matrix.cols % encoding.block_cols != 0)))
    return std::nullopt;
  DeviceQuantizer made;
  made.blocks_ = static_cast<std::int64_t>(layout.blocks());
  made.has_zero_ = spec.zero != ZeroPoint::kNone;
  made.steps_ = &steps_of(spec, device);
  return made;
}

void DeviceQuantizer::check(const at::Tensor& scale, const at::Tensor& zero) const {
  const auto refuse = [&](const char* what, const at::Tensor& numbers) {
    if (numbers.numel() != blocks_)
      throw Error("fake_quantize: " + std::to_string(blocks_) + " blocks need one " + what + " each, found " +
                  std::to_string(numbers.numel()));
  };
  refuse("scale", scale);
  if (zero.defined() != has_zero_)
    throw Error(std::string("fake_quantize: zero points are ") +
                (has_zero_ ? "not given, and the spec has them" : "given, and the spec has none"));
  if (has_zero_) refuse("zero point", zero);
}

at::Tensor DeviceQuantizer::blocks_of(const at::Tensor& x) const { return x.reshape({blocks_, -1}); }

/// v(q).
at::Tensor DeviceQuantizer::on_grid(const at::Tensor& ratio, const at::Tensor& zero) const {
  const at::Tensor u = steps_->shifts && zero.defined() ? ratio + column(zero) : ratio;
  const at::Tensor step = at::bucketize(u, steps_->last, /*out_int32=*/true);
  return steps_->values.index_select(0, step.flatten()).view(ratio.sizes());
}

at::Tensor DeviceQuantizer::values(const at::Tensor& x, const at::Tensor& scale,
                                   const at::Tensor& zero) const {
  check(scale, zero);
  const at::Tensor s = column(scale), v = blocks_of(x), is_open = s > 0;
  at::Tensor y = on_grid(at::where(is_open, v / s, 0.0F), zero);
  if (zero.defined()) y = y - column(zero);
  return (y * s + (v - v)).view(x.sizes());
}

DeviceQuantizer::Gradients DeviceQuantizer::gradients(const at::Tensor& x, const at::Tensor& scale,
                                                      const at::Tensor& zero, const at::Tensor& grad) const {
  constexpr float kFar = 0x1p126F;  // where x / s lies as s goes to 0
  const at::Tensor s = column(scale), v = blocks_of(x), g = blocks_of(grad), is_open = s > 0;
  const at::Tensor ratio = at::where(is_open, v / s, v.sign() * kFar);
  const at::Tensor u = zero.defined() && !steps_->is_half ? ratio + column(zero) : ratio + steps_->add;
  const at::Tensor inside = at::where(is_open, at::logical_and(u >= steps_->lo, u <= steps_->hi), v == 0);
  at::Tensor slope = on_grid(ratio, zero);
  if (zero.defined()) slope = slope - column(zero);
  if (steps_->passes_scale) slope = slope - at::where(inside, ratio, 0.0F);
  Gradients found{.x = at::where(inside, g, 0.0F).view(x.sizes()),
                  .scale = (g * slope).sum(1).view(scale.sizes()),
                  .zero = {}};
  if (zero.defined()) found.zero = (at::where(inside, 0.0F, g).sum(1) * -scale.flatten()).view(zero.sizes());
  return found;
}

}  // namespace crumb
