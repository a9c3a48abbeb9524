// GridSample and AffineGrid: an input read at positions that are data.
#include <ATen/ATen.h>

#include <cmath>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

enum class Padding { kZeros, kBorder, kReflection };
enum class Taking { kLinear, kNearest, kCubic };

struct Sampler {
  Taking taking = Taking::kLinear;
  Padding padding = Padding::kZeros;
  bool corners = false;
};

Sampler sampler_of(const Call& call) {
  Sampler sampler;
  const std::string mode = call.text_or("mode", "linear"), padding = call.text_or("padding_mode", "zeros");
  sampler.corners = call.int_or("align_corners", 0) != 0;
  if (mode == "nearest") {
    sampler.taking = Taking::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    sampler.taking = Taking::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    call.fail("expected mode linear, nearest or cubic, found another");
  }
  if (padding == "border") {
    sampler.padding = Padding::kBorder;
  } else if (padding == "reflection") {
    sampler.padding = Padding::kReflection;
  } else if (padding != "zeros") {
    call.fail("expected padding_mode zeros, border or reflection, found another");
  }
  return sampler;
}

/// Reflects at the ends low and high, as often as it takes.
at::Tensor reflected(const at::Tensor& x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return at::full_like(x, low);
  const at::Tensor there = (x - low).remainder(2 * range);
  return low + at::minimum(there, 2 * range - there);
}

/// One axis of the positions to read: coordinates in elements, and how they are brought inside.
struct AxisPlaces {
  Sampler sampler;
  std::int64_t size;
  at::Tensor x;  ///< [batch, positions]

  double low() const { return sampler.corners ? 0 : -0.5; }
  double high() const { return static_cast<double>(size) - (sampler.corners ? 1 : 0.5); }

  AxisPlaces(const Sampler& how, std::int64_t elements, const at::Tensor& normalized)
      : sampler(how), size(elements) {
    const auto many = static_cast<double>(size);
    x = sampler.corners ? (normalized + 1) / 2 * (many - 1) : ((normalized + 1) * many - 1) / 2;
    x = at::nan_to_num(x, -1, 1e9, -1e9).clamp(-1e9, 1e9);
    if (sampler.taking == Taking::kNearest) x = x.round();
    const at::Tensor out = at::logical_or(x<low(), x> high());
    // A cubic reads past the border with the weights of the position itself.
    if (sampler.padding == Padding::kBorder && sampler.taking != Taking::kCubic)
      x = at::where(out, x.clamp(0, many - 1), x);
    if (sampler.padding == Padding::kReflection) x = at::where(out, reflected(x, low(), high()), x);
  }

  std::int64_t taps() const {
    return sampler.taking == Taking::kNearest ? 1 : sampler.taking == Taking::kLinear ? 2 : 4;
  }
  /// The element that tap k reads, as a whole number that may lie outside.
  at::Tensor place(std::int64_t k) const { return x.floor().detach() + (taps() == 4 ? k - 1 : k); }

  /// The weight of tap k; 0 where it reads what is not there.
  at::Tensor weight(std::int64_t k) const {
    at::Tensor weight = at::ones_like(x);
    const at::Tensor distance = (x - place(k)).abs();
    if (taps() == 2) weight = 1 - distance;
    if (taps() == 4) {
      constexpr double a = -0.75;
      weight = k == 1 || k == 2 ? ((a + 2) * distance - (a + 3)) * distance * distance + 1
                                : ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
    }
    if (sampler.padding != Padding::kZeros) return weight;
    const at::Tensor at_place = place(k);
    return weight.masked_fill(at::logical_or(at_place < 0, at_place >= size), 0);
  }
  at::Tensor index(std::int64_t k) const {
    at::Tensor at_place = place(k);
    if (sampler.padding == Padding::kReflection) at_place = reflected(at_place, low(), high());
    return at_place.clamp(0, static_cast<double>(size - 1)).to(at::kLong);
  }
};

/// Any number of spatial axes, tap by tap: the way of what LibTorch has no kernel for.
at::Tensor sampled(const Call& call, const at::Tensor& x, const at::Tensor& grid, const Sampler& sampler) {
  const std::int64_t batches = x.size(0), channels = x.size(1), spatial = x.dim() - 2;
  const at::Tensor flat = x.reshape({batches, channels, -1});
  std::vector<AxisPlaces> axes;
  std::int64_t taps = 1;
  for (std::int64_t i = 0; i < spatial; ++i) {
    const at::Tensor along = grid.select(-1, spatial - 1 - i).reshape({batches, -1});
    axes.emplace_back(sampler, x.size(i + 2), along);
    taps *= axes.back().taps();
    if (taps > 4096) call.fail("too many spatial axes: " + text_of(call.in(0)));
  }
  at::Tensor made;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    at::Tensor index, weight;
    std::int64_t left = tap;
    for (const AxisPlaces& axis : axes) {
      const std::int64_t k = left % axis.taps();
      left /= axis.taps();
      index = index.defined() ? index * axis.size + axis.index(k) : axis.index(k);
      weight = weight.defined() ? weight * axis.weight(k) : axis.weight(k);
    }
    const at::Tensor read = flat.gather(2, index.unsqueeze(1).expand({batches, channels, index.size(1)}));
    const at::Tensor part = read * weight.unsqueeze(1);
    made = made.defined() ? made + part : part;
  }
  Ints shape(grid.sizes().begin(), grid.sizes().end() - 1);
  shape.insert(shape.begin() + 1, channels);
  return made.reshape(shape);
}

Outputs grid_sample(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const at::Tensor& grid = call.tensor(1);
  expect_least_rank(call, 0, 3);
  expect_rank(call, 1, x.dim());
  if (grid.size(-1) != x.dim() - 2 || grid.size(0) != x.size(0)) {
    call.fail("cannot sample " + text_of(call.in(0)) + " at " + text_of(call.in(1)));
  }
  const Sampler sampler = sampler_of(call);
  Ints shape(grid.sizes().begin(), grid.sizes().end() - 1);
  shape.insert(shape.begin() + 1, x.size(1));
  if (c10::multiply_integers(shape) == 0) return moved(call, x.new_empty(shape));
  if (x.numel() == 0) call.fail("cannot sample " + text_of(call.in(0)));
  const bool wide = x.scalar_type() == at::kDouble || !x.is_floating_point();
  const at::ScalarType computed = x.is_complex() ? x.scalar_type() : wide ? at::kDouble : at::kFloat;
  const at::Tensor from = x.to(computed), at_places = grid.to(wide ? at::kDouble : at::kFloat);
  at::Tensor made;
  const bool cubic = sampler.taking == Taking::kCubic;
  const bool known = (x.dim() == 4 || (x.dim() == 5 && !cubic)) && !x.is_complex();
  if (known) {
    const std::int64_t mode = cubic ? 2 : sampler.taking == Taking::kNearest ? 1 : 0;
    made =
        at::grid_sampler(from, at_places, mode, static_cast<std::int64_t>(sampler.padding), sampler.corners);
  } else {
    made = sampled(call, from, at_places, sampler);
  }
  if (graph::is_integer(call.type(0))) made = made.trunc();
  return like_input(call, made);
}

Outputs affine_grid(const Call& call) {
  const at::Tensor& theta = call.tensor(0);
  expect_rank(call, 0, 3);
  const Ints size = call.ints(1);
  const auto spatial = static_cast<std::int64_t>(size.size()) - 2;
  if ((spatial != 2 && spatial != 3) || theta.size(1) != spatial || theta.size(2) != spatial + 1 ||
      theta.size(0) != size[0] || *std::min_element(size.begin(), size.end()) < 0) {
    call.fail("cannot make a grid of " + graph::text_of(size) + " from " + text_of(call.in(0)));
  }
  const at::ScalarType computed = theta.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor grid =
      at::affine_grid_generator(theta.to(computed), size, call.int_or("align_corners", 0) != 0);
  return like_input(call, grid);
}

constexpr OperatorRow kSamplingRows[] = {
    {"GridSample", grid_sample},
    {"AffineGrid", affine_grid},
};

}  // namespace

std::span<const OperatorRow> sampling_operators() { return kSamplingRows; }

}  // namespace crumb::libtorch
