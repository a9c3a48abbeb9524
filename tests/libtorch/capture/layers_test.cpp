// Every family of layers: the graph gives what LibTorch gives.
#include "tests/libtorch/capture/check_cases.h"
//
#include <map>

#include "tests/support/testing.h"

using namespace crumb;           // NOLINT: a test
using namespace crumb::testing;  // NOLINT
namespace nn = torch::nn;
namespace F = torch::nn::functional;

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
