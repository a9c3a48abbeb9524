#include "quant/slices/rule_bands.h"

#include <algorithm>
#include <cstring>

#include "formats/number/packing.h"

namespace crumb {
namespace {

template <class Stored>
void store_patterns(const std::vector<uint32_t>& patterns, std::byte* out) {
  for (size_t i = 0; i < patterns.size(); ++i) {
    const auto stored = static_cast<Stored>(patterns[i]);
    std::memcpy(out + i * sizeof stored, &stored, sizeof stored);
  }
}

void store_scales(ScaleFormat format, const std::vector<uint32_t>& patterns, std::byte* out) {
  switch (scale_format_row(format).bytes) {
    case 1: return store_patterns<uint8_t>(patterns, out);
    case 2: return store_patterns<uint16_t>(patterns, out);
    default: return store_patterns<uint32_t>(patterns, out);
  }
}

}  // namespace

void RuleBands::find(const Band& band, Scales& found) const {
  const uint64_t blocks = (band.cols - 1) / encoding_.block_cols + 1;
  found.bits.resize(blocks);
  found.patterns.resize(blocks);
  found.scales.resize(blocks);
  loops().block_absmax(band.data, band.cols, encoding_.block_cols, found.bits.data());
  for (uint64_t row = 1; row < band.rows; ++row) {
    found.more.resize(blocks);
    loops().block_absmax(band.data + row * band.cols, band.cols, encoding_.block_cols, found.more.data());
    for (uint64_t b = 0; b < blocks; ++b) found.bits[b] = std::max(found.bits[b], found.more[b]);
  }
  loops().block_scales(rule_, found.bits.data(), blocks, found.patterns.data(), found.scales.data());
}

/// Fits the blocks that the loops left out. Returns how many scales saturated; nothing for inf or NaN.
std::optional<uint64_t> RuleBands::find_others(const Band& band, Scales& found) const {
  uint64_t saturated = 0;
  for (uint64_t b = 0; b < found.scales.size(); ++b) {
    if (found.scales[b] >= 0) continue;
    const uint64_t col = b * encoding_.block_cols, cols = std::min(encoding_.block_cols, band.cols - col);
    const BlockFit fit = search_.fit({band.data + col, band.rows, cols, band.cols, band.index + col});
    if (!fit.finite) return {};
    found.patterns[b] = fit.scale_pattern;
    found.scales[b] = fit.scale;
    saturated += fit.saturated;
  }
  return saturated;
}

std::optional<uint64_t> RuleBands::quantize(const Band& band, const BandTarget& target) const {
  thread_local Scales found;
  thread_local std::vector<uint8_t> codes;
  find(band, found);
  const std::optional<uint64_t> saturated = find_others(band, found);
  if (!saturated) return {};
  store_scales(encoding_.scale, found.patterns, target.scales);
  codes.resize(band.cols);
  for (uint64_t row = 0; row < band.rows; ++row) {
    loops().encode_blocks(grid_, band.data + row * band.cols, band.cols, encoding_.block_cols,
                          found.scales.data(), band.index + row * band.cols, zero_, codes.data());
    pack_codes(codes, encoding_.number->bits, target.codes + row * target.row_bytes);
  }
  return saturated;
}

}  // namespace crumb
