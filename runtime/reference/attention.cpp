#include "runtime/reference/attention.h"

#include <cmath>
#include <vector>

#include "runtime/exact/functions.h"
#include "runtime/exact/products.h"
#include "runtime/reference/packed_kernels.h"

namespace crumb::runtime::reference {
namespace {

std::vector<float> key_row(const Attention& a, std::size_t b, std::size_t g, std::size_t j) {
  std::vector<float> row(a.depth);
  for (std::size_t c = 0; c < a.depth; ++c) row[c] = a.k.element(b, g, j, c);
  return row;
}

void attend_row(const Attention& a, std::size_t b, std::size_t h, std::size_t i) {
  const std::size_t g = h / (a.heads / a.kv_heads);
  std::vector<float> query(a.q.at(b, h, i), a.q.at(b, h, i) + a.depth), s(a.keys), w(a.keys);
  float* const shown = a.scores ? a.scores + ((b * a.heads + h) * a.queries + i) * a.keys : nullptr;
  const auto show = [&](ScoreStage stage, std::size_t j, float x) {
    if (shown && a.stage == stage) shown[j] = x;
  };
  for (float& x : query) x *= a.scale;
  float most = kUnseen;
  for (std::size_t j = 0; j < a.keys; ++j) {
    s[j] = exact::dot_ref(query.data(), key_row(a, b, g, j).data(), a.depth);
    show(ScoreStage::kProduct, j, s[j]);
    if (a.softcap > 0) s[j] = a.softcap * exact::tanh_of(s[j] / a.softcap);
    show(ScoreStage::kCapped, j, s[j]);
    const float bias = bias_of(a, b, h, i, j);
    if (bias == kUnseen || a.mask.added) s[j] = bias == kUnseen ? kUnseen : s[j] + bias;
    show(ScoreStage::kMasked, j, s[j]);
    most = s[j] > most ? s[j] : most;
  }
  for (std::size_t j = 0; j < a.keys; ++j) {
    // No visible key: the difference of two infinities.
    w[j] = s[j] == kUnseen && most != kUnseen ? 0 : exact::exp_of(s[j] - most);
  }
  const float all = exact::sum_of(a.keys, [&](std::size_t j) { return w[j]; });
  for (std::size_t j = 0; j < a.keys; ++j) {
    w[j] = w[j] / all;
    show(ScoreStage::kWeights, j, w[j]);
  }
  float* const y = a.y + b * a.y_batch + h * a.y_head + i * a.y_row;
  for (std::size_t c = 0; c < a.value_depth; ++c) {
    float partial[exact::kPartialSums] = {};
    for (std::size_t j = 0; j < a.keys; ++j) {
      float& sum = partial[j % exact::kPartialSums];
      if (w[j] != 0) sum = std::fma(w[j], a.v.element(b, g, j, c), sum);
    }
    const float sum = exact::fold(partial);
    y[c] = a.keys == 0 || std::isnan(sum) ? std::numeric_limits<float>::quiet_NaN() : sum + 0.0F;
  }
}

/// Decodes the values of one cache, and says where its heads' rows are.
HeadRows decoded(const Attention& a, std::span<const RowDecoder> heads, std::size_t depth,
                 std::vector<float>& values) {
  const std::size_t head = a.keys * depth;
  values.resize(heads.size() * head);
  for (std::size_t g = 0; g < heads.size(); ++g)
    dequantize(heads[g], std::span(values).subspan(g * head, head));
  return {values.data(), a.kv_heads * head, head, depth};
}

}  // namespace

void attend(const Attention& a, std::span<const RowDecoder> keys, std::span<const RowDecoder> values) {
  std::vector<float> k, v;
  Attention floats = a;
  floats.k = decoded(a, keys, a.depth, k);
  floats.v = decoded(a, values, a.value_depth, v);
  attend(floats);
}

void attend(const Attention& a) {
  for (std::size_t b = 0; b < a.batch; ++b) {
    for (std::size_t h = 0; h < a.heads; ++h) {
      for (std::size_t i = 0; i < a.queries; ++i) attend_row(a, b, h, i);
    }
  }
}

}  // namespace crumb::runtime::reference
