// Which low-rank adapter a frozen network gets. Free of LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace crumb::qat {

struct AdapterOptions {
  std::string name = "recovery";
  std::size_t rank = 16;
  double alpha = 0;     ///< scale * rank, or scale * sqrt(rank); 0: the rank
  bool rslora = false;  ///< the scale is alpha / sqrt(rank) (arXiv:2312.03732), not alpha / rank
  /// The matrices or layers that get an adapter (quant/recipe/name_pattern.h).
  std::vector<std::string> targets = {"*"};
  std::uint64_t seed = 0;
};

}  // namespace crumb::qat
