// Operators on tensors, family by family: the graph gives what LibTorch gives.
#include "tests/libtorch/capture/check_cases.h"
//
#include <map>

#include "tests/support/testing.h"

using namespace crumb;           // NOLINT: a test
using namespace crumb::testing;  // NOLINT
namespace nn = torch::nn;
namespace F = torch::nn::functional;

TEST_CASE("capture: layout") {
  check_all(std::vector<Case>{
      {"flatten", normal({3, 4}), [](auto& x) { return x.flatten(1) * 1.5; }},
      {"flatten with the batch", normal({3, 4}), [](auto& x) { return x.flatten(); }},
      {"view", normal({3, 4}),
       [](auto& x) {
         return x.view({x.size(0), 2, 6});
       }},
      {"view that mixes", normal({3, 4}),
       [](auto& x) {
         return x.reshape({x.size(0) * 2, 3, 2});
       }},
      {"view of two that follow", normal({6, 4}),
       [](auto& x) {
         return x.transpose(0, 1).reshape({6, x.size(0), 4}).reshape({3, x.size(0) * 2, 4});
       }},
      {"permute", normal({3, 4}),
       [](auto& x) {
         return x.permute({2, 0, -2});
       }},
      {"t", normal({3}), [](auto& x) { return x.t(); }},
      {"squeeze", normal({1, 4, 1}), [](auto& x) { return x.squeeze(1) + x.squeeze().unsqueeze(-1); }},
      {"cat", normal({3, 4}),
       [](auto& x) {
         return torch::cat({x, x * 2, x.narrow(1, 0, 1)}, 1);
       }},
      {"cat of the batch", normal({3}),
       [](auto& x) {
         return torch::cat({x, x}, 0);
       }},
      {"stack", normal({3}),
       [](auto& x) {
         return torch::stack({x, x + 1}, -1);
       }},
      {"chunk", normal({7}),
       [](auto& x) {
         auto c = x.chunk(3, 1);
         return c[0].sum(1) + c[1].sum(1) * c[2].sum(1);
       }},
      {"split", normal({7}),
       [](auto& x) {
         auto c = x.split_with_sizes({2, 5}, 1);
         return torch::cat({c[1], c[0]}, 1);
       }},
      {"unbind", normal({3, 2}),
       [](auto& x) {
         auto c = x.unbind(1);
         return c[0] - c[2];
       }},
      {"expand", normal({1, 4}),
       [](auto& x) {
         return x.expand({-1, 3, 4}) + 1;
       }},
      {"expand to the batch", normal({4}),
       [](auto& x) {
         return torch::ones({1, 2}).expand({x.size(0), 2}).sum(1) + x.sum(1);
       }},
      {"repeat", normal({2, 3}),
       [](auto& x) {
         return x.repeat({2, 1, 2, 1});
       }},
      {"flip and roll", normal({4, 3}),
       [](auto& x) {
         return x.flip({1, 2}) + x.roll({1, -1}, {1, 2});
       }},
      {"movedim", normal({4, 3}), [](auto& x) { return x.movedim(2, 0); }},
      {"pixel_shuffle", normal({8, 3, 2}), [](auto& x) { return torch::pixel_shuffle(x, 2); }},
      {"pixel_unshuffle", normal({2, 6, 4}), [](auto& x) { return torch::pixel_unshuffle(x, 2); }},
  });
}

TEST_CASE("capture: parts by position") {
  const Inputs places = [](std::int64_t n) { return Tensors{torch::randint(5, {n, 3})}; };
  check_all(std::vector<Case>{
      {"slice", normal({7, 4}), [](auto& x) { return x.slice(1, 1, -1, 2); }},
      {"slice of the batch", normal({7}), [](auto& x) { return x.slice(0, 0, x.size(0) - 1).sum(0) + x; }},
      {"select", normal({7, 4}), [](auto& x) { return x.select(1, -1) + x.select(1, 0); }},
      {"last of the batch", normal({7}), [](auto& x) { return x.select(0, x.size(0) - 1); }},
      {"index", normal({7, 4}),
       [](auto& x) {
         return x.index({torch::indexing::Slice(), torch::tensor({3, 0, 6})});
       }},
      {"index by pairs", normal({4}),
       [](auto& x) {
         return x.t().index({torch::tensor({3, 0}), torch::tensor({0, 0})});
       }},
      {"index_select", normal({7}),
       [](auto& x) {
         return x.index_select(1, torch::tensor({1, 1, 5}));
       }},
      {"gather", places,
       [](auto& x) {
         return torch::arange(15).view({1, 3, 5}).expand({x.size(0), 3, 5}).gather(2, x.unsqueeze(-1));
       }},
      {"scatter", places,
       [](auto& x) {
         return torch::zeros({x.size(0), 5}).scatter(1, x.narrow(1, 0, 1), 2.5);
       }},
      {"embedding", places, [w = torch::randn({5, 2})](auto& x) { return torch::embedding(w, x); }},
      {"topk", normal({9}), [](auto& x) { return std::get<0>(x.topk(3, 1)); }},
      {"sort", normal({9}), [](auto& x) { return std::get<1>(x.sort(1, true)); }},
      {"argmax", normal({9}), [](auto& x) { return x.argmax(1) + x.argmin(1, true).squeeze(1); }},
      {"triu", normal({4, 4}), [](auto& x) { return x.triu(1) + x.tril(-1); }},
  });
}

TEST_CASE("capture: arithmetic, comparison and types") {
  const Inputs integers = [](std::int64_t n) { return Tensors{torch::randint(-9, 9, {n, 6})}; };
  check_all(std::vector<Case>{
      {"alpha", normal({4}), [](auto& x) { return torch::sub(x, x.exp(), 0.5) + torch::add(x, 2, 3); }},
      {"numbers", normal({4}), [](auto& x) { return 2 - x / 3 + 1 / (x.square() + 1); }},
      {"batch in the arithmetic", normal({4}), [](auto& x) { return x / x.size(0); }},
      {"integers and floats", integers, [](auto& x) { return x * 0.5 + torch::ones({6}, torch::kDouble); }},
      {"integer division", integers,
       [](auto& x) { return torch::div(x, 4, "floor") * 100 + x.remainder(4) * 10 + torch::div(x, 4); }},
      {"floored", normal({4}),
       [](auto& x) {
         return torch::div(x, 0.3, "floor") + torch::div(x, 0.3, "trunc") + x.remainder(-0.7) + x.fmod(0.4);
       }},
      {"roots and powers", normal({4}),
       [](auto& x) { return (x.abs() + 1).rsqrt() + x.pow(3) + (x.abs() + 1).pow(-0.5); }},
      {"logarithms", normal({4}),
       [](auto& x) {
         auto y = x.abs() + 0.5;
         return y.log() + y.log1p() + y.log2() + y.log10() + x.expm1();
       }},
      {"erf", normal({4}), [](auto& x) { return x.erf() - x.erfc() + x.sin() * x.cos() + x.atan(); }},
      {"rounding", normal({4}),
       [](auto& x) { return (3 * x).round() + x.floor() * x.ceil() + (5 * x).trunc(); }},
      {"clamp", normal({40}), [](auto& x) { return x.clamp(-0.5, 0.7) + x.clamp_min(0.1) - x.clamp_max(0); }},
      {"maximum", normal({4}), [](auto& x) { return torch::maximum(x, x.neg()) + torch::min(x, x * 2); }},
      {"lerp", normal({4}),
       [](auto& x) { return torch::lerp(x, x * 3, 0.3) + x.addcmul(x, x, 2) + x.addcdiv(x, x.exp(), 0.5); }},
      {"compare", normal({40}),
       [](auto& x) { return (x > 0).logical_and(x < 1).logical_or(x.eq(x.abs())) ^ (x <= -1); }},
      {"compare with integers", integers,
       [](auto& x) { return (x >= 2.5).to(torch::kFloat) + (x != 3).sum(1, true); }},
      {"where", normal({4}),
       [](auto& x) { return torch::where(x > 0, x, x.exp()) + x.masked_fill(x < 0, 7); }},
      {"bits", integers, [](auto& x) { return (x & 6) | (x ^ 3).bitwise_not(); }},
      {"to", integers,
       [](auto& x) { return x.to(torch::kFloat).sin().to(torch::kDouble).type_as(x.to(torch::kHalf)); }},
      {"isnan", normal({4}), [](auto& x) { return (x / 0).isinf().logical_xor((x * 0 / 0).isnan()); }},
  });
}

TEST_CASE("capture: reductions and products") {
  check_all(std::vector<Case>{
      {"mean", normal({3, 4}),
       [](auto& x) {
         return x.mean({1, 2}) + x.mean();
       }},
      {"sum of bools", normal({9}), [](auto& x) { return (x > 0).sum(1); }},
      {"extremes", normal({3, 4}),
       [](auto& x) {
         return x.amax({1, 2}) - x.amin(-1).sum(1) + x.max() + std::get<0>(x.min(2)).sum(1);
       }},
      {"place of the largest", normal({9}), [](auto& x) { return std::get<1>(x.max(1)); }},
      {"variance", normal({3, 4}),
       [](auto& x) {
         return x.var({1, 2}) + x.std(1, false).sum(1) + x.var(2, true).sum(1);
       }},
      {"norms", normal({3, 4}),
       [](auto& x) {
         return x.norm(2, {1, 2}) + x.norm(1, {2}).sum(1) +
                torch::linalg_vector_norm(x, 3, at::IntArrayRef({1, 2}));
       }},
      {"normalize", normal({8}), [](auto& x) { return F::normalize(x); }},
      {"cumsum", normal({8}), [](auto& x) { return x.cumsum(1) + x.logsumexp(1, true); }},
      {"any and all", normal({3}), [](auto& x) { return (x > 0).any(1).logical_xor((x > -1).all(1)); }},
      {"matmul", normal({3, 4}), [](auto& x) { return torch::matmul(x, x.transpose(1, 2)).bmm(x); }},
      {"addmm", normal({4}),
       [](auto& x) {
         return torch::addmm(torch::ones({2}), x, torch::ones({4, 2}), 0.5, 2);
       }},
      {"baddbmm", normal({3, 3}), [](auto& x) { return torch::baddbmm(x, x, x, 0.5, 2); }},
      {"einsum", normal({3, 4}),
       [](auto& x) {
         return torch::einsum("bij, bkj -> bik", {x, x * 2});
       }},
      {"attention", normal({2, 3, 4}),
       [](auto& x) { return torch::scaled_dot_product_attention(x, x * 2, x + 1); }},
      {"causal attention", normal({2, 3, 4}),
       [](auto& x) { return torch::scaled_dot_product_attention(x, x, x, {}, 0, true); }},
  });
}

TEST_CASE("capture: padding and resizing") {
  using Mode = F::InterpolateFuncOptions;
  const auto by = [](double factor) { return std::vector<double>{factor, factor}; };
  const auto to = [](std::int64_t h, std::int64_t w) { return std::vector<std::int64_t>{h, w}; };
  check_all(std::vector<Case>{
      {"constant", normal({3, 4}),
       [](auto& x) {
         return torch::constant_pad_nd(x, {1, 2, -1, 0}, 3);
       }},
      {"reflect", normal({3, 4, 5}),
       [](auto& x) {
         return F::pad(x, F::PadFuncOptions({1, 2, 2, 1}).mode(torch::kReflect));
       }},
      {"replicate", normal({3, 4}),
       [](auto& x) {
         return F::pad(x, F::PadFuncOptions({1, 5}).mode(torch::kReplicate));
       }},
      {"circular", normal({3, 4}),
       [](auto& x) {
         return F::pad(x, F::PadFuncOptions({1, 2}).mode(torch::kCircular));
       }},
      {"nearest", normal({2, 3, 4}),
       [=](auto& x) { return F::interpolate(x, Mode().scale_factor(by(2.5)).mode(torch::kNearest)); }},
      {"nearest to a size", normal({2, 5, 7}),
       [=](auto& x) { return F::interpolate(x, Mode().size(to(3, 9)).mode(torch::kNearest)); }},
      {"linear", normal({2, 5}),
       [](auto& x) {
         return F::interpolate(
             x, Mode().size(std::vector<std::int64_t>{8}).mode(torch::kLinear).align_corners(false));
       }},
      {"bilinear", normal({2, 5, 7}),
       [=](auto& x) {
         return F::interpolate(x, Mode().size(to(3, 9)).mode(torch::kBilinear).align_corners(false));
       }},
      {"bilinear to 1", normal({2, 5, 7}),
       [=](auto& x) {
         return F::interpolate(x, Mode().size(to(1, 9)).mode(torch::kBilinear).align_corners(false));
       }},
      {"bilinear by corners", normal({2, 5, 7}),
       [=](auto& x) {
         return F::interpolate(x, Mode().size(to(8, 9)).mode(torch::kBilinear).align_corners(true));
       }},
      {"bicubic", normal({2, 5, 7}),
       [=](auto& x) {
         return F::interpolate(x, Mode().scale_factor(by(2)).mode(torch::kBicubic).align_corners(false));
       }},
      {"bicubic by corners", normal({2, 5, 7}),
       [=](auto& x) {
         return F::interpolate(x, Mode().size(to(8, 9)).mode(torch::kBicubic).align_corners(true));
       }},
      {"trilinear", normal({2, 3, 4, 3}),
       [](auto& x) {
         return F::interpolate(
             x, Mode().size(std::vector<std::int64_t>{4, 6, 5}).mode(torch::kTrilinear).align_corners(false));
       }},
      {"area", normal({2, 6, 4}),
       [=](auto& x) { return F::interpolate(x, Mode().size(to(3, 2)).mode(torch::kArea)); }},
  });
}

TEST_CASE("capture: tensors that the module makes") {
  check_all(std::vector<Case>{
      {"zeros", normal({4}),
       [](auto& x) {
         return torch::zeros({x.size(0), 4}) + x + torch::zeros_like(x);
       }},
      {"ones and full", normal({4}),
       [](auto& x) {
         return torch::ones({4}) * x + torch::full({x.size(0), 1}, 2.5);
       }},
      {"arange", normal({4}),
       [](auto& x) { return x * torch::arange(4) + torch::arange(x.size(0)).unsqueeze(1); }},
      {"twice the batch", normal({4}),
       [](auto& x) {
         return torch::ones({2 * x.size(0) + 1, 3});
       }},
      {"mask", normal({4, 4}),
       [](auto& x) {
         return x.masked_fill(torch::ones({4, 4}).triu(1).to(torch::kBool), -1e9).softmax(-1);
       }},
      {"in place", normal({4}),
       [](auto& x) {
         auto y = x * 2;
         y.add_(1).mul_(x).clamp_(-1, 1);
         return y;
       }},
  });
}
