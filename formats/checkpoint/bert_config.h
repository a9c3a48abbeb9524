// What config.json says of a BERT encoder.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/json/json_file.h"

namespace crumb {

/// GELU is x * Phi(x); its tanh form x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
enum class Activation { kGelu, kGeluTanh, kRelu, kTanh, kIdentity };

/// From "hidden_act" of a Hugging Face configuration: gelu, gelu_new, gelu_pytorch_tanh, relu.
std::optional<Activation> parse_activation(std::string_view name);

struct BertConfig {
  size_t hidden_size = 0;
  size_t num_layers = 0;
  size_t num_heads = 0;
  size_t intermediate_size = 0;
  size_t vocab_size = 0;
  size_t max_positions = 0;
  size_t type_vocab_size = 0;
  float layer_norm_eps = 1e-12F;
  Activation activation = Activation::kGelu;

  /// Throws crumb::Error on another architecture than BERT, and on values that make no sense.
  static BertConfig parse(const JsonFile& file);
};

}  // namespace crumb
