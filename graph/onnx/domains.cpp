#include "graph/onnx/domains.h"

#include <algorithm>
#include <array>

#include "graph/graph.h"

namespace crumb::graph {

std::string usual_domain(std::string_view domain) {
  constexpr std::array kOlder = {"onnx.brevitas", "finn.custom_op.general", "finn",
                                 "qonnx.custom_ops.general"};
  if (domain == "ai.onnx") return std::string(kOnnxDomain);
  if (std::ranges::find(kOlder, domain) != kOlder.end()) return std::string(kQonnxDomain);
  return std::string(domain);
}

bool is_qonnx_operator(std::string_view op) {
  constexpr std::array kOperators = {
      "Quant",  "IntQuant",       "BipolarQuant", "Trunc",          "FloatQuant",
      "Im2Col", "MultiThreshold", "MaxPoolNHWC",  "QuantAvgPool2d", "XnorPopcountMatMul"};
  return std::ranges::find(kOperators, op) != kOperators.end();
}

}  // namespace crumb::graph
