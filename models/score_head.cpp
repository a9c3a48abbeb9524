#include "models/score_head.h"

namespace crumb::models {
namespace {

std::string function_of(LayerBuilder& build, ScoreFunction function, const std::string& logits) {
  switch (function) {
    case ScoreFunction::kSigmoid: return build.node("Sigmoid", "scores.sigmoid", {logits});
    case ScoreFunction::kTanh: return build.node("Tanh", "scores.tanh", {logits});
    case ScoreFunction::kRelu: return build.node("Relu", "scores.relu", {logits});
    case ScoreFunction::kIdentity: break;
  }
  return logits;
}

}  // namespace

std::string first_states(LayerBuilder& build, const std::string& states) {
  return build.node("Gather", "scores.first", {states, build.scalar("first", 0)},
                    {{"axis", std::int64_t{1}}});
}

void add_score_head(LayerBuilder& build, const ScoreHead& head, const ScoreLayers& layers,
                    const std::string& pooled, std::size_t hidden_size) {
  std::string x = build.linear(layers.dense, pooled, hidden_size, hidden_size, layers.dense_bias);
  x = build.activation(layers.activation, "scores.activation", x);
  if (!layers.norm.empty())
    x = build.layer_norm(layers.norm, x, hidden_size, layers.norm_epsilon, layers.norm_bias);
  const std::string logits = build.linear(layers.classifier, x, hidden_size, head.labels);
  build.output(function_of(build, head.function, logits), "scores",
               {graph::Dim("batch"), graph::Dim(static_cast<std::int64_t>(head.labels))});
}

}  // namespace crumb::models
