#include "models/sentence_head.h"

#include "formats/checkpoint/sentence_modules.h"

namespace crumb::models {
namespace {

using Ints = std::vector<std::int64_t>;

class HeadBuilder {
 public:
  HeadBuilder(LayerBuilder& build, const TokenStates& tokens) : build_(build), tokens_(tokens) {}

  std::string pool(const std::vector<PoolingMode>& modes) {
    std::vector<std::string> parts;
    parts.reserve(modes.size());
    for (const PoolingMode mode : modes) parts.push_back(pool(mode));
    if (parts.size() == 1) return parts[0];
    return build_.node("Concat", "pooling", parts, {{"axis", std::int64_t{1}}});
  }

  std::string normalize(const std::string& x) {
    constexpr float kLeastNorm = 1e-12F;
    const std::string length =
        build_.node("ReduceL2", "normalize.length", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}});
    const std::string divisor =
        build_.node("Max", "normalize.divisor", {length, build_.floats("least_norm", kLeastNorm)});
    return build_.node("Div", "normalize", {x, divisor});
  }

  std::string dense(const SentenceModules::Dense& dense, const std::string& x) {
    if (!build_.weights().has(dense.path + "linear.weight")) {
      throw Error("its Dense module " + dense.path +
                  " has its weights in a file of its own; such models are not supported yet");
    }
    const std::string made = build_.linear(dense.path + "linear", x, dense.in, dense.out, dense.has_bias);
    return build_.activation(dense.activation, dense.path + "activation", made);
  }

 private:
  std::string pool(PoolingMode mode) {
    switch (mode) {
      case PoolingMode::kCls: return first_token();
      case PoolingMode::kLastToken: return last_token();
      case PoolingMode::kMax: return largest();
      case PoolingMode::kMean: return mean("pooling.mean", weights(), false);
      case PoolingMode::kMeanSqrtLen: return mean("pooling.mean_sqrt_len", weights(), true);
      case PoolingMode::kWeightedMean: break;
    }
    return mean("pooling.weighted_mean", rising_weights(), false);
  }

  std::string first_token() {
    return build_.node("Gather", "pooling.first", {tokens_.states, build_.scalar("first", 0)},
                       {{"axis", std::int64_t{1}}});
  }

  std::string last_token() {
    const std::string place = build_.node(
        "ArgMax", "pooling.last_place", {tokens_.tokens},
        {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}, {"select_last_index", std::int64_t{1}}});
    return build_.node("GatherND", "pooling.last", {tokens_.states, place},
                       {{"batch_dims", std::int64_t{1}}});
  }

  std::string largest() {
    constexpr float kPadding = -1e9F;
    const std::string is_token =
        build_.node("Greater", "pooling.is_token", {weights(), build_.floats("zero", 0)});
    const std::string padded = build_.node("Where", "pooling.padded",
                                           {is_token, tokens_.states, build_.floats("padding", kPadding)});
    return build_.node("ReduceMax", "pooling.max", {padded},
                       {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  }

  /// [batch, sequence, 1]: 1, and 0 for padding.
  std::string weights() {
    if (weights_.empty()) {
      weights_ = build_.node("Unsqueeze", "pooling.weights", {tokens_.mask, build_.ints("last_axis", {2})});
    }
    return weights_;
  }

  /// The same: 1, 2, 3, ... and 0 for padding.
  std::string rising_weights() {
    const std::string counts =
        build_.node("CumSum", "pooling.counts", {weights(), build_.scalar("along", 1)});
    return build_.node("Mul", "pooling.rising_weights", {counts, weights()});
  }

  /// The sum of weight times state, by the sum of the weights, or by its square root.
  std::string mean(const std::string& name, const std::string& weights, bool by_root) {
    constexpr float kLeastSum = 1e-9F;
    const std::string axis = build_.ints("axis_1", {1});
    const std::map<std::string, graph::Attribute> flat{{"keepdims", std::int64_t{0}}};
    const std::string weighted = build_.node("Mul", name + ".weighted", {tokens_.states, weights});
    const std::string sum = build_.node("ReduceSum", name + ".sum", {weighted, axis}, flat);
    const std::string total = build_.node("ReduceSum", name + ".total", {weights, axis}, flat);
    std::string divisor =
        build_.node("Max", name + ".divisor", {total, build_.floats("least_sum", kLeastSum)});
    if (by_root) divisor = build_.node("Sqrt", name + ".root", {divisor});
    return build_.node("Div", name, {sum, divisor});
  }

  LayerBuilder& build_;
  const TokenStates& tokens_;
  std::string weights_;
};

}  // namespace

void add_sentence_head(LayerBuilder& build, const TokenStates& tokens, size_t hidden_size) {
  const auto text = [&](const std::string& path) { return build.weights().text(path); };
  const auto modules = SentenceModules::read(text, "it", hidden_size);
  if (!modules) return;
  HeadBuilder head(build, tokens);
  std::string vector = head.pool(modules->pooling);
  for (const SentenceModules::Step& step : modules->steps) {
    vector = step ? head.dense(*step, vector) : head.normalize(vector);
  }
  build.output(vector, "sentence_embedding",
               {graph::Dim("batch"), graph::Dim(static_cast<std::int64_t>(modules->width))});
}

}  // namespace crumb::models
