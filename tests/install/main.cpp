// The smallest program that uses an installed Crumb: eight weights to int4 and back; a graph to a file and back, and
// what a linter says of it.
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "export/lint/lint.h"
#include "graph/onnx/read.h"
#include "graph/onnx/write.h"
#include "graph/passes/passes.h"
#include "quant/distortion.h"
#include "quant/quantizer.h"

namespace {

void weights() {
  const std::vector<float> values = {-7, -3.2F, 0, 1, 2, 3, 4, 7};
  const std::vector<uint64_t> shape = {1, 8};
  const auto spec = crumb::QuantSpec::parse("int4:channel");

  std::vector<float> decoded(values.size());
  crumb::fake_quantize(spec, values, shape, decoded);
  for (const float value : decoded) std::cout << value << ' ';
  std::cout << '\n';
}

void graph() {
  namespace g = crumb::graph;
  g::Graph net{.inputs = {"x"}, .outputs = {"y"}, .opsets = {{"", 13}}};
  net.values["x"] = {.type = g::ElementType::kFloat, .shape = g::Shape{1, 3}};
  net.initializers["w"] = g::Tensor::floats({3, 2}, std::vector<float>(6, 0.5F));
  net.nodes = {{.name = "same", .op = "Identity", .version = 13, .inputs = {"x"}, .outputs = {"a"}},
               {.name = "dense", .op = "Gemm", .version = 13, .inputs = {"a", "w"}, .outputs = {"y"}}};
  const std::string bytes = g::onnx_bytes(g::remove_identities(net));
  const g::Graph again = g::parse_onnx(std::as_bytes(std::span(bytes)), ".").take();
  for (const g::Node& node : again.nodes) std::cout << node.op << ' ';
  for (const auto& found : crumb::exporting::lint(again, crumb::exporting::Profile::kFinn)) {
    std::cout << found.rule << ' ' << found.node << ' ';
  }
  std::cout << '\n';
}

}  // namespace

int main() {
  weights();
  graph();
}
