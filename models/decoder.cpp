#include "models/decoder.h"

#include <algorithm>
#include <map>
#include <optional>

#include "models/layer_builder.h"
#include "models/sentence_head.h"
#include "models/token_places.h"

namespace crumb::models {
namespace {

using graph::Dim;
using graph::ElementType;

constexpr std::int64_t kDecoderOpset = 24;  // Attention, RMSNormalization, RotaryEmbedding, Swish

std::int64_t number(size_t n) { return static_cast<std::int64_t>(n); }

constexpr const char* kDecoderRoot = "model.";
constexpr const char* kTokenTable = "embed_tokens.weight";

std::string layer_name(const std::string& root, size_t i) {
  return root + "layers." + std::to_string(i) + ".";
}

/// After a layer's name: the name of its last node, and of that node's output.
constexpr const char* kLastOfLayer = "mlp.residual";

std::string name_of_rotation(std::size_t i) { return i == 0 ? "rotation" : "rotation_" + std::to_string(i); }

constexpr const char* kAllPlaces = "past + sequence";  // graph/symbol_sizes.h
constexpr const char* kFrequencies = ".frequencies";
constexpr const char* kLongFrequencies = ".long_frequencies";

class DecoderBuilder {
 public:
  DecoderBuilder(ModelWeights& weights, DecoderConfig config)
      : build_(weights, kDecoderOpset), config_(std::move(config)) {}

  graph::Graph run_as_encoder(bool sees_both_sides) && {
    check_sources();
    is_encoder_ = true;
    sees_both_sides_ = sees_both_sides;
    const std::string table = root_ + kTokenTable;
    if (!build_.weights().has(table) && build_.weights().has(kTokenTable)) root_.clear();
    ids_input("input_ids", "sequence");
    ids_input("attention_mask", "sequence");
    const TokenPlaces places = token_places(build_);
    keys_ = places.keys;
    queries_ = places.queries;
    tokens_ = places.tokens;
    positions_ = places.positions;
    build_.output(states(), "last_hidden_state",
                  {Dim("batch"), Dim("sequence"), Dim(number(config_.hidden_size))});
    const std::string mask =
        build_.node("Cast", "attention_mask.float", {"attention_mask"},
                    {{"to", static_cast<std::int64_t>(graph::onnx_number(ElementType::kFloat))}});
    add_sentence_head(build_, {.states = "last_hidden_state", .mask = mask, .tokens = "attention_mask"},
                      config_.hidden_size);
    return build_.take();
  }

  graph::Graph run() && {
    check_sources();
    inputs();
    places();
    head(states());
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      if (config_.layers[i].kv_source) continue;
      for (const char* part : {"key", "value"})
        build_.output_of(cache("present.", i, part), cache_shape(i, kAllPlaces));
    }
    return build_.take();
  }

 private:
  void check_sources() const {
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      const auto source = config_.layers[i].kv_source;
      if (!source) continue;
      const std::string layer =
          "layer " + std::to_string(i) + " takes keys and values of layer " + std::to_string(*source);
      if (*source >= i || config_.layers[*source].kv_source)
        throw Error(layer + ", expected an earlier layer that has its own");
      if (config_.fused) throw Error(layer + ", which is not supported where its projections are one matrix");
    }
  }

  /// What the last norm makes.
  std::string states() {
    make_rotations();
    std::string x = embeddings();
    for (size_t i = 0; i < config_.layers.size(); ++i) x = layer(i, x);
    return norm(root_ + "norm", x, config_.hidden_size);
  }

  static std::string cache(const char* kind, size_t layer, const char* part) {
    return kind + std::to_string(layer) + "." + part;
  }

  graph::Shape cache_shape(size_t layer, const char* places) const {
    return {Dim("batch"), Dim(number(config_.layers[layer].kv_heads)), Dim(places),
            Dim(number(config_.head_size))};
  }

  void ids_input(const char* name, const char* places) {
    build_.input(name, {.type = ElementType::kInt64, .shape = graph::Shape{Dim("batch"), Dim(places)}});
  }

  void inputs() {
    ids_input("input_ids", "sequence");
    ids_input("attention_mask", kAllPlaces);
    ids_input("position_ids", "sequence");
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      if (config_.layers[i].kv_source) continue;
      for (const char* part : {"key", "value"})
        build_.input(cache("past_key_values.", i, part),
                     {.type = ElementType::kFloat, .shape = cache_shape(i, "past")});
    }
  }

  /// Returns the size of the input's axis 1.
  std::string places_of(const char* input, const std::string& name) {
    const std::string shape = build_.node("Shape", name + ".shape", {input});
    return build_.node("Gather", name, {shape, build_.scalar("axis_1", 1)});
  }

  /// Makes the indices of keys [1, total] and of queries [sequence, 1], and which keys are tokens [batch, 1,
  /// 1, total].
  void places() {
    const std::string total = places_of("attention_mask", "total_places");
    const std::string sequence = places_of("input_ids", "new_places");
    const std::string past = build_.node("Sub", "past_places", {total, sequence});
    const std::string one = build_.scalar("step_1", 1);
    keys_ = build_.node("Range", "places", {build_.scalar("place_0", 0), total, one});
    const std::string queries = build_.node("Range", "places_of_queries", {past, total, one});
    queries_ =
        build_.node("Unsqueeze", "places_of_queries.column", {queries, build_.ints("column_axis", {1})});
    tokens_ = token_mask(build_);
  }

  /// Returns which keys a query sees, [batch, 1, sequence, total]; makes one mask for each window size.
  const std::string& mask(size_t window) {
    const auto found = masks_.find(window);
    if (found != masks_.end()) return found->second;
    const std::string name = window == 0 ? "mask" : "mask_of_" + std::to_string(window);
    const std::string seen = sees_both_sides_ ? near_keys(name, window) : earlier_keys(name, window);
    const std::string valid = seen.empty() ? tokens_ : build_.node("And", name + ".valid", {seen, tokens_});
    const std::string own = build_.node("Equal", name + ".own", {keys_, queries_});
    return masks_[window] = build_.node("Or", name, {valid, own});
  }

  std::string earlier_keys(const std::string& name, size_t window) {
    const std::string before = build_.node("LessOrEqual", name + ".before", {keys_, queries_});
    if (window == 0) return before;
    const std::string end =
        build_.node("Sub", name + ".end", {queries_, build_.scalar("window", number(window))});
    return build_.node("And", name + ".window",
                       {before, build_.node("Greater", name + ".near", {keys_, end})});
  }

  /// Keys on both sides that are less than a window away; "": all.
  std::string near_keys(const std::string& name, size_t window) {
    if (window == 0) return "";
    const std::string offset = build_.node("Sub", name + ".offset", {keys_, queries_});
    const std::string distance = build_.node("Abs", name + ".distance", {offset});
    return build_.node("Less", name + ".near", {distance, build_.scalar("window", number(window))});
  }

  /// Makes cosines and sines [batch, sequence, rotary_size / 2] for each rotation.
  void make_rotations() {
    if (config_.layers.empty()) return;
    const std::string column = positions_column(build_, positions_);
    for (size_t i = 0; i < config_.rotations.size(); ++i) {
      const std::string name = name_of_rotation(i);
      const RotaryEmbedding& rotation = config_.rotations[i];
      tables_.push_back(rotation_table(build_, name, column, frequencies(name, rotation), rotation.factor));
    }
  }

  std::string frequencies(const std::string& name, const RotaryEmbedding& rotation) {
    const std::string usual = build_.row(name + kFrequencies, rotation.frequencies);
    if (rotation.long_frequencies.empty()) return usual;
    const std::string last =
        build_.node("ReduceMax", name + ".last", {positions_}, {{"keepdims", std::int64_t{0}}});
    const std::string is_long = build_.node("GreaterOrEqual", name + ".is_long",
                                            {last, build_.scalar("longest", number(rotation.switch_at))});
    return build_.node("Where", name + ".frequencies_now",
                       {is_long, build_.row(name + kLongFrequencies, rotation.long_frequencies), usual});
  }

  std::string embeddings() {
    const std::string table = build_.weight(root_ + kTokenTable, {config_.vocab_size, config_.hidden_size});
    const std::string rows = build_.node("Gather", root_ + "embed_tokens", {table, "input_ids"});
    if (config_.embedding_scale == 1) return rows;
    return build_.node("Mul", root_ + "embed_tokens.scaled",
                       {rows, build_.floats("embedding_scale", config_.embedding_scale)});
  }

  std::string norm(const std::string& name, const std::string& x, size_t width) {
    return build_.rms_norm(name, x, width, config_.norm_epsilon, config_.norm_plus_one);
  }

  struct Projected {
    std::string q, k, v;
  };

  /// Projects queries, and, in a layer without a kv_source, keys and values, too.
  Projected project(const DecoderLayer& layer, const std::string& name, const std::string& x, bool has_own) {
    const size_t width = config_.hidden_size, own = layer.heads * config_.head_size,
                 shared = layer.kv_heads * config_.head_size;
    if (!config_.fused) {
      const auto part = [&](const char* which, size_t out) {
        return build_.linear(name + which, x, width, out, config_.qkv_bias);
      };
      Projected made;
      made.q = part("q_proj", own);
      if (!has_own) return made;
      made.k = part("k_proj", shared);
      made.v = part("v_proj", shared);
      return made;
    }
    const std::string all = build_.linear(name + "qkv_proj", x, width, own + 2 * shared, config_.qkv_bias);
    const Projected made{name + "q", name + "k", name + "v"};
    build_.node_of_outputs("Split", name + "split",
                           {all, build_.ints("qkv_sizes", {number(own), number(shared), number(shared)})},
                           {made.q, made.k, made.v}, {{"axis", std::int64_t{-1}}});
    return made;
  }

  /// Normalizes and rotates queries or keys, [batch, sequence, heads * head_size].
  std::string placed(const std::string& name, std::string x, size_t heads, const DecoderLayer& layer) {
    if (config_.query_norm == QueryNorm::kAllHeads) {
      x = norm(name + "_norm", x, heads * config_.head_size);
    } else if (config_.query_norm == QueryNorm::kByHead) {
      const std::string split =
          build_.node("Reshape", name + "_split",
                      {x, build_.ints("split_shape", {0, 0, number(heads), number(config_.head_size)})});
      const std::string rows = norm(name + "_norm", split, config_.head_size);
      x = build_.node("Reshape", name + "_joined",
                      {rows, build_.ints("joined_shape", {0, 0, number(heads * config_.head_size)})});
    }
    if (!layer.rotation) return x;
    std::map<std::string, graph::Attribute> how{{"num_heads", number(heads)}};
    if (config_.rotary_size != config_.head_size) how["rotary_embedding_dim"] = number(config_.rotary_size);
    const RotationTable& table = tables_[*layer.rotation];
    return build_.node("RotaryEmbedding", name + "_turned", {x, table.cosine, table.sine}, how);
  }

  std::string attention(size_t i, const std::string& name, const std::string& x) {
    const DecoderLayer& layer = config_.layers[i];
    const size_t source = layer.kv_source.value_or(i);
    const Projected made = project(layer, name, x, source == i);
    const std::string q = placed(name + "q", made.q, layer.heads, layer);
    if (source == i) kept_[i] = {placed(name + "k", made.k, layer.kv_heads, layer), made.v};
    const auto& [k, v] = kept_.at(source);
    std::map<std::string, graph::Attribute> how{{"q_num_heads", number(layer.heads)},
                                                {"kv_num_heads", number(config_.layers[source].kv_heads)},
                                                {"scale", config_.attention_scale}};
    if (config_.attention_cap > 0) how["softcap"] = config_.attention_cap;
    const std::string out = name + "context";
    std::vector<std::string> inputs = {q, k, v, mask(layer.window)}, outputs = {out};
    if (!is_encoder_) {
      for (const char* part : {"key", "value"}) {
        inputs.push_back(cache("past_key_values.", source, part));
        outputs.push_back(source == i ? cache("present.", i, part) : name + "present_" + part);
      }
    }
    build_.node_of_outputs("Attention", name + "attention", inputs, outputs, how);
    return build_.linear(name + "o_proj", out, layer.heads * config_.head_size, config_.hidden_size,
                         config_.output_bias);
  }

  std::string mlp(const DecoderLayer& layer, const std::string& name, const std::string& x) {
    const size_t width = config_.hidden_size, inner = layer.inner_size;
    std::string gate, up;
    if (config_.fused) {
      const std::string both = build_.linear(name + "gate_up_proj", x, width, 2 * inner, config_.mlp_bias);
      gate = name + "gate";
      up = name + "up";
      build_.node_of_outputs("Split", name + "split",
                             {both, build_.ints("gate_up_sizes", {number(inner), number(inner)})}, {gate, up},
                             {{"axis", std::int64_t{-1}}});
    } else {
      gate = build_.linear(name + "gate_proj", x, width, inner, config_.mlp_bias);
      up = build_.linear(name + "up_proj", x, width, inner, config_.mlp_bias);
    }
    const std::string active = build_.activation(config_.activation, name + "act_fn", gate);
    const std::string product = build_.node("Mul", name + "product", {active, up});
    return build_.linear(name + "down_proj", product, inner, width, config_.mlp_bias);
  }

  std::string layer(size_t i, const std::string& x) {
    const std::string name = layer_name(root_, i);
    const size_t width = config_.hidden_size;
    const auto in = [&](const char* which, const std::string& value) {
      return config_.norm_before ? norm(name + which, value, width) : value;
    };
    const auto out = [&](const char* which, const std::string& value) {
      return config_.norm_after ? norm(name + which, value, width) : value;
    };
    // The norm after attention has the name that other families give to the norm before the MLP.
    const char* const before_mlp =
        config_.norm_after ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    const std::string seen = attention(i, name + "self_attn.", in("input_layernorm", x));
    const std::string attended =
        build_.node("Add", name + "self_attn.residual", {x, out("post_attention_layernorm", seen)});
    const std::string made = mlp(config_.layers[i], name + "mlp.", in(before_mlp, attended));
    return build_.node("Add", name + kLastOfLayer, {attended, out("post_feedforward_layernorm", made)});
  }

  void head(const std::string& x) {
    const auto width = number(config_.hidden_size), vocabulary = number(config_.vocab_size);
    std::string logits;
    if (config_.tied) {
      const std::string rows =
          build_.node("Reshape", "lm_head.rows", {x, build_.ints("rows_shape", {-1, width})});
      const std::string products =
          build_.node("Gemm", "lm_head", {rows, root_ + kTokenTable}, {{"transB", std::int64_t{1}}});
      const std::string shape = build_.node("Shape", "lm_head.places", {x}, {{"end", std::int64_t{2}}});
      const std::string all =
          build_.node("Concat", "lm_head.shape", {shape, build_.ints("vocabulary", {vocabulary})},
                      {{"axis", std::int64_t{0}}});
      logits = build_.node("Reshape", "lm_head.logits", {products, all});
    } else {
      logits = build_.linear("lm_head", x, config_.hidden_size, config_.vocab_size, false);
    }
    if (config_.logits_cap > 0) {
      const std::string cap = build_.floats("logits_cap", config_.logits_cap);
      const std::string part = build_.node("Div", "lm_head.part", {logits, cap});
      logits = build_.node("Mul", "lm_head.capped", {build_.node("Tanh", "lm_head.tanh", {part}), cap});
    }
    build_.output(logits, "logits", {Dim("batch"), Dim("sequence"), Dim(vocabulary)});
  }

  LayerBuilder build_;
  DecoderConfig config_;
  bool is_encoder_ = false, sees_both_sides_ = false;
  std::string root_ = kDecoderRoot;  ///< before the names of tensors
  std::string positions_ = "position_ids";
  std::string keys_, queries_, tokens_;
  std::map<size_t, std::string> masks_;                         ///< by window
  std::vector<RotationTable> tables_;                           ///< by rotation
  std::map<size_t, std::pair<std::string, std::string>> kept_;  ///< keys and values, by their layer
};

/// Whether queries see later keys, too, as EmbeddingGemma's do.
bool sees_both_sides(const JsonFile& config) {
  return config.boolean("use_bidirectional_attention").value_or(false);
}

}  // namespace

std::string frequencies_name(std::size_t rotation) { return name_of_rotation(rotation) + kFrequencies; }
std::string long_frequencies_name(std::size_t rotation) {
  return name_of_rotation(rotation) + kLongFrequencies;
}

graph::Graph build_decoder(ModelWeights& weights, const JsonFile& config) {
  if (sees_both_sides(config))
    throw config.error(
        "use_bidirectional_attention is true, as in sentence encoders, which have a modules.json; supported "
        "without one are decoders, which see what came before");
  return build_decoder(weights, DecoderConfig::parse(config));
}

graph::Graph build_decoder_as_encoder(ModelWeights& weights, const JsonFile& config) {
  return DecoderBuilder(weights, DecoderConfig::parse(config)).run_as_encoder(sees_both_sides(config));
}

graph::Graph build_decoder(ModelWeights& weights, DecoderConfig config) {
  return DecoderBuilder(weights, std::move(config)).run();
}

std::vector<std::string> layer_outputs(const graph::Graph& decoder) {
  std::vector<std::string> values;
  for (std::size_t layer = 0;; ++layer) {
    std::string value = layer_name(kDecoderRoot, layer) + kLastOfLayer;
    const bool is_there = std::ranges::any_of(decoder.nodes, [&](const graph::Node& node) {
      return std::ranges::find(node.outputs, value) != node.outputs.end();
    });
    if (!is_there) return values;
    values.push_back(std::move(value));
  }
}

}  // namespace crumb::models
