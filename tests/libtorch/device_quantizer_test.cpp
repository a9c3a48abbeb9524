// Fake quantization where the tensor lies, against the CPU's: on a device that is far (tests/support/far_device.cpp).
#include "libtorch/device_quantizer.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "libtorch/fake_quantize.h"
#include "tests/support/torch_doctest.h"
using crumb::fake_quantize;
using crumb::QuantSpec;

namespace {

const at::Device& far() {
  static const at::Device kFar("hpu");
  return kFar;
}

struct Made {
  at::Tensor y, x, scale, zero;
};

Made made_on(const at::Device& device, const QuantSpec& spec, const at::Tensor& x, const at::Tensor& scale,
             const std::optional<at::Tensor>& zero, const at::Tensor& grad) {
  const auto leaf = [&](const at::Tensor& t) { return t.detach().clone().to(device).requires_grad_(); };
  const at::Tensor x1 = leaf(x), s1 = leaf(scale), z1 = zero ? leaf(*zero) : at::Tensor();
  const at::Tensor y = fake_quantize(x1, s1, zero ? std::optional(z1) : std::nullopt, spec);
  CHECK(y.device().type() == device.type());
  torch::autograd::backward({y}, {grad.to(device)});
  const auto near = [](const at::Tensor& t) { return t.defined() ? t.detach().to(at::kCPU) : t; };
  return {near(y), near(x1.grad()), near(s1.grad()), zero ? near(z1.grad()) : at::Tensor()};
}

/// Every sum over a block of at most `count` terms of that size, in whatever order, lies so near.
bool near_sums(const at::Tensor& a, const at::Tensor& b, double most, double count) {
  const double bound = 2 * count * std::numeric_limits<float>::epsilon() * count * most;
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>() <= bound;
}

/// Values, half of which are where a grid of scale s changes, or next to it.
at::Tensor values_around(const at::Tensor& scale, std::int64_t rows, std::int64_t columns) {
  const at::Tensor steps = torch::randint(-40, 41, {rows, columns}) / 4.0;
  const at::Tensor nudge = torch::randint(-2, 3, {rows, columns}) * 6e-8 + 1;
  const at::Tensor edges = steps * scale.max() * nudge;
  return at::where(torch::rand({rows, columns}) < 0.5, edges, torch::randn({rows, columns})).to(at::kFloat);
}

}  // namespace

TEST_CASE("device: the values of every format and rounding have the CPU's bits, gradients its terms") {
  torch::manual_seed(11);
  std::int64_t taken = 0;
  for (const crumb::NumberFormat& format : crumb::number_formats()) {
    if (format.scale_only) continue;
    for (const char* granularity : {":tensor", ":channel", ":group=4", ":group=8"}) {
      for (const char* round : {"", ":round=half_up", ":round=floor", ":round=up"}) {
        for (const char* zero_text : {"", ":zero=float", ":zero=int"}) {
          const bool has_zero = zero_text[0] != 0;
          if (has_zero && !format.has_zero_point()) continue;
          const std::string text = std::string(format.name) + granularity + zero_text + round;
          CAPTURE(text);
          std::optional<QuantSpec> spec;
          try {
            spec = QuantSpec::parse(text);
          } catch (const crumb::Error&) {
            continue;  // formats that do not round so
          }
          const std::int64_t rows = 3, columns = 8 * torch::randint(1, 5, {1}).item<std::int64_t>();
          const at::Tensor sample = torch::randn({rows, columns});
          const crumb::FoundScales found = find_scales(sample, *spec);
          at::Tensor scale = found.scale * (0.3 + torch::rand_like(found.scale));
          if (scale.numel() > 2) scale[1] = 0;
          std::optional<at::Tensor> zero;
          if (found.zero_point) zero = (*found.zero_point + torch::randint(-2, 3, found.zero_point->sizes()));
          const at::Tensor x = values_around(scale, rows, columns);
          const at::Tensor grad = torch::randn({rows, columns});
          if (format.learned) {  // what the CPU learns alone still works
            CHECK(torch::equal(made_on(far(), *spec, x, scale, zero, grad).y,
                               made_on(at::kCPU, *spec, x, scale, zero, grad).y));
            continue;
          }
          REQUIRE(crumb::DeviceQuantizer::of(*spec, x.sizes(), far()));
          ++taken;
          const Made there = made_on(far(), *spec, x, scale, zero, grad);
          const Made here = made_on(at::kCPU, *spec, x, scale, zero, grad);
          CHECK(torch::equal(there.y, here.y));
          CHECK(torch::equal(there.x, here.x));
          const double count = static_cast<double>(x.numel()) / static_cast<double>(scale.numel());
          const at::Tensor open = scale > 0;
          const double least = scale.masked_select(open).min().item<double>();
          const double most =
              grad.abs().max().item<double>() *
              (1 + (x.abs().max().item<double>() + here.y.abs().max().item<double>()) / least);
          CHECK(near_sums(there.scale.masked_select(open), here.scale.masked_select(open), most, count));
          CHECK(torch::allclose(there.scale, here.scale, 1e-4, 1e30));  // finite
          if (zero) CHECK(near_sums(there.zero, here.zero, most * scale.max().item<double>(), count));
        }
      }
    }
  }
  CHECK(taken > 500);
}

TEST_CASE("device: what it does not take, the CPU does") {
  torch::manual_seed(12);
  const at::Tensor x = torch::randn({4, 10}), scale = torch::rand({12}) + 0.1;
  for (const char* text : {"int4:group=4:pad", "int4:block=2x4:pad", "e2m1:group=4:pad"}) {
    CAPTURE(text);
    const QuantSpec spec = QuantSpec::parse(text);
    const at::Tensor s = find_scales(x, spec).scale;
    CHECK_FALSE(crumb::DeviceQuantizer::of(spec, x.sizes(), far()));
    CHECK(torch::equal(fake_quantize(x.to(far()), s.to(far()), {}, spec).to(at::kCPU),
                       fake_quantize(x, s, {}, spec)));
  }
  CHECK_THROWS_AS(fake_quantize(x.to(far()), scale.to(far()), {}, "int4:group=4"), crumb::Error);
  const at::Tensor four = scale.narrow(0, 0, 4).to(far()), one = scale.narrow(0, 0, 1).to(far());
  CHECK_THROWS_WITH_AS(fake_quantize(x.to(far()), one, {}, "int4:channel"),
                       doctest::Contains("4 blocks need one scale"), crumb::Error);
  CHECK_THROWS_WITH_AS(fake_quantize(x.to(far()), four, four, "int4:channel"),
                       doctest::Contains("the spec has none"), crumb::Error);
  CHECK_THROWS_WITH_AS(fake_quantize(x.to(far()), four, {}, "uint4:channel:zero=float"),
                       doctest::Contains("the spec has them"), crumb::Error);
}

TEST_CASE("device: inf and NaN do not become numbers") {
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor x = torch::tensor({1.0F, inf, -inf, std::nanf("")}).view({1, 4});
  const at::Tensor y =
      fake_quantize(x.to(far()), torch::tensor({0.5F}).to(far()), {}, "int4:channel").to(at::kCPU);
  CHECK(torch::equal(at::isnan(y), torch::tensor({false, true, true, true}).view({1, 4})));
}
