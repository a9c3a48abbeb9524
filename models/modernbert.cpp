#include "models/modernbert.h"

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/checkpoint/modernbert_config.h"
#include "models/layer_builder.h"
#include "models/score_head.h"
#include "models/sentence_head.h"
#include "models/token_places.h"

namespace crumb::models {
namespace {

using graph::Dim;
using graph::ElementType;

constexpr std::int64_t kModernBertOpset = 24;  // Attention, RotaryEmbedding, Gelu

std::int64_t as_int(std::size_t n) { return static_cast<std::int64_t>(n); }

class ModernBertBuilder {
 public:
  ModernBertBuilder(ModelWeights& weights, const JsonFile& file)
      : build_(weights, kModernBertOpset),
        config_(ModernBertConfig::parse(file)),
        score_head_(ScoreHead::read(file, [&](const std::string& path) { return weights.text(path); })) {}

  graph::Graph run() && {
    if (!build_.weights().has(kWords) && build_.weights().has(std::string("model.") + kWords))
      root_ = "model.";
    for (const char* name : {"input_ids", "attention_mask"})
      build_.input(name, {.type = ElementType::kInt64, .shape = graph::Shape{Dim("batch"), Dim("sequence")}});
    places_ = token_places(build_);
    const std::string column = positions_column(build_, places_.positions);
    const std::size_t width = config_.hidden_size;
    const std::string rows =
        build_.node("Gather", root_ + "embeddings.tok_embeddings",
                    {build_.weight(root_ + kWords, {config_.vocab_size, width}), "input_ids"});
    std::string x = norm(root_ + "embeddings.norm", rows);
    for (std::size_t i = 0; i < config_.is_local.size(); ++i) x = layer(i, x, column);
    build_.output(norm(root_ + "final_norm", x), "last_hidden_state",
                  {Dim("batch"), Dim("sequence"), Dim(as_int(width))});
    const std::string mask =
        build_.node("Cast", "attention_mask.float", {"attention_mask"},
                    {{"to", static_cast<std::int64_t>(graph::onnx_number(ElementType::kFloat))}});
    const TokenStates tokens{.states = "last_hidden_state", .mask = mask, .tokens = "attention_mask"};
    if (score_head_ && build_.weights().has("classifier.weight")) {
      add_scores(tokens);
    } else {
      add_sentence_head(build_, tokens, width);
    }
    return build_.take();
  }

 private:
  void add_scores(const TokenStates& tokens) {
    const ModernBertConfig::Head& head = config_.head;
    const std::string pooled =
        head.pools_mean ? mean_states(build_, tokens) : first_states(build_, tokens.states);
    add_score_head(build_, *score_head_,
                   {.dense = "head.dense",
                    .classifier = "classifier",
                    .dense_bias = head.bias,
                    .activation = head.activation,
                    .norm = "head.norm",
                    .norm_bias = config_.norm_bias,
                    .norm_epsilon = config_.norm_epsilon},
                   pooled, config_.hidden_size);
  }

  static constexpr const char* kWords = "embeddings.tok_embeddings.weight";

  /// What layers of one kind share, made for the first of them.
  struct Kind {
    std::string seen;  ///< which keys a query sees, bool
    RotationTable table;
  };

  const Kind& kind_of(bool is_local, const std::string& column) {
    Kind& kind = kinds_[is_local ? 1 : 0];
    if (!kind.seen.empty()) return kind;
    const std::string name = is_local ? "local" : "global";
    const RotaryEmbedding& rotation = is_local ? config_.local : config_.global;
    kind.table =
        rotation_table(build_, name + "_rotation", column,
                       build_.row(name + "_rotation.frequencies", rotation.frequencies), rotation.factor);
    kind.seen = is_local ? near_tokens() : places_.tokens;
    return kind;
  }

  /// Tokens within reach; each query's own key, too, so that rows of padding are finite.
  std::string near_tokens() {
    const std::string distance = build_.node(
        "Abs", "local.distance", {build_.node("Sub", "local.offset", {places_.keys, places_.queries})});
    const std::string is_near =
        build_.node("LessOrEqual", "local.near", {distance, build_.scalar("reach", as_int(config_.reach))});
    const std::string valid = build_.node("And", "local.valid", {is_near, places_.tokens});
    const std::string own = build_.node("Equal", "local.own", {places_.keys, places_.queries});
    return build_.node("Or", "local.mask", {valid, own});
  }

  std::string norm(const std::string& name, const std::string& x) {
    return build_.layer_norm(name, x, config_.hidden_size, config_.norm_epsilon, config_.norm_bias);
  }

  /// The equal parts of the last axis.
  std::vector<std::string> split(const std::string& name, const std::string& x, std::size_t size,
                                 std::vector<std::string> parts) {
    const std::vector<std::int64_t> sizes(parts.size(), as_int(size));
    build_.node_of_outputs("Split", name, {x, build_.ints("sizes", sizes)}, parts,
                           {{"axis", std::int64_t{-1}}});
    return parts;
  }

  std::string attention(const std::string& name, const std::string& x, const Kind& kind) {
    const std::size_t width = config_.hidden_size;
    const std::string all = build_.linear(name + "Wqkv", x, width, 3 * width, config_.attention_bias);
    const auto parts = split(name + "split", all, width, {name + "q", name + "k", name + "v"});
    const auto turned = [&](const std::string& part) {
      return build_.node("RotaryEmbedding", part + "_turned", {part, kind.table.cosine, kind.table.sine},
                         {{"num_heads", as_int(config_.num_heads)}});
    };
    const std::string q = turned(parts[0]), k = turned(parts[1]), out = name + "context";
    const std::size_t depth = width / config_.num_heads;
    build_.node_of_outputs("Attention", name + "attention", {q, k, parts[2], kind.seen}, {out},
                           {{"q_num_heads", as_int(config_.num_heads)},
                            {"kv_num_heads", as_int(config_.num_heads)},
                            {"scale", static_cast<float>(1 / std::sqrt(static_cast<double>(depth)))}});
    return build_.linear(name + "Wo", out, width, width, config_.attention_bias);
  }

  std::string mlp(const std::string& name, const std::string& x) {
    const std::size_t width = config_.hidden_size, inner = config_.intermediate_size;
    const std::string both = build_.linear(name + "Wi", x, width, 2 * inner, config_.mlp_bias);
    const auto parts = split(name + "split", both, inner, {name + "input", name + "gate"});
    const std::string active = build_.activation(config_.activation, name + "act", parts[0]);
    const std::string product = build_.node("Mul", name + "product", {active, parts[1]});
    return build_.linear(name + "Wo", product, inner, width, config_.mlp_bias);
  }

  std::string layer(std::size_t i, const std::string& x, const std::string& column) {
    const std::string name = root_ + "layers." + std::to_string(i) + ".";
    const Kind& kind = kind_of(config_.is_local[i], column);
    const std::string seen = attention(name + "attn.", i == 0 ? x : norm(name + "attn_norm", x), kind);
    const std::string attended = build_.node("Add", name + "attn.residual", {x, seen});
    return build_.node("Add", name + "mlp.residual",
                       {attended, mlp(name + "mlp.", norm(name + "mlp_norm", attended))});
  }

  LayerBuilder build_;
  ModernBertConfig config_;
  std::optional<ScoreHead> score_head_;
  std::string root_;
  TokenPlaces places_;
  std::array<Kind, 2> kinds_;
};

}  // namespace

graph::Graph build_modernbert(ModelWeights& weights, const JsonFile& config) {
  return ModernBertBuilder(weights, config).run();
}

}  // namespace crumb::models
