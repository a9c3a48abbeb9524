// fake_quantize as an operator: bit equality with quant/ for every format, granularity, shape and memory
// layout; types, threads, tracing and errors. Gradients: fake_quantize_gradient_test.cpp.
#include "libtorch/fake_quantize.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/library.h>
#include <torch/utils.h>

#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "libtorch/operators.h"
#include "quant/quantizer.h"
#include "tests/support/torch_doctest.h"
using crumb::fake_quantize;
using crumb::QuantSpec;

namespace {

bool same_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

/// dequantize(quantize(x)) of a contiguous copy, without LibTorch.
torch::Tensor reference(const torch::Tensor& x, const QuantSpec& spec) {
  const torch::Tensor copy = x.detach().contiguous().clone();
  const std::vector<uint64_t> shape(x.sizes().begin(), x.sizes().end());
  const std::span<const float> values(copy.const_data_ptr<float>(), static_cast<size_t>(copy.numel()));
  const torch::Tensor out = torch::empty_like(copy);
  crumb::dequantize(crumb::quantize(spec, values, shape).view(),
                    {out.mutable_data_ptr<float>(), static_cast<size_t>(out.numel())});
  return out;
}

void check_values(const torch::Tensor& x, const std::string& text) {
  CAPTURE(text);
  CAPTURE(x.sizes());
  CAPTURE(x.strides());
  const QuantSpec spec = QuantSpec::parse(text);
  const torch::Tensor expected = reference(x, spec);
  CHECK(same_bits(fake_quantize(x, text), expected));
  CHECK(same_bits(fake_quantize(x.detach().requires_grad_(), spec), expected));
  const crumb::FoundScales found = find_scales(x, spec);
  CHECK(same_bits(fake_quantize(x, found.scale, found.zero_point, text), expected));
  CHECK(same_bits(fake_quantize(x, found.scale.clone().requires_grad_(), found.zero_point, spec), expected));
}

/// Tensors of this shape with every kind of strides.
std::vector<torch::Tensor> layouts(const std::vector<int64_t>& shape) {
  std::vector<torch::Tensor> tensors{torch::randn(shape)};
  if (shape.empty()) return tensors;
  std::vector<int64_t> wide = shape, row = shape, reversed(shape.rbegin(), shape.rend()), axes(shape.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(axes.size() - 1 - i);
  wide.back() *= 3;
  row.front() = 1;
  tensors.push_back(torch::randn(reversed).permute(axes));
  tensors.push_back(torch::randn(wide).slice(-1, 1, std::nullopt, 3));
  tensors.push_back(torch::randn(row).expand(shape));
  return tensors;
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const crumb::Error& error) {
    return error.what();
  }
  return "no crumb::Error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE(
    "fake_quantize: every format, granularity, odd shape and memory layout equals quantize and dequantize") {
  torch::manual_seed(1);
  const std::vector<std::vector<int64_t>> shapes = {{},      {0},     {3, 0},    {1},         {7},    {8},
                                                    {9},     {13},    {3, 1},    {3, 7},      {3, 8}, {5, 9},
                                                    {2, 13}, {4, 16}, {2, 3, 5}, {3, 2, 2, 3}};
  for (const crumb::NumberFormat& format : crumb::number_formats()) {
    if (format.scale_only) continue;
    for (const char* granularity : {":tensor", ":channel", ":group=8:pad", ":block=2x8:pad"}) {
      for (const auto& shape : shapes) {
        for (const torch::Tensor& x : layouts(shape)) {
          const std::string spec = std::string(format.name) + granularity;
          check_values(x, spec);
          if (!format.has_zero_point()) continue;
          check_values(x, spec + ":zero=int");
          check_values(x, spec + ":zero=float");
        }
      }
    }
  }
}

TEST_CASE("fake_quantize: block formats of every odd shape and memory layout") {
  torch::manual_seed(2);
  for (const crumb::BlockFormat& format : crumb::kBlockFormats) {
    const auto block = static_cast<int64_t>(format.block);
    for (const auto& shape : std::vector<std::vector<int64_t>>{{},
                                                               {0},
                                                               {2, 0},
                                                               {1},
                                                               {block - 1},
                                                               {block},
                                                               {block + 1},
                                                               {37},
                                                               {3, block},
                                                               {3, block + 1},
                                                               {2, 3, 7}}) {
      for (const torch::Tensor& x : layouts(shape)) check_values(x, std::string(format.name) + ":pad");
    }
  }
}

TEST_CASE("fake_quantize: searches, scale formats, ranges and rounding modes") {
  torch::manual_seed(3);
  const torch::Tensor x = torch::randn({6, 40}).t();
  for (const std::string spec : {"int4:group=3:search=mse",
                                 "int3:channel:search=percentile=95",
                                 "int4:group=6:search=hqo",
                                 "int2:channel:search=lsq",
                                 "uint4:group=6:zero=float:search=hqo",
                                 "int4:group=6:scale=bf16",
                                 "int4:group=6:scale=e8m0",
                                 "e2m1:group=6:scale=e4m3",
                                 "int4:range=full",
                                 "uint4:range=narrow:zero=int",
                                 "int4:round=half_up",
                                 "int4:round=half_down",
                                 "int4:round=ceil",
                                 "int4:round=floor",
                                 "int4:round=up",
                                 "int4:round=down",
                                 "int4:round=stochastic=7",
                                 "int2h:round=floor",
                                 "e2m1:round=up",
                                 "e3m2:round=stochastic=9",
                                 "mxfp4:search=mse:pad"}) {
    check_values(x, spec);
  }
}

TEST_CASE("fake_quantize: large tensors, zeros, subnormals and the extremes") {
  torch::manual_seed(4);
  check_values(torch::randn({300, 1031}).t(), "int4:group=64:pad");
  check_values(torch::randn({3, 70001}), "int8:tensor");
  check_values(torch::zeros({4, 32}), "int4:channel");
  check_values(torch::zeros({4, 32}), "int2h:group=32:scale=e8m0");
  check_values(torch::zeros({4, 32}), "nvfp4");
  check_values(torch::tensor({1e-45F, -3e-44F, 0.0F, 1e-40F}), "int4:tensor");
  check_values(torch::tensor({3.4e38F, -3.4e38F, 1.0F, -0.0F}), "e4m3fn:tensor");
  check_values(torch::tensor({3.4e38F, -3.4e38F, 1.0F, -0.0F}), "int8:group=4");  // f16 scales saturate
}

TEST_CASE("fake_quantize: other floating types are computed in float32 and rounded back") {
  torch::manual_seed(5);
  const torch::Tensor x = torch::randn({5, 24}, torch::kDouble) * 3;
  for (const torch::ScalarType type : {torch::kHalf, torch::kBFloat16, torch::kDouble}) {
    const torch::Tensor typed = x.to(type).t();
    const torch::Tensor expected =
        reference(typed.to(torch::kFloat), QuantSpec::parse("int4:channel")).to(type);
    CHECK(same_bits(fake_quantize(typed, "int4:channel"), expected));
    const torch::Tensor scale = torch::rand({24}).to(type).requires_grad_();
    const torch::Tensor leaf = typed.detach().requires_grad_();
    const torch::Tensor y = fake_quantize(leaf, scale, {}, "int4:channel");
    CHECK(same_bits(
        y, fake_quantize(typed.to(torch::kFloat), scale.to(torch::kFloat), {}, "int4:channel").to(type)));
    y.sum().backward();
    CHECK((leaf.grad().scalar_type() == type));
    CHECK((scale.grad().scalar_type() == type));
    CHECK(scale.grad().sizes() == scale.sizes());
  }
}

TEST_CASE("fake_quantize: the result is a new contiguous tensor, and x is left alone") {
  const torch::Tensor x = torch::randn({4, 8}).t();
  const torch::Tensor before = x.clone();
  const torch::Tensor y = fake_quantize(x, "int8:channel");
  CHECK(y.is_contiguous());
  CHECK(!y.is_alias_of(x));
  CHECK(same_bits(x, before));
  CHECK(!y.requires_grad());
  const torch::NoGradGuard no_grad;
  CHECK(!fake_quantize(x.detach().requires_grad_(), "int8:channel").requires_grad());
}

TEST_CASE("fake_quantize: the number of threads changes no bit") {
  torch::manual_seed(6);
  const torch::Tensor x = torch::randn({517, 331}), weights = torch::randn({517, 331});
  const int before = torch::get_num_threads();
  for (const std::string spec : {"int4:tensor", "int4:group=16:pad", "palette3:channel", "nvfp4:pad",
                                 "uint4:block=8x32:pad:zero=float"}) {
    CAPTURE(spec);
    std::vector<torch::Tensor> first;
    for (const int threads : {1, 2, 5}) {
      torch::set_num_threads(threads);
      const crumb::FoundScales found = find_scales(x, QuantSpec::parse(spec));
      const torch::Tensor leaf = x.clone().requires_grad_(), scale = (found.scale * 0.8).requires_grad_();
      std::vector<torch::Tensor> results{fake_quantize(x, spec),
                                         fake_quantize(leaf, scale, found.zero_point, spec)};
      for (const torch::Tensor& g : torch::autograd::grad({(results[1] * weights).sum()}, {leaf, scale})) {
        results.push_back(g);
      }
      if (first.empty()) first = results;
      for (size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], first[i]));
    }
  }
  torch::set_num_threads(before);
}

TEST_CASE("fake_quantize: many threads may call it, and register, at once") {
  torch::manual_seed(7);
  const torch::Tensor x = torch::randn({64, 64});
  const torch::Tensor expected = reference(x, QuantSpec::parse("int4:group=16"));
  std::vector<int> good(8);
  {
    std::vector<std::jthread> threads;
    threads.reserve(good.size());
    for (int& ok : good) {
      threads.emplace_back([&ok, &x, &expected] {
        crumb::register_operators();
        ok = same_bits(fake_quantize(x.detach().requires_grad_(), "int4:group=16"), expected);
      });
    }
  }
  for (const int ok : good) CHECK(ok == 1);
}

TEST_CASE("fake_quantize: traces as one node, which runs again") {
  torch::manual_seed(8);
  for (const bool grad : {false, true}) {
    const torch::Tensor x = torch::randn({3, 8}).requires_grad_(grad);
    const torch::Tensor scale = torch::rand({3}).requires_grad_(grad);
    for (const bool scaled : {false, true}) {
      const auto call = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
        const torch::Tensor a = inputs[0].toTensor(), s = inputs[1].toTensor();
        return {scaled ? fake_quantize(a, s, std::nullopt, "int4:channel")
                       : fake_quantize(a, "int4:channel")};
      };
      const auto traced =
          torch::jit::tracer::trace({x, scale}, call, [](const torch::autograd::Variable&) { return ""; });
      const auto graph = traced.first->graph;
      int nodes = 0;
      for (const torch::jit::Node* node : graph->nodes()) {
        if (node->kind() == c10::prim::Constant) continue;
        ++nodes;
        CHECK(std::string(node->kind().toQualString()) == "crumb::fake_quantize");
      }
      CHECK(nodes == 1);
      torch::jit::GraphExecutor executor(graph, "traced");
      const torch::Tensor other = torch::randn({3, 8});
      torch::jit::Stack stack{other, scale};
      executor.run(stack);
      CHECK(same_bits(stack[0].toTensor().detach(), call({other, scale})[0].toTensor().detach()));
    }
  }
}

TEST_CASE("fake_quantize: meta tensors give shapes and shape errors") {
  const torch::Tensor x = torch::empty({3, 8}, torch::TensorOptions(torch::kMeta).dtype(torch::kHalf));
  const torch::Tensor y = fake_quantize(x.detach().requires_grad_(), "int4:group=4");
  CHECK(y.is_meta());
  CHECK(y.sizes() == x.sizes());
  CHECK((y.scalar_type() == torch::kHalf));
  const torch::Tensor scale = torch::empty({3, 2}, torch::TensorOptions(torch::kMeta)).requires_grad_();
  const torch::Tensor z = fake_quantize(x, scale, {}, "int4:group=4");
  CHECK(z.sizes() == x.sizes());
  CHECK(torch::autograd::grad({z.sum()}, {scale})[0].sizes() == scale.sizes());
  CHECK(has(message_of([&] { fake_quantize(x, "int4:group=5"); }), "does not divide"));
  CHECK(has(message_of([&] { fake_quantize(x, scale, {}, "int4:channel"); }), "needs 3 scales, found 6"));
}

TEST_CASE("fake_quantize: a moving average of activations is a scale as any other") {
  torch::manual_seed(9);
  const torch::Tensor x = torch::randn({3, 8}), scale = torch::full({1}, 0.1F);
  const QuantSpec spec = QuantSpec::parse_activations("int4:search=ema");
  CHECK(same_bits(fake_quantize(x, spec), fake_quantize(x, "int4:tensor")));  // of one batch: absmax
  std::vector<torch::Tensor> made;
  for (const QuantSpec& one : {spec, QuantSpec::parse_activations("int4")}) {
    const torch::Tensor leaf = x.clone().requires_grad_(), step = scale.clone().requires_grad_();
    const torch::Tensor y = fake_quantize(leaf, step, {}, one);
    y.sum().backward();
    made.insert(made.end(), {y.detach(), leaf.grad(), step.grad()});
  }
  for (size_t i = 0; i < 3; ++i) CHECK(same_bits(made[i], made[i + 3]));
}

TEST_CASE("fake_quantize: what is wrong is said by crumb::Error") {
  const torch::Tensor x = torch::randn({3, 8});
  CHECK(has(message_of([&] { fake_quantize(x, "int44"); }), "did you mean"));
  CHECK(
      has(message_of([&] { fake_quantize(x, "int4:group=5"); }), "does not divide the 8 columns of [3, 8]"));
  CHECK(has(message_of([&] { fake_quantize(torch::ones({3}, torch::kInt), "int4"); }), "of type Int"));
  CHECK(has(message_of([&] { fake_quantize(x.to_sparse(), "int4"); }), "not strided"));
  CHECK(has(message_of([&] { fake_quantize(torch::Tensor(), "int4"); }), "an undefined tensor"));
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    torch::Tensor broken = x.clone();
    broken[1][2] = bad;
    CHECK(has(message_of([&] { fake_quantize(broken, "int4:channel"); }), "inf or NaN"));
    CHECK(has(message_of([&] { fake_quantize(broken, "int4:channel"); }), "at index 10 of [3, 8]"));
    CHECK(has(message_of([&] { fake_quantize(broken.requires_grad_(), "int4:channel"); }), "at index 10"));
    CHECK(
        has(message_of([&] { fake_quantize(broken, torch::ones({3}), {}, "int4:channel"); }), "inf or NaN"));
    CHECK(
        has(message_of([&] { fake_quantize(x, torch::full({3}, bad), {}, "int4"); }), "scale of block 0 is"));
  }
  CHECK(has(message_of([&] { fake_quantize(x, torch::ones({2}), {}, "int4:channel"); }),
            "cuts [3, 8] into 3 blocks and needs one scale for each, found 2"));
  CHECK(has(message_of([&] {
              fake_quantize(x, torch::tensor({1.0F, -0.5F, 1.0F}), {}, "int4");
            }),
            "scale of block 1 is -0.5"));
  CHECK(has(message_of([&] { fake_quantize(x, torch::ones({3}), torch::ones({3}), "int4"); }),
            "zero points are given"));
  CHECK(has(message_of([&] { fake_quantize(x, torch::ones({3}), {}, "uint4:zero=float"); }),
            "needs one zero point"));
  CHECK(has(message_of([&] { fake_quantize(x, torch::ones({3}, torch::kInt), {}, "int4"); }),
            "scale is of type Int"));
}

TEST_CASE("fake_quantize: the operators are found by name, and a second definition is refused") {
  crumb::register_operators();
  CHECK(c10::Dispatcher::singleton().findSchema({"crumb::fake_quantize", ""}).has_value());
  CHECK(c10::Dispatcher::singleton().findSchema({"crumb::fake_quantize", "scaled"}).has_value());
  torch::Library second(torch::Library::FRAGMENT, "crumb", std::nullopt, __FILE__, __LINE__);
  CHECK_THROWS_AS(crumb::detail::define_fake_quantize(second), c10::Error);
}
