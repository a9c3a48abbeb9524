// QONNX's quantizers as nodes with every attribute, as all of Crumb's own graphs and files have them.
//
// Inputs are names of values, "" for one that is filled in later. Nodes have no name and no output yet, and
// version 1.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace crumb::graph {

/// Quant: data, scale, zero point, bit width.
inline Node quant_node(std::vector<std::string> inputs, bool is_signed, bool narrow,
                       const std::string& rounding = "ROUND") {
  return {.op = "Quant",
          .domain = std::string(kQonnxDomain),
          .inputs = std::move(inputs),
          .attributes = {{"signed", std::int64_t{is_signed}},
                         {"narrow", std::int64_t{narrow}},
                         {"rounding_mode", rounding}}};
}

/// BipolarQuant.
inline Node bipolar_quant_node(const std::string& data, const std::string& scale) {
  return {.op = "BipolarQuant", .domain = std::string(kQonnxDomain), .inputs = {data, scale}};
}

/// FloatQuant that saturates: data, scale, bits of exponent and mantissa, bias, largest number.
inline Node float_quant_node(std::vector<std::string> inputs, const std::string& rounding = "ROUND") {
  return {.op = "FloatQuant",
          .domain = std::string(kQonnxDomain),
          .inputs = std::move(inputs),
          .attributes = {{"rounding_mode", rounding},
                         {"has_inf", std::int64_t{0}},
                         {"has_nan", std::int64_t{0}},
                         {"has_subnormal", std::int64_t{1}},
                         {"saturation", std::int64_t{1}}}};
}

}  // namespace crumb::graph
