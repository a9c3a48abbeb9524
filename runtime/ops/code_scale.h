// What the nodes Codes and Values say (lower/domain.h).
#pragma once

#include "runtime/integer/code_values.h"
#include "runtime/operator.h"

namespace crumb::runtime {

inline integer::CodeScale code_scale_of(const graph::Node& node) {
  return {.scale = node.float_or("scale", 1),
          .zero = static_cast<float>(node.int_or("zero", 0)),
          .low = static_cast<float>(node.int_or("low", 0)),
          .high = static_cast<float>(node.int_or("high", 0)),
          .bipolar = node.int_or("bipolar", 0) != 0};
}

/// The type of the codes that a node makes; kUnknown where it says none.
inline ElementType codes_type(const graph::Node& node) {
  return graph::element_type_of(node.int_or("type", 0)).value_or(ElementType::kUnknown);
}

/// Whether codes of a type are bytes, as the runtime's own operators take and make them.
inline bool is_byte(ElementType type) {
  return carrier_of(type) == Carrier::kInt8 || carrier_of(type) == Carrier::kUint8;
}

}  // namespace crumb::runtime
