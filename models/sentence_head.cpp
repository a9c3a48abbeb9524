#include "models/sentence_head.h"

#include "formats/checkpoint/sentence_modules.h"

namespace crumb::models {
namespace {

class HeadBuilder {
 public:
  HeadBuilder(LayerBuilder& build, const TokenStates& tokens, bool includes_prompt)
      : build_(build), tokens_(tokens), pooled_(tokens), includes_prompt_(includes_prompt) {
    if (includes_prompt) return;
    build_.input(kPooledInput, {.type = graph::ElementType::kInt64,
                                .shape = graph::Shape{graph::Dim("batch"), graph::Dim("sequence")}});
    pooled_.tokens = kPooledInput;
    pooled_.mask = build_.node("Cast", std::string(kPooledInput) + ".float", {kPooledInput},
                               {{"to", static_cast<std::int64_t>(graph::ElementType::kFloat)}});
  }

  std::string pool(const std::vector<PoolingMode>& modes) {
    std::vector<std::string> parts;
    parts.reserve(modes.size());
    for (const PoolingMode mode : modes) parts.push_back(pool(mode));
    if (parts.size() == 1) return parts[0];
    return build_.node("Concat", "pooling", parts, {{"axis", std::int64_t{1}}});
  }

  std::string normalize(const std::string& x) {
    constexpr float kLeastNorm = 1e-12F;
    const std::string length = build_.reduce("ReduceL2", "normalize.length", x, {1}, true);
    const std::string divisor =
        build_.node("Max", "normalize.divisor", {length, build_.floats("least_norm", kLeastNorm)});
    return build_.node("Div", "normalize", {x, divisor});
  }

  std::string dense(const SentenceModules::Dense& dense, const std::string& x) {
    if (!build_.weights().has(dense.path + "linear.weight")) {
      throw Error("its Dense module " + dense.path + " has no weights: there is no tensor linear.weight in " +
                  dense.path + "model.safetensors or " + dense.path + "pytorch_model.bin");
    }
    const std::string made = build_.linear(dense.path + "linear", x, dense.in, dense.out, dense.has_bias);
    return build_.activation(dense.activation, dense.path + "activation", made);
  }

 private:
  std::string pool(PoolingMode mode) {
    switch (mode) {
      case PoolingMode::kCls: return first_token();
      case PoolingMode::kLastToken: return at_place("last", true);
      case PoolingMode::kMax: return largest();
      case PoolingMode::kMean: return mean("pooling.mean", weights(), false);
      case PoolingMode::kMeanSqrtLen: return mean("pooling.mean_sqrt_len", weights(), true);
      case PoolingMode::kWeightedMean: break;
    }
    return mean("pooling.weighted_mean", rising_weights(), false);
  }

  std::string first_token() {
    if (!includes_prompt_) return at_place("first", false);
    return build_.node("Gather", "pooling.first", {tokens_.states, build_.scalar("first", 0)},
                       {{"axis", std::int64_t{1}}});
  }

  /// The state of the first or the last token that is pooled.
  std::string at_place(const std::string& name, bool is_last) {
    const std::string place = build_.node("ArgMax", "pooling." + name + "_place", {pooled_.tokens},
                                          {{"axis", std::int64_t{1}},
                                           {"keepdims", std::int64_t{1}},
                                           {"select_last_index", static_cast<std::int64_t>(is_last)}});
    return build_.node("GatherND", "pooling." + name, {tokens_.states, place},
                       {{"batch_dims", std::int64_t{1}}});
  }

  std::string largest() {
    constexpr float kPadding = -1e9F;
    const std::string is_token =
        build_.node("Greater", "pooling.is_token", {weights(), build_.floats("zero", 0)});
    const std::string padded = build_.node("Where", "pooling.padded",
                                           {is_token, tokens_.states, build_.floats("padding", kPadding)});
    return build_.reduce("ReduceMax", "pooling.max", padded, {1}, false);
  }

  /// [batch, sequence, 1]: 1, and 0 for padding.
  std::string weights() {
    if (weights_.empty()) {
      weights_ = build_.node("Unsqueeze", "pooling.weights", {pooled_.mask, build_.ints("last_axis", {2})});
    }
    return weights_;
  }

  /// The same: 1, 2, 3, ... and 0 for padding. Tokens that are left out are counted.
  std::string rising_weights() {
    std::string counted = weights();
    if (!includes_prompt_)
      counted =
          build_.node("Unsqueeze", "pooling.all_weights", {tokens_.mask, build_.ints("last_axis", {2})});
    const std::string counts = build_.node("CumSum", "pooling.counts", {counted, build_.scalar("along", 1)});
    return build_.node("Mul", "pooling.rising_weights", {counts, weights()});
  }

  /// The sum of weight times state, by the sum of the weights, or by its square root.
  std::string mean(const std::string& name, const std::string& weights, bool by_root) {
    constexpr float kLeastSum = 1e-9F;
    const std::string weighted = build_.node("Mul", name + ".weighted", {tokens_.states, weights});
    const std::string sum = build_.reduce("ReduceSum", name + ".sum", weighted, {1}, false);
    const std::string total = build_.reduce("ReduceSum", name + ".total", weights, {1}, false);
    std::string divisor =
        build_.node("Max", name + ".divisor", {total, build_.floats("least_sum", kLeastSum)});
    if (by_root) divisor = build_.node("Sqrt", name + ".root", {divisor});
    return build_.node("Div", name, {sum, divisor});
  }

  LayerBuilder& build_;
  const TokenStates& tokens_;
  TokenStates pooled_;  ///< with the masks of those that are pooled
  bool includes_prompt_;
  std::string weights_;
};

}  // namespace

std::string mean_states(LayerBuilder& build, const TokenStates& tokens) {
  const std::vector<PoolingMode> mean = {PoolingMode::kMean};
  return HeadBuilder(build, tokens, true).pool(mean);
}

void add_sentence_head(LayerBuilder& build, const TokenStates& tokens, size_t hidden_size) {
  const auto text = [&](const std::string& path) { return build.weights().text(path); };
  const auto modules = SentenceModules::read(text, "it", hidden_size);
  if (!modules) return;
  HeadBuilder head(build, tokens, modules->includes_prompt);
  std::string vector = head.pool(modules->pooling);
  for (const SentenceModules::Step& step : modules->steps) {
    vector = step ? head.dense(*step, vector) : head.normalize(vector);
  }
  build.output(vector, "sentence_embedding",
               {graph::Dim("batch"), graph::Dim(static_cast<std::int64_t>(modules->width))});
}

}  // namespace crumb::models
