#include "quant/codes/scaled_rows.h"

#include <cstring>

#include "quant/codes/given_scales.h"

namespace crumb {

bool has_row_scales(const Encoding& encoding, const MatrixShape& matrix) {
  const bool takes_factors = encoding.scale == ScaleFormat::kF32 || encoding.scale == ScaleFormat::kF16 ||
                             encoding.scale == ScaleFormat::kBF16;
  return takes_factors && encoding.has_levels() && (encoding.block_rows == 1 || matrix.rows == 1);
}

std::optional<QuantizedTensor> with_scaled_rows(const QuantizedTensor& tensor,
                                                std::span<const double> factors) {
  const EncodedLayout& layout = tensor.layout;
  if (!has_row_scales(tensor.encoding, layout.matrix)) return std::nullopt;
  QuantizedTensor made = tensor;
  const QuantSpec spec = QuantSpec::parse(tensor.spec);
  const auto bytes = static_cast<std::size_t>(scale_format_row(tensor.encoding.scale).bytes);
  for (std::uint64_t block = 0; block < layout.blocks(); ++block) {
    std::byte* const at = made.scales.data() + layout.slot(block) * bytes;
    std::uint32_t pattern = 0;
    std::memcpy(&pattern, at, bytes);
    const auto scale = static_cast<double>(decode_scale(tensor.encoding.scale, pattern));
    const StoredScale stored =
        encode_scale(spec, static_cast<float>(scale * factors[block / layout.blocks_per_row]));
    made.saturated_scales += stored.saturated ? 1 : 0;
    std::memcpy(at, &stored.pattern, bytes);
  }
  return made;
}

}  // namespace crumb
