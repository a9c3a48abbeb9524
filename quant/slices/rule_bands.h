// Quantizes many blocks at once where a scale follows from the block's largest magnitude alone
// (ScaleSearch::absmax_rule). The bytes are those that fitting and encoding block by block gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "formats/number/encoding.h"
#include "quant/code_grid.h"
#include "quant/loops/loops.h"
#include "quant/search/scale_search.h"

namespace crumb {

/// The rows that one row of blocks covers: `rows` of `cols` contiguous values. `index` is the first value's
/// index in the tensor.
struct Band {
  const float* data;
  uint64_t rows, cols, index;
};

/// Where a band's scales go, one after the other, and its codes, `row_bytes` a row.
struct BandTarget {
  std::byte* scales;
  uint8_t* codes;
  uint64_t row_bytes;
};

class RuleBands {
 public:
  /// What is referred to must outlive this. `encoding` has the sizes of blocks and the codes' bits.
  RuleBands(const ScaleRule& rule, const ScaleSearch& search, const CodeGrid& grid, const Encoding& encoding)
      : rule_(rule), search_(search), grid_(grid), encoding_(encoding), zero_(grid.zero_pattern(0)) {}

  /// Returns how many scales saturated; nothing where a value is inf or NaN, and then no codes are written.
  /// Several threads may call it for bands that differ.
  std::optional<uint64_t> quantize(const Band& band, const BandTarget& target) const;

 private:
  struct Scales {
    std::vector<uint32_t> bits, more, patterns;  ///< largest magnitudes; those of a further row
    std::vector<float> scales;
  };
  void find(const Band& band, Scales& found) const;
  std::optional<uint64_t> find_others(const Band& band, Scales& found) const;

  const ScaleRule rule_;
  const ScaleSearch& search_;
  const CodeGrid& grid_;
  const Encoding& encoding_;
  const uint8_t zero_;
};

}  // namespace crumb
