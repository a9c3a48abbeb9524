#include "graph/onnx/wire/domains.h"

#include <algorithm>
#include <array>

#include "graph/graph.h"
#include "graph/operator_traits.h"

namespace crumb::graph {

std::string usual_domain(std::string_view domain) {
  constexpr std::array kOlder = {"onnx.brevitas", "finn.custom_op.general", "finn",
                                 "qonnx.custom_ops.general"};
  if (domain == "ai.onnx") return std::string(kOnnxDomain);
  if (std::ranges::find(kOlder, domain) != kOlder.end()) return std::string(kQonnxDomain);
  return std::string(domain);
}

bool is_qonnx_operator(std::string_view op) {
  return traits_of({.op = std::string(op), .domain = std::string(kQonnxDomain)}).op == op;
}

}  // namespace crumb::graph
