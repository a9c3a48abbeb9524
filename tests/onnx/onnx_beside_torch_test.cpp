// ONNX's checker and shape inference, and LibTorch, in one process: their protobufs and theirs do not disturb
// each other.
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/onnx/model_summary.h"
#include "tests/support/testing.h"
#include "tests/support/torch_doctest.h"

using crumb::testing::summarize_onnx;

namespace {

/// A LibTorch call with a known answer: the 2x2 sums of a 3x3 image of ones.
void check_torch_convolves() {
  const auto image = torch::ones({1, 1, 3, 3});
  const auto kernel = torch::ones({1, 1, 2, 2});
  CHECK(torch::conv2d(image, kernel).equal(torch::full({1, 1, 2, 2}, 4.0)));
}

}  // namespace

TEST_CASE("onnx: a model is checked and its shapes inferred beside LibTorch") {
  check_torch_convolves();
  const auto summary = summarize_onnx(crumb::testing::tiny_onnx_model("Relu"));
  CHECK(summary.operators == std::vector<std::string>{"Relu"});
  CHECK(summary.output_shape == std::vector<std::int64_t>{2, 3});
  check_torch_convolves();
}

TEST_CASE("onnx: an invalid model is refused by an exception") {
  CHECK_THROWS_AS(summarize_onnx(crumb::testing::tiny_onnx_model("NoSuchOperator")), std::exception);
  CHECK_THROWS_AS(summarize_onnx("not a protobuf message"), std::exception);
}

TEST_CASE("onnx: a real convolutional model is checked beside LibTorch") {
  const auto networks = crumb::testing::qonnx_networks();
  if (!networks) return crumb::testing::skip("qonnx is not installed (scripts/setup tests)");
  std::ifstream file(*networks / "mnist-conv/model.onnx", std::ios::binary);
  REQUIRE(file);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});

  check_torch_convolves();
  const auto summary = summarize_onnx(bytes);
  CHECK(std::count(summary.operators.begin(), summary.operators.end(), "Conv") == 2);
  CHECK(summary.output_shape == std::vector<std::int64_t>{1, 10});
  check_torch_convolves();
}
