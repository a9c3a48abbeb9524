#include "encoder/sentence_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace crumb::encoder {
namespace {

void normalize_length(std::span<float> vector) {
  constexpr float kLeastNorm = 1e-12F;
  const float norm = std::sqrt(lane_sum(vector, [](float x) { return x * x; }));
  for (float& x : vector) x /= std::max(norm, kLeastNorm);
}

ModelText texts_of(const models::WeightSource& source) {
  return [&source](const std::string& path) { return source.file(path); };
}

Linear load_dense(const models::WeightSource& source, const SentenceModules::Dense& dense) {
  if (!source.has(dense.path + "linear.weight")) {
    throw Error(source.describe() + ": its Dense module " + dense.path +
                " has its weights in a file of its own; such models are not supported yet");
  }
  return Linear::load(source, dense.path + "linear", dense.in, dense.out, dense.has_bias);
}

}  // namespace

std::string SentenceHead::transformer_path(const models::WeightSource& source) {
  return SentenceModules::transformer_path(texts_of(source));
}

SentenceHead SentenceHead::load(const models::WeightSource& source, size_t hidden_size) {
  const auto modules = SentenceModules::read(texts_of(source), source.describe(), hidden_size);
  SentenceHead head;
  head.hidden_size_ = hidden_size;
  head.pooling_ = modules ? modules->pooling : std::vector{PoolingMode::kMean};
  head.width_ = modules ? modules->width : hidden_size;
  if (!modules) return head;
  for (const auto& step : modules->steps) {
    if (step) {
      head.steps_.push_back({load_dense(source, *step), step->activation});
    } else {
      head.steps_.emplace_back();
    }
  }
  return head;
}

void SentenceHead::apply(std::span<const float> states, std::span<float> out) const {
  std::vector<float> vector(pooling_.size() * hidden_size_);
  pool(states, hidden_size_, pooling_, vector);
  for (const Step& step : steps_) {
    if (!step.dense) {
      normalize_length(vector);
      continue;
    }
    std::vector<float> next(step.dense->weight->rows());
    step.dense->apply(vector, 1, next);
    activate(step.activation, next);
    vector = std::move(next);
  }
  std::ranges::copy(vector, out.begin());
}

}  // namespace crumb::encoder
