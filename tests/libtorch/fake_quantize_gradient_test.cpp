// Gradients of fake_quantize: Brevitas's golden values, the same written in LibTorch's own operators, finite
// differences of the straight-through surrogate, and where the gradient passes.
#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "formats/number/minifloat.h"
#include "libtorch/fake_quantize.h"
#include "libtorch/scaled_quantizer.h"
#include "quant/quantizer.h"
#include "tests/support/torch_doctest.h"
using crumb::fake_quantize;
using crumb::QuantSpec;
using torch::autograd::grad;

namespace {

std::vector<float> floats(const torch::Tensor& tensor) {
  const torch::Tensor copy = tensor.detach().to(torch::kFloat).contiguous();
  return {copy.const_data_ptr<float>(), copy.const_data_ptr<float>() + copy.numel()};
}

bool close(const torch::Tensor& a, const torch::Tensor& b, double tolerance) {
  return a.sizes() == b.sizes() &&
         torch::allclose(a.to(torch::kDouble), b.to(torch::kDouble), tolerance, tolerance);
}

/// A leaf with gradient, so that the tests read as formulas.
torch::Tensor leaf(const torch::Tensor& values) { return values.detach().clone().requires_grad_(); }

}  // namespace

TEST_CASE("gradient: Brevitas's learned threshold") {
  // brevitas.md, section 6: threshold 1, 4 bits, full range, scale = threshold / 8.
  const torch::Tensor x = leaf(torch::tensor({-2.0F, -0.9F, -0.31F, 0.0F, 0.26F, 0.95F, 1.7F}));
  const torch::Tensor threshold = leaf(torch::tensor({1.0F}));
  const torch::Tensor y = fake_quantize(x, threshold / 8, {}, "int4:tensor:range=full");
  CHECK(floats(y) == std::vector<float>{-1.0F, -0.875F, -0.25F, 0.0F, 0.25F, 0.875F, 0.875F});
  const auto g = grad({y.sum()}, {x, threshold});
  CHECK(floats(g[0]) == std::vector<float>{0, 1, 1, 1, 1, 0, 0});
  CHECK(g[1].item<double>() == doctest::Approx(0.825).epsilon(1e-6));
}

TEST_CASE("gradient: searched scales count as constants, and absmax blocks nothing") {
  torch::manual_seed(1);
  for (const std::string spec :
       {"int4:channel", "int8:group=8", "int2h:channel", "e2m1:channel", "nf4:group=8", "uint4:zero=int",
        "int4:group=8:scale=f16", "binary:tensor:search=percentile=100"}) {
    CAPTURE(spec);
    const torch::Tensor x = leaf(torch::randn({64, 16})), weights = torch::randn({64, 16});
    CHECK(torch::equal(grad({(fake_quantize(x, spec) * weights).sum()}, {x})[0], weights));
  }
  // An all-zero block passes too, with and without a zero on the grid.
  for (const std::string spec : {"int4:channel", "int2h:channel", "mxfp4:pad"}) {
    const torch::Tensor x = leaf(torch::zeros({2, 4}));
    CHECK(torch::equal(grad({fake_quantize(x, spec).sum()}, {x})[0], torch::ones({2, 4})));
  }
  // What percentile cuts off does not.
  const torch::Tensor x = leaf(torch::cat({torch::linspace(-1, 1, 99), torch::tensor({10.0F})}));
  const torch::Tensor g = grad({fake_quantize(x, "int4:tensor:search=percentile=99").sum()}, {x})[0];
  CHECK(g.sum().item<float>() == 99);
  CHECK(g[99].item<float>() == 0);
}

TEST_CASE("gradient: the same as written in LibTorch's operators, with learned scale and zero point") {
  torch::manual_seed(2);
  struct Case {
    std::string spec;
    double lo, hi;
  };
  for (const Case& c : {Case{"int4:channel", -7, 7}, Case{"int4:channel:range=full", -8, 7},
                        Case{"int2:channel", -1, 1}, Case{"ternary:channel", -1, 1},
                        Case{"uint4:channel:zero=float", 0, 15}, Case{"int8:channel:zero=float", -127, 127},
                        Case{"uint1:channel:zero=float", 0, 1}, Case{"int3h:channel", -4, 3}}) {
    CAPTURE(c.spec);
    const QuantSpec spec = QuantSpec::parse(c.spec);
    const bool half = spec.number->grid == crumb::Grid::kHalfInteger;
    const bool zero = spec.zero != crumb::ZeroPoint::kNone;
    const torch::Tensor x = torch::randn({5, 2011}), weights = torch::randn({5, 2011});
    const torch::Tensor scale = torch::rand({5}) * (2 / c.hi) + 0.05;
    const torch::Tensor point = torch::rand({5}) * (c.hi - c.lo) + c.lo;

    const torch::Tensor x1 = leaf(x), s1 = leaf(scale), z1 = leaf(point);
    const torch::Tensor y1 = fake_quantize(x1, s1, zero ? std::optional(z1) : std::nullopt, spec);
    std::vector<torch::Tensor> inputs1{x1, s1}, inputs2;
    if (zero) inputs1.push_back(z1);

    const torch::Tensor x2 = leaf(x), s2 = leaf(scale), z2 = leaf(point);
    const torch::Tensor s = s2.unsqueeze(1);
    const torch::Tensor z = zero ? z2.unsqueeze(1) : torch::full({5, 1}, half ? -0.5F : 0.0F);
    const torch::Tensor u = x2 / s + z;
    const torch::Tensor rounded = u + (torch::round(u) - u).detach();
    const torch::Tensor y2 = (torch::clamp(rounded, c.lo, c.hi) - z) * s;
    inputs2 = {x2, s2};
    if (zero) inputs2.push_back(z2);

    CHECK(torch::allclose(y1, y2, 1e-5, 1e-6));
    const auto g1 = grad({(y1 * weights).sum()}, inputs1), g2 = grad({(y2 * weights).sum()}, inputs2);
    CHECK(close(g1[0], g2[0], 1e-6));  // LibTorch multiplies by s and by 1 / s
    for (size_t i = 1; i < g1.size(); ++i) CHECK(close(g1[i], g2[i], 2e-3 * std::max(1.0, c.hi / 16)));
  }
}

TEST_CASE("gradient: finite differences of the smooth parts, every format and granularity") {
  // y~(x, s, z) = x + s e where the gradient passes (e: the rounding error, held) and (v - z) s where it does
  // not (v: the outermost value, held). Differentiated numerically in float64.
  torch::manual_seed(3);
  for (const crumb::NumberFormat& format : crumb::number_formats()) {
    if (format.scale_only) continue;
    for (const char* granularity : {":tensor", ":channel", ":group=4:pad", ":block=2x3:pad"}) {
      const bool zero = format.has_zero_point();
      const std::string text = std::string(format.name) + granularity + (zero ? ":zero=float" : "");
      CAPTURE(text);
      const QuantSpec spec = QuantSpec::parse(text);
      const torch::Tensor x = leaf(torch::randn({3, 7})), weights = torch::randn({3, 7}).to(torch::kDouble);
      const crumb::FoundScales found = find_scales(x, spec);
      const torch::Tensor s = leaf(found.scale * 0.7);
      const std::optional<torch::Tensor> z =
          zero ? std::optional(leaf(*found.zero_point + 0.3)) : std::nullopt;
      const torch::Tensor y = fake_quantize(x, s, z, spec);
      const torch::Tensor pass = grad({y.sum()}, {x}, {}, true)[0].to(torch::kDouble);
      std::vector<torch::Tensor> inputs{x, s};
      if (z) inputs.push_back(*z);
      const auto gradients = grad({(y * weights.to(torch::kFloat)).sum()}, inputs);

      // The block of each element, found by marking blocks with their numbers.
      const std::vector<uint64_t> shape{3, 7};
      const crumb::Encoding encoding = spec.encoding(shape);
      const crumb::EncodedLayout layout = crumb::encoded_layout(encoding, shape).take();
      std::vector<int64_t> blocks;
      for (uint64_t i = 0; i < 3; ++i) {
        for (uint64_t j = 0; j < 7; ++j) {
          blocks.push_back(static_cast<int64_t>(i / encoding.block_rows * layout.blocks_per_row +
                                                j / encoding.block_cols));
        }
      }
      const torch::Tensor block = torch::tensor(blocks);
      const auto of = [&](const torch::Tensor& t) {
        return t.detach().to(torch::kDouble).index({block}).reshape({3, 7});
      };
      const torch::Tensor x0 = x.detach().to(torch::kDouble), y0 = y.detach().to(torch::kDouble);
      const torch::Tensor zero0 =
          z ? z->detach().to(torch::kDouble) : torch::zeros({s.numel()}, torch::kDouble);
      const torch::Tensor value = y0 / of(s) + of(zero0);  // on the grid, before zero point and scale
      const bool binary = format.grid == crumb::Grid::kBinary;
      const auto surrogate = [&](const torch::Tensor& scale, const torch::Tensor& point) {
        if (binary) return (value * of(scale) * weights).sum();
        const torch::Tensor e = (y0 - x0) / of(s);
        return (torch::where(pass == 1, x0 + of(scale) * e, (value - of(point)) * of(scale)) * weights).sum();
      };
      const double step = 1e-6;
      const torch::Tensor s0 = s.detach().to(torch::kDouble);
      for (int64_t b = 0; b < s.numel(); ++b) {
        torch::Tensor up = s0.clone(), down = s0.clone();
        up[b] += step;
        down[b] -= step;
        const double numeric = ((surrogate(up, zero0) - surrogate(down, zero0)) / (2 * step)).item<double>();
        CHECK(gradients[1][b].item<double>() ==
              doctest::Approx(numeric).epsilon(1e-3).scale(1 + format.bits));
        if (!z) continue;
        torch::Tensor above = zero0.clone(), below = zero0.clone();
        above[b] += step;
        below[b] -= step;
        const double slope = ((surrogate(s0, above) - surrogate(s0, below)) / (2 * step)).item<double>();
        CHECK(gradients[2][b].item<double>() == doctest::Approx(slope).epsilon(1e-3).scale(1));
      }
      CHECK(close(gradients[0], pass * weights, 1e-6));
    }
  }
}

TEST_CASE("gradient: where every value is cut off, finite differences of the operator itself") {
  const torch::Tensor x = torch::tensor({-9.0F, 9.0F, 12.0F, 30.0F}),
                      weights = torch::tensor({1.0F, 2.0F, -3.0F, 0.5F});
  const auto loss = [&](float scale, float point) {
    return (fake_quantize(x, torch::tensor({scale}), torch::tensor({point}), "uint3:tensor:zero=float") *
            weights)
        .sum()
        .item<double>();
  };
  const torch::Tensor s = leaf(torch::tensor({0.5F})), z = leaf(torch::tensor({2.25F}));
  const auto g = grad({(fake_quantize(x, s, z, "uint3:tensor:zero=float") * weights).sum()}, {s, z});
  const float step = 0x1p-6F;
  CHECK(g[0].item<double>() ==
        doctest::Approx((loss(0.5F + step, 2.25F) - loss(0.5F - step, 2.25F)) / (2 * step)));
  CHECK(g[1].item<double>() ==
        doctest::Approx((loss(0.5F, 2.25F + step) - loss(0.5F, 2.25F - step)) / (2 * step)));
}

TEST_CASE("gradient: passes exactly where rounding stays on the grid") {
  torch::manual_seed(4);
  using crumb::Overflow;
  for (const crumb::NumberFormat& format : crumb::number_formats()) {
    const bool integer = format.grid == crumb::Grid::kInteger || format.grid == crumb::Grid::kHalfInteger;
    const bool minifloat =
        format.grid == crumb::Grid::kMinifloat && format.specials != crumb::Specials::kNone;
    if (!integer && !minifloat) continue;
    for (const char* round :
         {"half_even", "half_up", "half_down", "ceil", "floor", "up", "down", "stochastic=5"}) {
      if (!format.has_rounding()) continue;
      const QuantSpec spec = QuantSpec::parse(std::string(format.name) + ":tensor:round=" + round);
      CAPTURE(spec.to_string());
      // Around the ends of the grid: quarter steps and the neighbours of half steps.
      const float largest = format.largest_value(spec.range);
      const float unit =
          minifloat ? largest - crumb::decode_minifloat(format, crumb::largest_finite_pattern(format) - 1)
                    : 1;
      std::vector<float> points{0.0F, std::numeric_limits<float>::denorm_min(),
                                -std::numeric_limits<float>::denorm_min()};
      for (const float end : {-largest, largest, 0.0F}) {
        for (float step = -3; step <= 3; step += 0.25F) {
          const float point = end + step * unit;
          points.insert(points.end(), {point, std::nextafter(point, 1e30F), std::nextafter(point, -1e30F)});
        }
      }
      const torch::Tensor x = leaf(torch::tensor(points));
      const auto passed = floats(grad({fake_quantize(x, torch::ones({1}), {}, spec).sum()}, {x})[0]);
      for (size_t i = 0; i < points.size(); ++i) {
        bool expected = false;
        if (minifloat) {
          // With overflow to inf or NaN the encoder itself says what leaves the grid.
          const uint8_t pattern =
              crumb::encode_minifloat(format, points[i], Overflow::kSpecial, spec.round, i);
          expected = std::isfinite(crumb::decode_minifloat(format, pattern));
        } else {
          const float u = points[i] + (format.grid == crumb::Grid::kHalfInteger ? -0.5F : 0.0F);
          const float q = crumb::round_to_integer(u, spec.round, i);
          expected = q >= static_cast<float>(format.least_code(spec.range)) &&
                     q <= static_cast<float>(format.greatest_code(spec.range));
        }
        CAPTURE(points[i]);
        CHECK(passed[i] == (expected ? 1.0F : 0.0F));
      }
    }
  }
}

TEST_CASE("gradient: binary passes within one scale, codebooks within half a gap of their ends") {
  const torch::Tensor x = leaf(torch::tensor({-2.1F, -2.0F, -0.1F, 0.0F, 1.9F, 2.0F, 2.1F}));
  const torch::Tensor s = leaf(torch::tensor({2.0F}));
  const auto g = grad({fake_quantize(x, s, {}, "binary:tensor").sum()}, {x, s});
  CHECK(floats(g[0]) == std::vector<float>{0, 1, 1, 1, 1, 1, 0});
  CHECK(g[1].item<float>() == 1.0F);  // four of +1, three of -1

  // nf4 ends with 0.7229568 and 1, and begins with -1 and -0.6961928.
  const torch::Tensor v = leaf(torch::tensor({-1.16F, -1.15F, 0.3F, 1.13F, 1.14F}));
  CHECK(floats(grad({fake_quantize(v, torch::ones({1}), {}, "nf4:tensor").sum()}, {v})[0]) ==
        std::vector<float>{0, 1, 1, 1, 0});
}

TEST_CASE("gradient: a scale of zero is the limit of small ones") {
  const torch::Tensor x = leaf(torch::tensor({{-1.0F, 0.0F, 2.0F}, {1.0F, 2.0F, 3.0F}}));
  const torch::Tensor s = leaf(torch::tensor({0.0F, 1.0F}));
  const torch::Tensor y = fake_quantize(x, s, {}, "int4:channel:range=full");
  CHECK(floats(y) == std::vector<float>{0, 0, 0, 1, 2, 3});
  const auto g = grad({(y * torch::tensor({1.0F, 1.0F, 3.0F})).sum()}, {x, s});
  CHECK(floats(g[0]) == std::vector<float>{0, 1, 0, 1, 1, 3});
  CHECK(floats(g[1]) == std::vector<float>{-8 + 3 * 7, 0});
}

TEST_CASE("gradient: only what is asked for, through any layout, twice where that has a meaning") {
  torch::manual_seed(5);
  const torch::Tensor x = torch::randn({6, 4}), weights = torch::randn({4, 6});
  // Only the scale; only x; through a transposed view.
  const torch::Tensor s = leaf(torch::rand({4}) + 0.1);
  CHECK(grad({(fake_quantize(x.t(), s, {}, "int4") * weights).sum()}, {s})[0].sizes() == s.sizes());
  const torch::Tensor a = leaf(x), b = leaf(x.t());
  const auto through_view = grad({(fake_quantize(a.t(), s.detach(), {}, "int4") * weights).sum()}, {a})[0];
  const auto plain = grad({(fake_quantize(b, s.detach(), {}, "int4") * weights).sum()}, {b})[0];
  CHECK(torch::equal(through_view.t(), plain));
  // An expanded gradient (sum) and an expanded scale.
  const torch::Tensor one = leaf(torch::full({1}, 0.25F));
  CHECK(grad({fake_quantize(x, one.expand({6}), {}, "int4").sum()}, {one})[0].numel() == 1);

  // Twice: y = fq(x)^2 has the second derivative 2 where the gradient passes.
  const torch::Tensor c = leaf(torch::tensor({0.3F, -0.7F, 1.0F}));
  const torch::Tensor once = grad({fake_quantize(c, "int8:tensor").square().sum()}, {c}, {}, true, true)[0];
  CHECK(floats(grad({once.sum()}, {c})[0]) == std::vector<float>{2, 2, 2});
  const torch::Tensor y = fake_quantize(c, leaf(torch::ones({1})), {}, "int8:tensor");
  CHECK_THROWS_AS(grad({y.sum()}, {c}, {}, true, true), crumb::Error);

  // The plain form keeps nothing of x: changing it before backward is allowed, as with weights updated in
  // place.
  const torch::Tensor d = leaf(torch::randn({3, 4}));
  const torch::Tensor z = fake_quantize(d, "int4:channel");
  {
    const torch::NoGradGuard no_grad;
    d.add_(1);
  }
  CHECK(torch::equal(grad({z.sum()}, {d})[0], torch::ones({3, 4})));
}

TEST_CASE("gradient: a learned scale finds what a search finds") {
  torch::manual_seed(6);
  const torch::Tensor x = torch::randn({4, 256});
  const QuantSpec spec = QuantSpec::parse("int3:channel");
  const auto error = [&](const torch::Tensor& y) { return (y - x).square().mean(); };
  const torch::Tensor scale = leaf(find_scales(x, spec).scale);
  const double before = error(fake_quantize(x, scale, {}, spec)).item<double>();
  torch::optim::Adam optimizer({scale}, torch::optim::AdamOptions(0.01));
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    error(fake_quantize(x, scale, {}, spec)).backward();
    optimizer.step();
  }
  const double after = error(fake_quantize(x, scale, {}, spec)).item<double>();
  const double searched = error(fake_quantize(x, "int3:channel:search=mse")).item<double>();
  CHECK(after < 0.8 * before);
  CHECK(after < 1.05 * searched);
}
