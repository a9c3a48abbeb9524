// Quantized tensors read once more from their bytes, with our own bit reader, scale decoder and block
// arithmetic: what a stranger's reader of the packed file would compute. And the numbers that tests quantize.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "formats/number/number_format.h"
#include "quant/quant_spec.h"
#include "quant/quantized_tensor.h"
#include "tests/formats/number/oracle.h"
#include "tests/support/samples.h"

namespace crumb::testing {

using Shape = std::vector<uint64_t>;

/// Codes, effective scales and zero points by element.
struct OracleTensor {
  OracleFormat format;
  std::vector<float> codebook;
  std::vector<int> patterns;
  std::vector<float> scales, zeros, values;
};

inline int read_bits(std::span<const std::byte> bytes, uint64_t first, int count) {
  int value = 0;
  for (int b = 0; b < count; ++b) {
    const uint64_t bit = first + static_cast<uint64_t>(b);
    value |= (std::to_integer<int>(bytes[bit / 8]) >> (bit % 8) & 1) << b;
  }
  return value;
}

inline uint32_t read_word(std::span<const std::byte> bytes, uint64_t index, uint64_t size) {
  uint32_t word = 0;
  for (uint64_t b = 0; b < size; ++b) {
    word |= static_cast<uint32_t>(std::to_integer<int>(bytes[index * size + b])) << (8 * b);
  }
  return word;
}

/// Reads a tensor by the words of formats/number/encoding.h. block_rows and block_cols: what shares a scale.
inline OracleTensor read_tensor(const QuantizedTensor& t, uint64_t block_rows, uint64_t block_cols) {
  OracleTensor out{.format = oracle_format(t.encoding.number->name)};
  const int bits = out.format.bits;
  uint64_t rows = 1, cols = elements(t.shape);
  if (t.shape.size() > 1 && cols > 0) {
    rows = t.shape[0];
    cols /= rows;
  }
  if (cols == 0) rows = 0;
  if (out.format.kind == OracleFormat::kNf4) out.codebook.assign(nf4_values().begin(), nf4_values().end());
  for (uint64_t i = 0; i < t.codebook.size() / 4; ++i) {
    out.codebook.push_back(oracle_scale("f32", read_word(t.codebook, i, 4)));
  }
  const std::string scale(scale_format_row(t.encoding.scale).name);
  const uint64_t scale_bytes = scale == "f32" ? 4 : scale == "f16" || scale == "bf16" ? 2 : 1;
  const uint64_t row_bytes = (cols * static_cast<uint64_t>(bits) + 7) / 8;
  const uint64_t across = (cols + block_cols - 1) / block_cols;
  for (uint64_t r = 0; r < rows; ++r) {
    for (uint64_t c = 0; c < cols; ++c) {
      const uint64_t block = r / block_rows * across + c / block_cols;
      float s = oracle_scale(scale, read_word(t.scales, block, scale_bytes));
      if (t.spec.starts_with("mxint8")) s *= 0x1p-6F;
      if (t.spec.starts_with("nvfp4")) s *= t.tensor_scales[0];
      float z = 0;
      if (t.spec.find(":zero=int") != std::string::npos) {
        z = oracle_value(out.format, read_bits(t.zeros, block * static_cast<uint64_t>(bits), bits), {});
      } else if (t.spec.find(":zero=float") != std::string::npos) {
        const std::string kind = scale == "f16" || scale == "bf16" ? scale : "f32";
        z = oracle_scale(kind, read_word(t.zeros, block, kind == "f32" ? 4 : 2));
      }
      const int pattern = read_bits(t.codes, r * row_bytes * 8 + c * static_cast<uint64_t>(bits), bits);
      out.patterns.push_back(pattern);
      out.scales.push_back(s);
      out.zeros.push_back(z);
      out.values.push_back((oracle_value(out.format, pattern, out.codebook) - z) * s);
    }
  }
  return out;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline bool same_bytes(const QuantizedTensor& a, const QuantizedTensor& b) {
  return a.spec == b.spec && a.shape == b.shape && a.codes == b.codes && a.scales == b.scales &&
         a.zeros == b.zeros && a.codebook == b.codebook && a.saturated_scales == b.saturated_scales &&
         same_bits(a.tensor_scales, b.tensor_scales);
}

/// Weights with what trips quantizers: zeros of both signs, a stretch of zeros, outliers, repeated values,
/// tiny values.
inline std::vector<float> mixed_values(size_t count, uint64_t seed) {
  std::vector<float> values = normal_values(count, seed, 0.05F);
  std::mt19937_64 engine(seed + 1);
  for (size_t i = 0; i < count; ++i) {
    switch (engine() % 24) {
      case 0: values[i] = 0; break;
      case 1: values[i] = -0.0F; break;
      case 2: values[i] *= 20; break;
      case 3: values[i] = 0.0625F; break;
      case 4: values[i] *= 1e-20F; break;
      default: break;
    }
  }
  // From a third on: enough zeros for whole groups and rows.
  for (size_t i = count / 3; i < count / 3 + count / 4; ++i) values[i] = i % 5 == 0 ? -0.0F : 0.0F;
  return values;
}

}  // namespace crumb::testing
