// The configuration (config.json) of a BERT encoder.
#pragma once

#include <cstddef>

#include "base/json/json_file.h"
#include "formats/checkpoint/activation.h"

namespace crumb {

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

  /// Throws crumb::Error for other architectures than BERT, and for invalid values.
  static BertConfig parse(const JsonFile& file);
};

}  // namespace crumb
