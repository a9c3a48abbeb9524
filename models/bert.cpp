#include "models/bert.h"

#include <cmath>
#include <limits>

#include "formats/checkpoint/bert_config.h"
#include "models/layer_builder.h"
#include "models/sentence_head.h"

namespace crumb::models {
namespace {

constexpr std::int64_t kOpset = 17;  // LayerNormalization

class BertBuilder {
 public:
  BertBuilder(ModelWeights& weights, const BertConfig& config)

      : build_(weights, kOpset), config_(config), prefix_(prefix_of(weights)) {}

  graph::Graph run() && {
    const graph::Shape tokens{graph::Dim("batch"), graph::Dim("sequence")};
    for (const char* name : {"input_ids", "attention_mask", "token_type_ids"}) {
      build_.input(name, {.type = graph::ElementType::kInt64, .shape = tokens});
    }
    std::string states = embeddings();
    mask();
    for (size_t i = 0; i < config_.num_layers; ++i) {
      states = layer(prefix_ + "encoder.layer." + std::to_string(i) + ".", states);
    }
    const auto width = static_cast<std::int64_t>(config_.hidden_size);
    build_.output(states, "last_hidden_state",
                  {graph::Dim("batch"), graph::Dim("sequence"), graph::Dim(width)});
    add_sentence_head(build_, {.states = "last_hidden_state", .mask = mask_, .tokens = "attention_mask"},
                      config_.hidden_size);
    return build_.take();
  }

 private:
  static std::string prefix_of(const ModelWeights& weights) {
    const std::string words = "embeddings.word_embeddings.weight";
    return !weights.has(words) && weights.has("bert." + words) ? "bert." : "";
  }

  std::string embeddings() {
    const size_t width = config_.hidden_size;
    const std::string name = prefix_ + "embeddings.";
    const std::string words = build_.node(
        "Gather", name + "word_embeddings",
        {build_.weight(name + "word_embeddings.weight", {config_.vocab_size, width}), "input_ids"});
    const std::string types =
        build_.node("Gather", name + "token_type_embeddings",
                    {build_.weight(name + "token_type_embeddings.weight", {config_.type_vocab_size, width}),
                     "token_type_ids"});
    const std::string shape = build_.node("Shape", name + "shape", {"input_ids"});
    const std::string length = build_.node("Gather", name + "length", {shape, build_.ints("axis_1", {1})});
    const std::string zero = build_.ints("axis_0", {0});
    const std::string positions =
        build_.node("Slice", name + "position_embeddings",
                    {build_.weight(name + "position_embeddings.weight", {config_.max_positions, width}), zero,
                     length, zero});
    const std::string typed = build_.node("Add", name + "add_types", {words, types});
    const std::string sum = build_.node("Add", name + "add_positions", {typed, positions});
    return build_.layer_norm(name + "LayerNorm", sum, width, config_.layer_norm_eps);
  }

  /// 1 for tokens and 0 for padding as floats, and what is added to the scores: 0, and the least number there
  /// is.
  void mask() {
    mask_ = build_.node("Cast", "attention_mask.float", {"attention_mask"},
                        {{"to", static_cast<std::int64_t>(graph::ElementType::kFloat)}});
    const std::string wide =
        build_.node("Unsqueeze", "attention_mask.wide", {mask_, build_.ints("head_axes", {1, 2})});
    const std::string inverse = build_.node("Sub", "attention_mask.inverse", {build_.floats("one", 1), wide});
    score_bias_ = build_.node("Mul", "attention_mask.score_bias",
                              {inverse, build_.floats("least_score", std::numeric_limits<float>::lowest())});
  }

  /// [batch, sequence, width] to [batch, heads, sequence, depth], or with the last two swapped.
  std::string heads(const std::string& name, const std::string& x, std::vector<std::int64_t> perm) {
    const auto count = static_cast<std::int64_t>(config_.num_heads);
    const auto depth = static_cast<std::int64_t>(config_.hidden_size) / count;
    const std::string split =
        build_.node("Reshape", name + ".split", {x, build_.ints("heads_shape", {0, 0, count, depth})});
    return build_.node("Transpose", name + ".heads", {split}, {{"perm", std::move(perm)}});
  }

  std::string attention(const std::string& name, const std::string& x) {
    const size_t width = config_.hidden_size;
    const auto project = [&](const char* part, std::vector<std::int64_t> perm) {
      return heads(name + part, build_.linear(name + part, x, width, width), std::move(perm));
    };
    const std::string query = project("query", {0, 2, 1, 3});
    const std::string key = project("key", {0, 2, 3, 1});
    const std::string value = project("value", {0, 2, 1, 3});
    const size_t depth = width / config_.num_heads;
    const float scale = 1.0F / std::sqrt(static_cast<float>(depth));
    const std::string products = build_.node("MatMul", name + "products", {query, key});
    const std::string scores =
        build_.node("Mul", name + "scores", {products, build_.floats("score_scale", scale)});
    const std::string masked = build_.node("Add", name + "masked", {scores, score_bias_});
    const std::string weights =
        build_.node("Softmax", name + "weights", {masked}, {{"axis", std::int64_t{-1}}});
    const std::string context = build_.node("MatMul", name + "context", {weights, value});
    const std::string rows =
        build_.node("Transpose", name + "rows", {context}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
    return build_.node("Reshape", name + "merged",
                       {rows, build_.ints("merged_shape", {0, 0, static_cast<std::int64_t>(width)})});
  }

  /// A linear layer, the residual sum and the norm behind it.
  std::string output(const std::string& name, const std::string& x, const std::string& residual, size_t in) {
    const size_t width = config_.hidden_size;
    const std::string made = build_.linear(name + "dense", x, in, width);
    const std::string sum = build_.node("Add", name + "residual", {residual, made});
    return build_.layer_norm(name + "LayerNorm", sum, width, config_.layer_norm_eps);
  }

  std::string layer(const std::string& name, const std::string& x) {
    const size_t width = config_.hidden_size, inner = config_.intermediate_size;
    const std::string context = attention(name + "attention.self.", x);
    const std::string attended = output(name + "attention.output.", context, x, width);
    const std::string up = build_.linear(name + "intermediate.dense", attended, width, inner);
    const std::string active = build_.activation(config_.activation, name + "intermediate.activation", up);
    return output(name + "output.", active, attended, inner);
  }

  LayerBuilder build_;
  BertConfig config_;
  std::string prefix_;
  std::string mask_, score_bias_;
};

}  // namespace

graph::Graph build_bert(ModelWeights& weights, const JsonFile& config) {
  return BertBuilder(weights, BertConfig::parse(config)).run();
}

}  // namespace crumb::models
