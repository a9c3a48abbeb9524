// From the hidden states of a sentence's tokens to one vector, as sentence-transformers' Pooling module does
// it.
#pragma once

#include <span>
#include <vector>

#include "formats/checkpoint/sentence_modules.h"

namespace crumb::encoder {

/// `states` is [length, width], length at least 1; `out` is [modes.size() * width].
void pool(std::span<const float> states, size_t width, const std::vector<PoolingMode>& modes,
          std::span<float> out);

}  // namespace crumb::encoder
