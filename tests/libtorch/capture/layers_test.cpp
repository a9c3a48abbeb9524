// Every family of layers and operators: the graph gives what LibTorch gives.
#include "tests/libtorch/capture/check_capture.h"
//
#include <map>

#include "tests/support/testing.h"

using namespace crumb;           // NOLINT: a test
using namespace crumb::testing;  // NOLINT
namespace nn = torch::nn;
namespace F = torch::nn::functional;

namespace {

using Function = std::function<at::Tensor(const at::Tensor&)>;

struct Case {
  std::string name;
  Inputs inputs;
  Function function;
};

void check_all(const std::vector<Case>& cases) {
  torch::manual_seed(6);
  for (const Case& one : cases) {
    CAPTURE(one.name);
    const auto failure = [&]() -> std::string {
      try {
        check_function(one.inputs, [&](const Tensors& x) { return Tensors{one.function(x[0])}; });
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    }();
    CHECK(failure == "");
  }
}

struct Layer {
  std::string name;
  nn::AnyModule layer;
  Inputs inputs;
};

void check_all(std::vector<Layer> layers) {
  torch::manual_seed(7);
  for (Layer& one : layers) {
    CAPTURE(one.name);
    const auto module = one.layer.ptr();
    {
      const torch::NoGradGuard no_gradients;
      for (auto& parameter : module->named_parameters()) {
        if (parameter.value().dim() == 1) parameter.value().uniform_(0.5, 1.5);
      }
      for (auto& buffer : module->named_buffers()) {
        if (buffer.value().is_floating_point()) buffer.value().uniform_(0.5, 1.5);
      }
    }
    const auto failure = [&]() -> std::string {
      try {
        check_capture(*module, one.inputs,
                      [&](const Tensors& x) { return Tensors{one.layer.forward(x[0])}; });
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    }();
    CHECK(failure == "");
  }
}

}  // namespace

TEST_CASE("capture: linear layers and convolutions") {
  check_all(std::vector<Layer>{
      {"linear", nn::AnyModule(nn::Linear(4, 3)), normal({4})},
      {"linear of 3 axes", nn::AnyModule(nn::Linear(4, 3)), normal({5, 4})},
      {"linear without bias", nn::AnyModule(nn::Linear(nn::LinearOptions(4, 3).bias(false))), normal({4})},
      {"conv1d", nn::AnyModule(nn::Conv1d(nn::Conv1dOptions(4, 6, 3).stride(2).padding(1).groups(2))),
       normal({4, 9})},
      {"conv2d", nn::AnyModule(nn::Conv2d(nn::Conv2dOptions(3, 4, {3, 2}).dilation({1, 2}).padding({0, 1}))),
       normal({3, 6, 7})},
      {"conv2d same", nn::AnyModule(nn::Conv2d(nn::Conv2dOptions(3, 4, {4, 3}).padding(torch::kSame))),
       normal({3, 6, 7})},
      {"conv2d reflect",
       nn::AnyModule(nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1).padding_mode(torch::kReflect))),
       normal({3, 6, 7})},
      {"conv2d circular",
       nn::AnyModule(nn::Conv2d(nn::Conv2dOptions(3, 4, 3).padding(1).padding_mode(torch::kCircular))),
       normal({3, 6, 7})},
      {"conv3d", nn::AnyModule(nn::Conv3d(nn::Conv3dOptions(2, 3, 2).stride({1, 2, 1}))),
       normal({2, 4, 5, 4})},
      {"conv_transpose1d", nn::AnyModule(nn::ConvTranspose1d(nn::ConvTranspose1dOptions(4, 3, 3).stride(2))),
       normal({4, 5})},
      {"conv_transpose2d",
       nn::AnyModule(nn::ConvTranspose2d(
           nn::ConvTranspose2dOptions(4, 6, 3).stride(2).padding(1).output_padding(1).groups(2))),
       normal({4, 5, 4})},
      {"conv_transpose3d",
       nn::AnyModule(nn::ConvTranspose3d(nn::ConvTranspose3dOptions(2, 3, 2).dilation(2))),
       normal({2, 3, 4, 3})},
  });
}

TEST_CASE("capture: normalizations") {
  check_all(std::vector<Layer>{
      {"batch_norm1d", nn::AnyModule(nn::BatchNorm1d(4)), normal({4, 5})},
      {"batch_norm1d of 2 axes", nn::AnyModule(nn::BatchNorm1d(4)), normal({4})},
      {"batch_norm2d", nn::AnyModule(nn::BatchNorm2d(nn::BatchNorm2dOptions(3).eps(1e-3).affine(false))),
       normal({3, 4, 5})},
      {"batch_norm3d", nn::AnyModule(nn::BatchNorm3d(3)), normal({3, 2, 4, 5})},
      {"layer_norm", nn::AnyModule(nn::LayerNorm(nn::LayerNormOptions({4, 5}))), normal({3, 4, 5})},
      {"layer_norm without weights",
       nn::AnyModule(nn::LayerNorm(nn::LayerNormOptions({5}).elementwise_affine(false))), normal({3, 5})},
      {"group_norm", nn::AnyModule(nn::GroupNorm(nn::GroupNormOptions(2, 6))), normal({6, 4, 3})},
      {"group_norm without weights", nn::AnyModule(nn::GroupNorm(nn::GroupNormOptions(3, 6).affine(false))),
       normal({6, 4})},
      {"instance_norm1d", nn::AnyModule(nn::InstanceNorm1d(4)), normal({4, 6})},
      {"instance_norm2d", nn::AnyModule(nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).affine(true))),
       normal({4, 6, 5})},
      {"instance_norm with statistics",
       nn::AnyModule(nn::InstanceNorm2d(nn::InstanceNorm2dOptions(4).affine(true).track_running_stats(true))),
       normal({4, 6, 5})},
      {"local response", nn::AnyModule(nn::LocalResponseNorm(nn::LocalResponseNormOptions(3))),
       normal({5, 4, 4})},
  });
}

TEST_CASE("capture: activations") {
  check_all(std::vector<Layer>{
      {"relu", nn::AnyModule(nn::ReLU(nn::ReLUOptions(true))), normal({4, 5})},
      {"relu6", nn::AnyModule(nn::ReLU6()), normal({40})},
      {"gelu", nn::AnyModule(nn::GELU()), normal({4, 5})},
      {"gelu tanh", nn::AnyModule(nn::GELU(nn::GELUOptions().approximate("tanh"))), normal({4, 5})},
      {"silu", nn::AnyModule(nn::SiLU()), normal({4, 5})},
      {"mish", nn::AnyModule(nn::Mish()), normal({4, 5})},
      {"sigmoid", nn::AnyModule(nn::Sigmoid()), normal({4, 5})},
      {"log_sigmoid", nn::AnyModule(nn::LogSigmoid()), normal({4, 5})},
      {"tanh", nn::AnyModule(nn::Tanh()), normal({4, 5})},
      {"tanhshrink", nn::AnyModule(nn::Tanhshrink()), normal({4, 5})},
      {"elu", nn::AnyModule(nn::ELU(nn::ELUOptions().alpha(0.7))), normal({4, 5})},
      {"selu", nn::AnyModule(nn::SELU()), normal({4, 5})},
      {"celu", nn::AnyModule(nn::CELU(nn::CELUOptions().alpha(0.6))), normal({4, 5})},
      {"leaky_relu", nn::AnyModule(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2))),
       normal({4, 5})},
      {"rrelu", nn::AnyModule(nn::RReLU()), normal({4, 5})},
      {"prelu", nn::AnyModule(nn::PReLU()), normal({4, 5})},
      {"prelu of channels", nn::AnyModule(nn::PReLU(nn::PReLUOptions().num_parameters(4))),
       normal({4, 5, 2})},
      {"prelu of 2 axes", nn::AnyModule(nn::PReLU(nn::PReLUOptions().num_parameters(4))), normal({4})},
      {"hardtanh", nn::AnyModule(nn::Hardtanh(nn::HardtanhOptions().min_val(-0.5).max_val(0.7))),
       normal({4, 5})},
      {"hardshrink", nn::AnyModule(nn::Hardshrink()), normal({4, 5})},
      {"softshrink", nn::AnyModule(nn::Softshrink(0.3)), normal({4, 5})},
      {"softplus", nn::AnyModule(nn::Softplus(nn::SoftplusOptions().beta(2).threshold(1.5))), normal({4, 5})},
      {"softsign", nn::AnyModule(nn::Softsign()), normal({4, 5})},
      {"threshold", nn::AnyModule(nn::Threshold(nn::ThresholdOptions(0.1, -3))), normal({4, 5})},
      {"glu", nn::AnyModule(nn::GLU(1)), normal({4, 5})},
      {"softmax", nn::AnyModule(nn::Softmax(1)), normal({4, 5})},
      {"softmin", nn::AnyModule(nn::Softmin(2)), normal({4, 5})},
      {"log_softmax", nn::AnyModule(nn::LogSoftmax(-1)), normal({4, 5})},
      {"softmax2d", nn::AnyModule(nn::Softmax2d()), normal({4, 5, 3})},
  });
  check_all(std::vector<Case>{
      {"hardswish", normal({30}), [](auto& x) { return torch::hardswish(x * 4); }},
      {"hardsigmoid", normal({30}), [](auto& x) { return torch::hardsigmoid(x * 4); }},
  });
}

TEST_CASE("capture: pools") {
  check_all(std::vector<Layer>{
      {"max_pool1d", nn::AnyModule(nn::MaxPool1d(nn::MaxPool1dOptions(3).stride(2).padding(1))),
       normal({4, 9})},
      {"max_pool2d", nn::AnyModule(nn::MaxPool2d(nn::MaxPool2dOptions({2, 3}).stride(2).dilation({2, 1}))),
       normal({3, 7, 8})},
      {"max_pool2d ceil",
       nn::AnyModule(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(3).ceil_mode(true).padding(1))),
       normal({3, 7, 8})},
      {"max_pool3d", nn::AnyModule(nn::MaxPool3d(nn::MaxPool3dOptions(2))), normal({2, 4, 5, 6})},
      {"avg_pool1d", nn::AnyModule(nn::AvgPool1d(nn::AvgPool1dOptions(3).stride(2).padding(1))),
       normal({4, 9})},
      {"avg_pool2d",
       nn::AnyModule(nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(2).padding(1).count_include_pad(false))),
       normal({3, 7, 8})},
      {"avg_pool2d ceil",
       nn::AnyModule(nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(2).padding(1).ceil_mode(true))),
       normal({3, 8, 9})},
      {"avg_pool2d divisor", nn::AnyModule(nn::AvgPool2d(nn::AvgPool2dOptions(2).divisor_override(3))),
       normal({3, 8, 9})},
      {"avg_pool3d", nn::AnyModule(nn::AvgPool3d(nn::AvgPool3dOptions(2))), normal({2, 4, 5, 6})},
      {"adaptive_avg_pool1d", nn::AnyModule(nn::AdaptiveAvgPool1d(4)), normal({3, 8})},
      {"adaptive_avg_pool2d to 1", nn::AnyModule(nn::AdaptiveAvgPool2d(1)), normal({3, 8, 5})},
      {"adaptive_avg_pool2d uneven",
       nn::AnyModule(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({3, 4}))), normal({3, 8, 7})},
      {"adaptive_avg_pool3d", nn::AnyModule(nn::AdaptiveAvgPool3d(2)), normal({3, 4, 5, 6})},
      {"adaptive_max_pool1d", nn::AnyModule(nn::AdaptiveMaxPool1d(3)), normal({3, 8})},
      {"adaptive_max_pool2d", nn::AnyModule(nn::AdaptiveMaxPool2d(nn::AdaptiveMaxPool2dOptions({3, 2}))),
       normal({3, 7, 4})},
      {"adaptive_max_pool3d", nn::AnyModule(nn::AdaptiveMaxPool3d(1)), normal({3, 4, 5, 6})},
      {"lp_pool2d", nn::AnyModule(nn::LPPool2d(nn::LPPool2dOptions(2, 2))), normal({3, 4, 6})},
  });
}

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

TEST_CASE("capture: recurrent layers") {
  torch::manual_seed(8);
  const auto whole = [](const auto& made) { return libtorch::detail::flattened(made); };
  for (const bool batch_first : {true, false}) {
    for (const bool both : {false, true}) {
      for (const std::int64_t layers : {1, 2}) {
        CAPTURE(batch_first);
        CAPTURE(both);
        CAPTURE(layers);
        const CaptureOptions options{.batch_axes = {batch_first ? 0 : 1}};
        const Inputs x = [=](std::int64_t n) {
          return Tensors{batch_first ? torch::randn({n, 4, 3}) : torch::randn({4, n, 3})};
        };
        nn::LSTM lstm(nn::LSTMOptions(3, 5).num_layers(layers).bidirectional(both).batch_first(batch_first));
        check_capture(
            *lstm, x, [&](const Tensors& in) { return whole(lstm(in[0])); }, options);
        nn::GRU gru(
            nn::GRUOptions(3, 5).num_layers(layers).bidirectional(both).batch_first(batch_first).bias(false));
        check_capture(
            *gru, x, [&](const Tensors& in) { return whole(gru(in[0])); }, options);
        nn::RNN rnn(nn::RNNOptions(3, 5)
                        .num_layers(layers)
                        .bidirectional(both)
                        .batch_first(batch_first)
                        .nonlinearity(torch::kReLU));
        check_capture(
            *rnn, x, [&](const Tensors& in) { return whole(rnn(in[0])); }, options);
      }
    }
  }
  nn::LSTMCell cell(3, 4);
  check_capture(*cell, normal({3}), [&](const Tensors& in) { return whole(cell(in[0])); });
  nn::GRUCell gru_cell(3, 4);
  check_capture(*gru_cell, normal({3}), [&](const Tensors& in) { return whole(gru_cell(in[0])); });

  nn::LSTM given(nn::LSTMOptions(3, 5).batch_first(true));  // a state from outside, its batch along axis 1
  const CaptureOptions options{.batch_axes = {0, 1, 1}, .input_names = {"x", "h", "c"}};
  const Inputs inputs = [](std::int64_t n) {
    return Tensors{torch::randn({n, 4, 3}), torch::randn({1, n, 5}), torch::randn({1, n, 5})};
  };
  check_capture(
      *given, inputs, [&](const Tensors& in) { return whole(given(in[0], std::tuple(in[1], in[2]))); },
      options);
}

TEST_CASE("capture: attention") {
  torch::manual_seed(9);
  nn::MultiheadAttention attention(nn::MultiheadAttentionOptions(8, 2));
  const CaptureOptions second{.batch_axes = {1, 1, 1}};
  const Inputs three = [](std::int64_t n) {
    return Tensors{torch::randn({4, n, 8}), torch::randn({5, n, 8}), torch::randn({5, n, 8})};
  };
  check_capture(*attention, three, second);
  nn::TransformerDecoderLayer decoder(nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(12));
  const Inputs two = [](std::int64_t n) { return Tensors{torch::randn({4, n, 8}), torch::randn({5, n, 8})}; };
  check_capture(*decoder, two, CaptureOptions{.batch_axes = {1, 1}});
}

TEST_CASE("capture: what cannot be captured is one error with names") {
  torch::manual_seed(10);
  nn::Sequential network(nn::Linear(4, 4));
  const auto message = [&](const Forward& forward, const Tensors& x = {torch::randn({3, 4})},
                           const CaptureOptions& options = {}) -> std::string {
    try {
      libtorch::capture(*network, x, forward, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string both = message([&](const Tensors& x) {
    return Tensors{torch::linalg_inv(network->forward(x[0]).t().matmul(x[0])) + torch::erfinv(x[0].mean())};
  });
  CHECK(both.find("aten::linalg_inv behind '0'") != std::string::npos);
  CHECK(both.find("aten::erfinv") != std::string::npos);

  const std::string masked = message([&](const Tensors& x) { return Tensors{x[0].index({x[0] > 0})}; });
  CHECK(masked.find("aten::") != std::string::npos);

  const std::string alias = message([&](const Tensors& x) {
    const at::Tensor y = x[0] * 2, view = y.view({-1});
    y.add_(1);
    return Tensors{view};
  });
  CHECK(alias.find("changes a tensor in place") != std::string::npos);

  const std::string branch =
      message([&](const Tensors& x) { return Tensors{x[0].size(0) > 3 ? x[0].exp() : x[0].sin()}; });
  CHECK(branch.find("other operators for another batch size") != std::string::npos);

  const std::string half = message([&](const Tensors& x) {
    return Tensors{torch::zeros({x[0].size(0) / 2, 4}) + x[0].sum(0)};
  });
  CHECK(half.find("does not follow the batch") != std::string::npos);

  CHECK(message([](const Tensors& x) { return x; }, {}).find("example") != std::string::npos);
  const Tensors uneven = {torch::randn({3, 4}), torch::randn({2, 4})};
  CHECK(message([](const Tensors& x) { return Tensors{x[0]}; }, uneven).find("batch_axes") !=
        std::string::npos);
  CHECK(message([](const Tensors& x) { return x; }, {torch::randn({3, 4})}, {.batch_axes = {2}})
            .find("batch_axes") != std::string::npos);

  nn::LSTM projected(nn::LSTMOptions(4, 4).proj_size(2));
  CHECK_THROWS_WITH_AS(
      libtorch::capture(*projected, {torch::randn({3, 2, 4})},
                        [&](const Tensors& x) { return libtorch::detail::flattened(projected(x[0])); }),
      doctest::Contains("proj_size"), Error);
}

TEST_CASE("capture: outputs that are inputs, parameters or given twice; one size only") {
  torch::manual_seed(11);
  nn::Sequential network(nn::Linear(4, 4));
  check_capture(*network, normal({4}), [&](const Tensors& x) {
    const at::Tensor y = network->forward(x[0]);
    return Tensors{y, x[0], y, network->parameters()[0], y.relu()};
  });
  const graph::Graph fixed = libtorch::capture(*network, {torch::randn({3, 4})}, {.batch_axes = {-1}});
  CHECK(fixed.find("input")->is_static());
  const graph::Graph named = libtorch::capture(
      *network, {torch::randn({1, 4})}, {.batch_name = "n", .input_names = {"x"}, .output_names = {"y"}});
  CHECK(named.inputs == std::vector<std::string>{"x"});
  CHECK(named.outputs == std::vector<std::string>{"y"});
  CHECK(named.find("x")->shape->front().symbol == "n");
}
