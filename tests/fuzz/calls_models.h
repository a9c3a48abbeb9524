// The language models that calls.h plays on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace crumb::testing {

inline constexpr std::size_t kModels = 3;
/// Of each: tokens, the width of a position's vector, and the longest sequence. The logits of the last token
/// are NaN.
inline constexpr std::int64_t kWords = 12, kWidth = 4, kPositions = 24;

/// Writes model 0, 1 or 2 as a packed file with configuration, tokenizer and chat template: 0 has a first
/// token, and a cache that grows in place; 1 has none, two kinds of frequencies, and a past that goes through
/// an operator; 2 has a cache of codes.
void write_model(std::size_t model, const std::filesystem::path& path);

}  // namespace crumb::testing
