// The stored tensors of a quantized checkpoint by their layer, inside formats/checkpoint/quantized.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/quantized/quantized_matrix.h"

namespace crumb::quantized {

/// A layer: its stored tensors by the last part of their names ("weight_packed").
struct Module {
  std::string name;  ///< "model.layers.0.self_attn.q_proj"
  std::map<std::string, const TensorEntry*, std::less<>> tensors;

  /// Null where the layer has no such part.
  const TensorEntry* find(std::string_view part) const {
    const auto found = tensors.find(part);
    return found != tensors.end() ? found->second : nullptr;
  }
};

/// How one layer is decoded.
struct Decoding {
  QuantizedLayout layout;
  std::string codes, scales, zeros, index, global;  ///< names of parts; empty where the layout has none
};

/// What a checkpoint's method reads.
struct Reading {
  std::string method;               ///< "compressed-tensors (pack-quantized)", for messages
  std::vector<std::string> codes;   ///< a layer with one of these parts is quantized
  std::vector<std::string> taken;   ///< the parts of such a layer that its weight is made of
  std::vector<std::string> others;  ///< parts of any layer that are ignored: quantizers of activations
};

/// Describes what was found, for messages: "[32, 4] I32".
std::string found_text(const TensorEntry& tensor);

/// Whether the elements are stored contiguously, row by row.
bool lies_in_order(const TensorEntry& tensor);

/// A Failure that begins with the tensor's name.
Failure tensor_failure(const std::string& name, const std::string& why);

/// A layer's tensor of this type and number of axes. A Failure where it is missing or different.
Result<const TensorEntry*> needed(const Module& module, std::string_view part,
                                  std::initializer_list<DType> types, std::size_t axes);

}  // namespace crumb::quantized
