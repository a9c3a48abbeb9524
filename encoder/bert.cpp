#include "encoder/bert.h"

#include "base/files/interrupt.h"
#include "encoder/attention.h"
#include "encoder/elementwise.h"

namespace crumb::encoder {

struct Bert::Workspace {
  Workspace(size_t tokens, const BertConfig& config)
      : query(tokens * config.hidden_size),
        key(query.size()),
        value(query.size()),
        context(query.size()),
        inner(tokens * config.intermediate_size) {}

  std::vector<float> query, key, value, context, inner;
  AttentionScratch attention;
};

Bert::Bert(const models::WeightSource& source, const BertConfig& config) : config_(config) {
  const std::string words = "embeddings.word_embeddings.weight";
  const std::string prefix = !source.has(words) && source.has("bert." + words) ? "bert." : "";
  const size_t width = config.hidden_size;
  words_ = load_matrix(source, prefix + words, config.vocab_size, width);
  positions_ =
      load_matrix(source, prefix + "embeddings.position_embeddings.weight", config.max_positions, width);
  types_ =
      load_matrix(source, prefix + "embeddings.token_type_embeddings.weight", config.type_vocab_size, width);
  const float epsilon = config.layer_norm_eps;
  embedding_norm_ = LayerNorm::load(source, prefix + "embeddings.LayerNorm", width, epsilon);
  for (size_t i = 0; i < config.num_layers; ++i) {
    const std::string name = prefix + "encoder.layer." + std::to_string(i) + ".";
    layers_.push_back({
        .query = Linear::load(source, name + "attention.self.query", width, width),
        .key = Linear::load(source, name + "attention.self.key", width, width),
        .value = Linear::load(source, name + "attention.self.value", width, width),
        .attention_out = Linear::load(source, name + "attention.output.dense", width, width),
        .attention_norm = LayerNorm::load(source, name + "attention.output.LayerNorm", width, epsilon),
        .up = Linear::load(source, name + "intermediate.dense", width, config.intermediate_size),
        .down = Linear::load(source, name + "output.dense", config.intermediate_size, width),
        .out_norm = LayerNorm::load(source, name + "output.LayerNorm", width, epsilon),
    });
  }
}

std::vector<float> Bert::embed(const std::vector<std::span<const text::TokenId>>& sentences) const {
  const size_t width = config_.hidden_size;
  std::vector<float> type(width);
  types_->gather_row(0, type);
  std::vector<float> position(width);
  std::vector<float> states;
  for (const auto sentence : sentences) {
    for (size_t i = 0; i < sentence.size(); ++i) {
      states.resize(states.size() + width);
      const auto row = std::span(states).last(width);
      words_->gather_row(static_cast<size_t>(sentence[i]), row);
      positions_->gather_row(i, position);
      add_to(row, type);
      add_to(row, position);
    }
  }
  embedding_norm_.apply(states);
  return states;
}

void Bert::run_layer(const Layer& layer, const std::vector<std::span<const text::TokenId>>& sentences,
                     std::span<float> states, Workspace& work) const {
  const size_t width = config_.hidden_size;
  const size_t tokens = states.size() / width;
  layer.query.apply(states, tokens, work.query);
  layer.key.apply(states, tokens, work.key);
  layer.value.apply(states, tokens, work.value);
  size_t first = 0;
  for (const auto sentence : sentences) {
    const auto part = [&](std::vector<float>& all) {
      return std::span(all).subspan(first, sentence.size() * width);
    };
    attend(part(work.query), part(work.key), part(work.value), width, config_.num_heads, part(work.context),
           work.attention);
    first += sentence.size() * width;
  }
  std::vector<float>& projected = work.query;
  layer.attention_out.apply(work.context, tokens, projected);
  add_to(states, projected);
  layer.attention_norm.apply(states);

  layer.up.apply(states, tokens, work.inner);
  activate(config_.activation, work.inner);
  layer.down.apply(work.inner, tokens, projected);
  add_to(states, projected);
  layer.out_norm.apply(states);
}

std::vector<float> Bert::forward(const std::vector<std::span<const text::TokenId>>& sentences) const {
  std::vector<float> states = embed(sentences);
  Workspace work(states.size() / config_.hidden_size, config_);
  for (const Layer& layer : layers_) {
    check_interrupt();
    run_layer(layer, sentences, states, work);
  }
  return states;
}

}  // namespace crumb::encoder
