// A BERT encoder (Devlin et al. 2018): embeddings, then layers of attention and feed-forward, each followed
// by the residual sum and layer norm. Sentences of a batch stand one after another without padding; attention
// stays inside a sentence, all else is row by row, so a sentence's result does not depend on its neighbours.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "encoder/layers.h"
#include "formats/checkpoint/bert_config.h"
#include "text/wordpiece.h"

namespace crumb::encoder {

class Bert {
 public:
  /// Tensor names are those of Hugging Face's BertModel, with "bert." before them or not.
  Bert(const models::WeightSource& source, const BertConfig& config);

  const BertConfig& config() const { return config_; }

  /// The last hidden states, [sum of lengths, hidden_size], of sentences with ids below vocab_size and at
  /// most max_positions of them each. All tokens are of type 0.
  std::vector<float> forward(const std::vector<std::span<const text::TokenId>>& sentences) const;

 private:
  struct Layer {
    Linear query, key, value, attention_out;
    LayerNorm attention_norm;
    Linear up, down;
    LayerNorm out_norm;
  };
  struct Workspace;

  std::vector<float> embed(const std::vector<std::span<const text::TokenId>>& sentences) const;
  void run_layer(const Layer& layer, const std::vector<std::span<const text::TokenId>>& sentences,
                 std::span<float> states, Workspace& work) const;

  BertConfig config_;
  std::unique_ptr<runtime::Matrix> words_;
  std::unique_ptr<runtime::Matrix> positions_;
  std::unique_ptr<runtime::Matrix> types_;
  LayerNorm embedding_norm_;
  std::vector<Layer> layers_;
};

}  // namespace crumb::encoder
