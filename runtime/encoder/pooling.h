// From the hidden states of a sentence's tokens to one vector, as sentence-transformers' Pooling module does
// it.
#pragma once

#include <span>
#include <vector>

#include "runtime/tokenizer/json_file.h"

namespace crumb::runtime {

enum class PoolingMode {
  kCls,           ///< the first token
  kMax,           ///< the largest value, place by place
  kMean,          ///< sum / length
  kMeanSqrtLen,   ///< sum / sqrt(length)
  kWeightedMean,  ///< weights 1, 2, 3, ...
  kLastToken,
};

/// The modes of a module's config.json ("pooling_mode", or the older flags "pooling_mode_mean_tokens" and so
/// on), in the order in which their vectors stand side by side. Mean when it names none.
std::vector<PoolingMode> parse_pooling(const JsonFile& config);

/// `states` is [length, width], length at least 1; `out` is [modes.size() * width].
void pool(std::span<const float> states, size_t width, const std::vector<PoolingMode>& modes,
          std::span<float> out);

}  // namespace crumb::runtime
