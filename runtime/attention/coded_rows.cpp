#include "runtime/attention/coded_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/number/token_scale.h"

namespace crumb::runtime {
namespace {

std::size_t bits_in_memory(int bits) { return bits <= 2 ? 2 : bits <= 4 ? 4 : 8; }

}  // namespace

RowCoder::RowCoder(const RowCodes& codes, std::size_t depth)
    : depth_(depth),
      group_(codes.group > 0 ? codes.group : depth),
      bits_(bits_in_memory(codes.number->bits)),
      code_bytes_((depth * bits_ + 7) / 8),
      greatest_(token_greatest(*codes.number, codes.range)),
      table_(value_table(*codes.number)) {
  const std::size_t patterns = std::size_t{1} << codes.number->bits;
  for (std::size_t bits = 0; bits < patterns; ++bits) {
    if (std::isfinite(table_[bits])) values_.push_back({table_[bits], static_cast<std::uint8_t>(bits)});
  }
  std::ranges::stable_sort(values_, {}, &Value::value);
}

std::uint8_t RowCoder::nearest(float x) const {
  const auto above = std::ranges::lower_bound(values_, x, {}, &Value::value);
  if (above == values_.end()) return values_.back().bits;
  if (above == values_.begin() || above->value - x < x - (above - 1)->value) return above->bits;
  return (above - 1)->bits;
}

bool RowCoder::encode_group(const float* row, float scale, std::uint8_t* codes, std::size_t first) const {
  const std::size_t per_byte = 8 / bits_;
  for (std::size_t c = first; c < first + group_; ++c) {
    const std::uint8_t bits = scale > 0 ? nearest(row[c] / scale) : nearest(0);
    if (table_[bits] * scale != row[c]) return false;
    const std::size_t shift = c % per_byte * bits_;
    const auto mask = static_cast<std::uint8_t>(((1u << bits_) - 1) << shift);
    codes[c / per_byte] = static_cast<std::uint8_t>((codes[c / per_byte] & ~mask) | (bits << shift & mask));
  }
  return true;
}

bool RowCoder::encode(const float* row, std::uint8_t* codes, float* scales) const {
  constexpr int kNear = 2;  // steps by which two roundings may change the scale
  for (std::size_t g = 0; g < depth_ / group_; ++g) {
    float most = 0;
    for (std::size_t c = g * group_; c < (g + 1) * group_; ++c) {
      if (!std::isfinite(row[c])) return false;
      most = std::max(most, std::fabs(row[c]));
    }
    float scale = most / greatest_;
    for (int i = 0; i < kNear && scale > 0; ++i) scale = std::nextafter(scale, 0.0F);
    bool found = false;
    for (int i = 0; !found && i <= 2 * kNear; ++i) {
      found = encode_group(row, scale, codes, g * group_);
      if (found) scales[g] = scale;
      scale = std::nextafter(scale, INFINITY);
    }
    if (!found) return false;
  }
  return true;
}

void RowCoder::decode(const std::uint8_t* codes, const float* scales, float* out, std::size_t step) const {
  const std::size_t per_byte = 8 / bits_;
  const unsigned mask = (1u << bits_) - 1;
  for (std::size_t g = 0; g < depth_ / group_; ++g) {
    const float scale = scales[g];
    for (std::size_t c = g * group_; c < (g + 1) * group_; ++c)
      out[c * step] = table_[codes[c / per_byte] >> (c % per_byte * bits_) & mask] * scale;
  }
}

}  // namespace crumb::runtime
