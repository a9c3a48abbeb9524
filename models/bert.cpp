#include "models/bert.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "formats/checkpoint/bert_config.h"
#include "models/layer_builder.h"
#include "models/score_head.h"
#include "models/sentence_head.h"

namespace crumb::models {
namespace {

constexpr std::int64_t kOpset = 17;  // LayerNormalization

/// Names of a layer's attention, behind the layer's own.
struct AttentionNames {
  const char *folder, *query, *key, *value;
  const char* output;  ///< the folder of the sum and the norm behind it
  const char* dense;   ///< in that folder
};

constexpr AttentionNames kBertNames = {"attention.self.",   "query", "key", "value",
                                       "attention.output.", "dense"};
constexpr AttentionNames kMpnetNames = {"attention.attn.", "q", "k", "v", "attention.", "attn.o"};

/// Distances of a query and a key fall into buckets, as T5 has them for both directions (Raffel et al. 2020)
/// and MPNet takes them: 16 for keys up to the query and 16 for those behind it, of which 8 are single
/// distances, and the others widen up to 128 places.
constexpr std::int64_t kBucketsOfDirection = 16, kSingleDistances = 8, kFarthestBucket = 128;

/// Of distances from 0 on, up to the first that is in the last bucket. The logarithm is that of float32, as
/// PyTorch computes it.
std::vector<std::int64_t> buckets_of_distances() {
  std::vector<std::int64_t> buckets;
  while (buckets.empty() || buckets.back() < kBucketsOfDirection - 1) {
    const auto far = static_cast<std::int64_t>(buckets.size());
    if (far < kSingleDistances) {
      buckets.push_back(far);
      continue;
    }
    const float part = std::log(static_cast<float>(far) / static_cast<float>(kSingleDistances)) /
                       static_cast<float>(std::log(static_cast<double>(kFarthestBucket) / kSingleDistances)) *
                       static_cast<float>(kBucketsOfDirection - kSingleDistances);
    buckets.push_back(std::min(kSingleDistances + static_cast<std::int64_t>(part), kBucketsOfDirection - 1));
  }
  return buckets;
}

class BertBuilder {
 public:
  BertBuilder(ModelWeights& weights, const JsonFile& file)
      : build_(weights, kOpset),
        config_(BertConfig::parse(file)),
        score_head_(ScoreHead::read(file, [&](const std::string& path) { return weights.text(path); })),
        names_(config_.kind == BertKind::kMpnet ? kMpnetNames : kBertNames),
        prefix_(prefix_of(weights, config_.kind)) {}

  graph::Graph run() && {
    const graph::Shape tokens{graph::Dim("batch"), graph::Dim("sequence")};
    for (const char* name : {"input_ids", "attention_mask", "token_type_ids"}) {
      if (config_.type_vocab_size == 0 && std::string_view(name) == "token_type_ids") continue;
      build_.input(name, {.type = graph::ElementType::kInt64, .shape = tokens});
    }
    std::string states = embeddings();
    mask();
    if (config_.relative_buckets > 0) add_relative_positions();
    for (size_t i = 0; i < config_.num_layers; ++i) {
      states = layer(prefix_ + "encoder.layer." + std::to_string(i) + ".", states);
    }
    const auto width = static_cast<std::int64_t>(config_.hidden_size);
    build_.output(states, "last_hidden_state",
                  {graph::Dim("batch"), graph::Dim("sequence"), graph::Dim(width)});
    if (score_head_ && build_.weights().has(score_layers().classifier + ".weight")) {
      add_score_head(build_, *score_head_, score_layers(), first_states(build_, "last_hidden_state"),
                     config_.hidden_size);
      return build_.take();
    }
    add_sentence_head(build_, {.states = "last_hidden_state", .mask = mask_, .tokens = "attention_mask"},
                      config_.hidden_size);
    return build_.take();
  }

 private:
  /// BERT scores what its pooler makes of the first token; the others have the same layers behind each other.
  ScoreLayers score_layers() const {
    if (config_.kind == BertKind::kBert)
      return {.dense = prefix_ + "pooler.dense", .classifier = "classifier"};
    return {.dense = "classifier.dense", .classifier = "classifier.out_proj"};
  }

  static std::string prefix_of(const ModelWeights& weights, BertKind kind) {
    const std::string words = "embeddings.word_embeddings.weight";
    const std::string prefix = kind == BertKind::kBert      ? "bert."
                               : kind == BertKind::kRoberta ? "roberta."
                                                            : "mpnet.";
    return !weights.has(words) && weights.has(prefix + words) ? prefix : "";
  }

  std::string embeddings() {
    const size_t width = config_.hidden_size;
    const std::string name = prefix_ + "embeddings.";
    std::string sum = build_.node(
        "Gather", name + "word_embeddings",
        {build_.weight(name + "word_embeddings.weight", {config_.vocab_size, width}), "input_ids"});
    if (config_.type_vocab_size > 0) {
      const std::string types =
          build_.node("Gather", name + "token_type_embeddings",
                      {build_.weight(name + "token_type_embeddings.weight", {config_.type_vocab_size, width}),
                       "token_type_ids"});
      sum = build_.node("Add", name + "add_types", {sum, types});
    }
    const std::string positions = config_.padding_id ? counted_positions(name) : positions_by_index(name);
    sum = build_.node("Add", name + "add_positions", {sum, positions});
    return build_.layer_norm(name + "LayerNorm", sum, width, config_.layer_norm_eps);
  }

  std::string position_table(const std::string& name) {
    return build_.weight(name + "position_embeddings.weight", {config_.max_positions, config_.hidden_size});
  }

  std::string positions_by_index(const std::string& name) {
    const std::string shape = build_.node("Shape", name + "shape", {"input_ids"});
    const std::string length = build_.node("Gather", name + "length", {shape, build_.ints("axis_1", {1})});
    const std::string zero = build_.ints("axis_0", {0});
    return build_.node("Slice", name + "position_embeddings", {position_table(name), zero, length, zero});
  }

  /// Padding has the position of its id, wherever it stands, also as a token of the text; the n-th other
  /// token has that and n.
  std::string counted_positions(const std::string& name) {
    const std::string padding = build_.scalar("padding", static_cast<std::int64_t>(*config_.padding_id));
    const std::string is_padding = build_.node("Equal", name + "is_padding", {"input_ids", padding});
    const std::string others =
        build_.node("Cast", name + "others", {build_.node("Not", name + "is_other", {is_padding})},
                    {{"to", static_cast<std::int64_t>(graph::ElementType::kInt64)}});
    const std::string counted = build_.node("Mul", name + "counted", {others, "attention_mask"});
    const std::string counts = build_.node("CumSum", name + "counts", {counted, build_.scalar("along", 1)});
    const std::string own = build_.node("Mul", name + "counts_of_others", {counts, counted});
    const std::string positions = build_.node("Add", name + "positions", {own, padding});
    return build_.node("Gather", name + "position_embeddings", {position_table(name), positions});
  }

  /// Adds to the scores what the table of relative positions says of each query and key: [batch, heads,
  /// sequence, sequence].
  void add_relative_positions() {
    const std::string name = prefix_ + "encoder.relative_attention_bias";
    const std::string shape = build_.node("Shape", name + ".shape", {"input_ids"});
    const std::string length = build_.node("Gather", name + ".length", {shape, build_.scalar("along", 1)});
    const std::string keys = build_.node("Range", name + ".keys",
                                         {build_.scalar("place_0", 0), length, build_.scalar("step_1", 1)});
    const std::string queries =
        build_.node("Unsqueeze", name + ".queries", {keys, build_.ints("axis_1", {1})});
    const std::string distances = build_.node("Sub", name + ".distances", {keys, queries});
    const std::vector<std::int64_t> table = buckets_of_distances();
    const std::string far =
        build_.node("Min", name + ".far",
                    {build_.node("Abs", name + ".absolute", {distances}),
                     build_.scalar("farthest", static_cast<std::int64_t>(table.size()) - 1)});
    const std::string of_direction =
        build_.node("Gather", name + ".of_direction", {build_.ints("buckets", table), far});
    const std::string behind =
        build_.node("Cast", name + ".behind",
                    {build_.node("Greater", name + ".is_behind", {distances, build_.scalar("place_0", 0)})},
                    {{"to", static_cast<std::int64_t>(graph::ElementType::kInt64)}});
    const std::string of_others =
        build_.node("Mul", name + ".of_others", {behind, build_.scalar("of_others", kBucketsOfDirection)});
    const std::string bucket = build_.node("Add", name + ".buckets", {of_direction, of_others});
    const std::string rows =
        build_.node("Gather", name,
                    {build_.weight(name + ".weight", {config_.relative_buckets, config_.num_heads}), bucket});
    const std::string by_head =
        build_.node("Transpose", name + ".heads", {rows}, {{"perm", std::vector<std::int64_t>{2, 0, 1}}});
    score_bias_ = build_.node("Add", name + ".and_mask", {score_bias_, by_head});
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
    const std::string query = project(names_.query, {0, 2, 1, 3});
    const std::string key = project(names_.key, {0, 2, 3, 1});
    const std::string value = project(names_.value, {0, 2, 1, 3});
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
  std::string output(const std::string& name, const char* dense, const std::string& x,
                     const std::string& residual, size_t in) {
    const size_t width = config_.hidden_size;
    const std::string made = build_.linear(name + dense, x, in, width);
    const std::string sum = build_.node("Add", name + "residual", {residual, made});
    return build_.layer_norm(name + "LayerNorm", sum, width, config_.layer_norm_eps);
  }

  std::string layer(const std::string& name, const std::string& x) {
    const size_t width = config_.hidden_size, inner = config_.intermediate_size;
    const std::string context = attention(name + names_.folder, x);
    const std::string attended = output(name + names_.output, names_.dense, context, x, width);
    const std::string up = build_.linear(name + "intermediate.dense", attended, width, inner);
    const std::string active = build_.activation(config_.activation, name + "intermediate.activation", up);
    return output(name + "output.", "dense", active, attended, inner);
  }

  LayerBuilder build_;
  BertConfig config_;
  std::optional<ScoreHead> score_head_;
  const AttentionNames& names_;
  std::string prefix_;
  std::string mask_, score_bias_;
};

}  // namespace

graph::Graph build_bert(ModelWeights& weights, const JsonFile& config) {
  return BertBuilder(weights, config).run();
}

}  // namespace crumb::models
