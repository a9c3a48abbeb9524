// The configuration (config.json) of an encoder of BERT's form: BERT, RoBERTa and its kin, MPNet.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json/json_file.h"
#include "formats/checkpoint/activation.h"

namespace crumb {

enum class BertKind {
  kBert,
  kRoberta,  ///< positions count tokens that are no padding; CamemBERT and XLM-RoBERTa are the same
  kMpnet,    ///< likewise, without token types; a table of relative positions is added to the scores
};

struct BertConfig {
  BertKind kind = BertKind::kBert;
  size_t hidden_size = 0;
  size_t num_layers = 0;
  size_t num_heads = 0;
  size_t intermediate_size = 0;
  size_t vocab_size = 0;
  size_t max_positions = 0;
  size_t type_vocab_size = 0;  ///< 0: none
  /// The id of padding, whose row in the table of positions is padding's: the first token has the next one.
  /// Nothing where a token's position is its index.
  std::optional<size_t> padding_id;
  size_t relative_buckets = 0;  ///< rows of the table of relative positions; 0: none
  float layer_norm_eps = 1e-12F;
  Activation activation = Activation::kGelu;

  /// The tokens of the longest text: positions end there.
  size_t longest_text() const { return max_positions - (padding_id ? *padding_id + 1 : 0); }

  /// Whether parse() knows the "model_type".
  static bool knows(std::string_view model_type);
  /// "bert, camembert, ..."
  static std::string known();

  /// Throws crumb::Error for other architectures, and for invalid values.
  static BertConfig parse(const JsonFile& file);
};

}  // namespace crumb
