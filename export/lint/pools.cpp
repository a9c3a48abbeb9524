// Rules about average pools: FINN takes two patterns that end in Trunc, hls4ml takes none that come through QONNX.
#include <algorithm>
#include <cmath>

#include "export/lint/checks.h"

namespace crumb::exporting::checks {
namespace {

bool is_scalar(const Tensor* constant, float value) {
  return constant && constant->rank() == 0 && uniform(constant) == value;
}

/// What is wrong with the pool of a pattern; empty where nothing is.
std::string fault_of_pool(const Node* pool) {
  if (!pool || !pool->is("AveragePool")) return "no AveragePool stands before it";
  const auto kernel = pool->ints_or("kernel_shape", {}), strides = pool->ints_or("strides", {});
  const auto pads = pool->ints_or("pads", {});
  if (kernel.size() != 2 || kernel[0] != kernel[1])
    return "the pool's kernel is not square in two dimensions";
  if (strides.size() != 2 || strides[0] != strides[1]) return "the pool's strides are not two equal numbers";
  if (pads.empty()) return "the pool's pads are not written";
  if (std::ranges::any_of(pads, [](std::int64_t pad) { return pad != 0; })) return "the pool pads";
  return "";
}

/// What is wrong with a Trunc for FINN; empty where nothing is.
std::string fault_of_trunc(const Subject& subject, const Node& node) {
  if (node.text_or("rounding_mode", "FLOOR") != "FLOOR") return "its rounding_mode is not FLOOR";
  if (node.inputs.size() < 5) return "it has too few inputs";
  if (node.inputs.size() > 5) {
    const auto scale = uniform(subject.constant(node, 1)), in = uniform(subject.constant(node, 3)),
               out_scale = uniform(subject.constant(node, 4)), out = uniform(subject.constant(node, 5));
    if (!scale || !in || !out_scale || !out) return "its parameters are not one constant number each";
    if (std::log2(*out_scale / *scale) != *in - *out) {
      return "log2(out_scale / scale) is not in_bitwidth - out_bitwidth";
    }
    return fault_of_pool(subject.source(node, 0));
  }
  if (!is_scalar(subject.constant(node, 2), 0)) return "its zeropt is not 0 of shape []";
  const Node* mul = subject.source(node, 0);
  if (!mul || !mul->is("Mul")) return "no Mul by the size of the kernel stands before it";
  const Node* pool = subject.source(*mul, 0);
  if (const std::string fault = fault_of_pool(pool); !fault.empty()) return fault;
  const auto side = static_cast<float>(pool->ints_or("kernel_shape", {0})[0]);
  if (!is_scalar(subject.constant(*mul, 1), side * side)) {
    return "the Mul before it is not by " + number_text(side * side) + " of shape []";
  }
  return "";
}

}  // namespace

void average_pools(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (subject.is_for(Profile::kHls4ml)) {
      if (node.is("AveragePool") || node.is("GlobalAveragePool")) {
        report.add(node, "found " + node.op +
                             ", which has no channels-last form in QONNX; expected a convolution "
                             "or a MaxPool");
      }
      continue;
    }
    if (!node.is("AveragePool")) continue;
    const auto is_trunc = [](const Node* next) { return next->is("Trunc", kQonnxDomain); };
    const auto leads_to_trunc = [&](const Node* next) {
      return is_trunc(next) || (next->is("Mul") && std::ranges::any_of(subject.consumers(*next), is_trunc));
    };
    if (!std::ranges::any_of(subject.consumers(node), leads_to_trunc)) {
      report.add(node, "no Trunc follows, expected AveragePool, Mul by the size of the kernel, Trunc");
    }
  }
}

void truncs(const Subject& subject, Report& report) {
  for (const Node& node : subject.nodes()) {
    if (!node.is("Trunc", kQonnxDomain)) continue;
    if (const std::string fault = fault_of_trunc(subject, node); !fault.empty()) {
      report.add(node, fault + "; expected AveragePool, Mul by the size of the kernel, Trunc");
    }
  }
}

}  // namespace crumb::exporting::checks
