// A language model: a decoder's graph, and the tokenizer and configuration of its checkpoint.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/model.h"
#include "runtime/session.h"
#include "text/chat/chat_template.h"
#include "text/text_tokenizer.h"

namespace crumb::runtime {

class LanguageModel {
 public:
  /// `graph` has the inputs input_ids, attention_mask and position_ids (models/decoder.h), tied inputs
  /// (session.h) and the output logits, and only operators of the runtime. `read` reads the checkpoint's
  /// other files; `name` names it in messages. Throws Error where the graph is another one, where a file is
  /// missing or damaged, where the tokenizer has ids without logits, and as Model does.
  static LanguageModel load(graph::Graph graph, const text::ReadFile& read, const std::string& name);

  const Model& model() const { return model_; }
  const std::vector<Tie>& ties() const { return ties_; }
  const text::TextTokenizer& tokenizer() const { return tokenizer_; }
  std::size_t vocabulary() const { return vocabulary_; }  ///< the number of logits of a position
  std::size_t positions() const { return positions_; }    ///< max_position_embeddings
  /// Longer sequences compute all their positions with other frequencies (Phi-3's longrope); 0: there are
  /// none.
  std::size_t switch_at() const { return switch_at_; }
  /// Throws Error where the model has no template, or one that cannot be read.
  const text::ChatTemplate& chat_template() const;
  /// The tokens that end an answer: eos_token_id of generation_config.json, else of config.json, else the
  /// tokenizer's.
  const std::vector<text::TokenId>& end_tokens() const { return end_tokens_; }
  /// The token that the tokenizer puts before every text, if it does.
  std::optional<text::TokenId> first_token() const { return tokenizer_.first_token(); }

  /// What the graph's inputs are, in the order of those that are not tied.
  enum class Input : std::uint8_t { kIds, kMask, kPositions, kLogitPositions };
  const std::vector<Input>& inputs() const { return inputs_; }
  std::size_t logits() const { return logits_; }  ///< the index of the output
  bool keeps_positions() const { return keeps_positions_; }

 private:
  LanguageModel(graph::Graph graph, text::TextTokenizer tokenizer);

  Model model_;
  std::vector<Tie> ties_;
  text::TextTokenizer tokenizer_;
  std::vector<Input> inputs_;
  std::size_t logits_ = 0, vocabulary_ = 0, positions_ = 0, switch_at_ = 0;
  bool keeps_positions_ = false;
  std::vector<text::TokenId> end_tokens_;
  std::optional<text::ChatTemplate> chat_template_;
  std::string no_chat_template_;  ///< why chat_template() throws
};

}  // namespace crumb::runtime
