// The configuration (config.json) of ModernBERT (Warner et al. 2024, arXiv:2412.13663).
//
//   x = norm(embedding[ids])
//   for each layer:  x = x + attention(norm(x));  x = x + mlp(norm(x))      (the first attention has no norm)
//   states = norm(x),  mlp(x) = out(act(a) * b), a and b being the halves of in(x)
//
// Attention sees all tokens, or those that are at most `reach` places away, by the layer; positions are
// rotary, with a rotation of its own for each of the two.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "base/json/json_file.h"
#include "formats/checkpoint/activation.h"
#include "formats/checkpoint/rotary_config.h"

namespace crumb {

struct ModernBertConfig {
  std::size_t hidden_size = 0, num_heads = 0, intermediate_size = 0;
  std::size_t vocab_size = 0, max_positions = 0;
  std::size_t reach = 0;       ///< places on either side that a local layer sees
  std::vector<bool> is_local;  ///< of each layer
  RotaryEmbedding global, local;
  float norm_epsilon = 1e-5F;
  bool norm_bias = false, attention_bias = false, mlp_bias = false;
  Activation activation = Activation::kGelu;

  /// The head of a model that scores texts (score_head.h): dense, activation and norm before its classifier.
  struct Head {
    bool pools_mean = false;  ///< the mean of the tokens' states; else the first one's
    bool bias = false;        ///< of dense
    Activation activation = Activation::kGelu;
  };
  Head head;

  static constexpr const char* kModelType = "modernbert";

  /// Throws Error, which names file, key, found and expected, for another architecture and for invalid
  /// values.
  static ModernBertConfig parse(const JsonFile& file);
};

}  // namespace crumb
