// Learning a codebook by one-dimensional k-means (Lloyd's algorithm) over scaled values, as palettization
// does.
#pragma once

#include <span>
#include <vector>

namespace crumb {

/// The 2^bits ascending centres of `values` (finite; reordered by the call). When they hold at most 2^bits
/// distinct numbers these are the centres (the last one repeated), so that nothing is lost. Deterministic:
/// Lloyd's algorithm from quantiles and from an even grid, whichever ends with the smaller squared error.
/// Beyond 2^20 values they are first gathered in 2^18 equal bins.
std::vector<float> learn_codebook(std::span<float> values, int bits);

}  // namespace crumb
