#include "formats/checkpoint/quantized/bitsandbytes_matrix.h"

#include <cstring>
#include <string>
#include <vector>

#include "formats/half.h"
#include "formats/number/number_format.h"

namespace crumb {
namespace {

constexpr std::uint64_t kMapSize = 256;

/// In the order of the codes: sign and three bits, of which 0 0 1 is the one value below 1/6; there is no
/// negative zero.
constexpr std::array<float, 16> kFp4 = {
    0.0F, 0.0625F / 12,  8.0F / 12,  1.0F,  4.0F / 12,  0.5F,  2.0F / 12,  0.25F,
    0.0F, -0.0625F / 12, -8.0F / 12, -1.0F, -4.0F / 12, -0.5F, -2.0F / 12, -0.25F};

template <class T>
Status read_numbers(const QuantizedPart& part, std::uint64_t first, std::uint64_t count,
                    std::vector<T>& out) {
  out.resize(count);
  return part.file->read(part.offset + first * sizeof(T), std::as_writable_bytes(std::span(out)));
}

class FourBitMatrix final : public ComputedMatrix {
 public:
  FourBitMatrix(const FourBitLayout& layout, const FourBitParts& parts) : layout_(layout), parts_(parts) {}

  std::string stored_as() const override {
    return (layout_.kind == FourBits::kNf4 ? "nf4:block=" : "fp4:block=") + std::to_string(layout_.block);
  }

  Status read(const MatrixTile& tile, std::span<float> out) const override {
    if (tile.size() == 0) return {};
    const bool is_whole = tile.cols == layout_.cols;  // rows that lie one behind the other
    const std::uint64_t pieces = is_whole ? 1 : tile.rows, size = tile.size() / pieces;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      const std::uint64_t first = (tile.row + i) * layout_.cols + tile.col;
      if (Status done = read_run(first, out.subspan(i * size, size)); !done.ok()) return done;
    }
    return {};
  }

 private:
  /// The elements from number `first` on.
  Status read_run(std::uint64_t first, std::span<float> out) const {
    const std::uint64_t end = first + out.size();
    std::vector<std::uint8_t> codes;
    std::vector<float> absmax;
    if (Status done = read_numbers(parts_.codes, first / 2, (end + 1) / 2 - first / 2, codes); !done.ok())
      return done;
    const std::uint64_t first_block = first / layout_.block;
    if (Status done = read_absmax(first_block, (end - 1) / layout_.block - first_block + 1, absmax);
        !done.ok())
      return done;
    const std::span<const float, 16> values = values_of(layout_.kind);
    for (std::uint64_t i = first; i < end; ++i) {
      const unsigned both = codes[i / 2 - first / 2];
      const float value =
          values[i % 2 == 0 ? both >> 4 : both & 15u] * absmax[i / layout_.block - first_block];
      out[i - first] = layout_.result == DType::kF16    ? f16_to_float(float_to_f16(value))
                       : layout_.result == DType::kBF16 ? bf16_to_float(float_to_bf16(value))
                                                        : value;
    }
    return {};
  }

  Status read_absmax(std::uint64_t first, std::uint64_t count, std::vector<float>& out) const {
    if (layout_.nested_block == 0) return read_numbers(parts_.absmax, first, count, out);
    std::vector<std::uint8_t> bytes;
    std::vector<float> map, scales;
    if (Status done = read_numbers(parts_.absmax, first, count, bytes); !done.ok()) return done;
    if (Status done = read_numbers(parts_.nested_map, 0, kMapSize, map); !done.ok()) return done;
    const std::uint64_t from = first / layout_.nested_block;
    if (Status done = read_numbers(parts_.nested_absmax, from,
                                   (first + count - 1) / layout_.nested_block - from + 1, scales);
        !done.ok())
      return done;
    out.resize(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      const float product = map[bytes[i]] * scales[(first + i) / layout_.nested_block - from];
      out[i] = product + layout_.nested_offset;
    }
    return {};
  }

  FourBitLayout layout_;
  FourBitParts parts_;
};

class EightBitMatrix final : public ComputedMatrix {
 public:
  EightBitMatrix(std::uint64_t cols, QuantizedPart codes, QuantizedPart absmax)
      : cols_(cols), codes_(std::move(codes)), absmax_(std::move(absmax)) {}

  std::string stored_as() const override { return "int8:channel"; }

  Status read(const MatrixTile& tile, std::span<float> out) const override {
    if (tile.size() == 0) return {};
    constexpr float kPart = 7.874015718698502e-3F;
    std::vector<float> absmax;
    std::vector<std::int8_t> codes;
    if (Status done = read_numbers(absmax_, tile.row, tile.rows, absmax); !done.ok()) return done;
    for (std::uint64_t i = 0; i < tile.rows; ++i) {
      if (Status done = read_numbers(codes_, (tile.row + i) * cols_ + tile.col, tile.cols, codes); !done.ok())
        return done;
      for (std::uint64_t j = 0; j < tile.cols; ++j) {
        const float product = static_cast<float>(codes[j]) * absmax[i];
        out[i * tile.cols + j] = product * kPart;
      }
    }
    return {};
  }

 private:
  std::uint64_t cols_;
  QuantizedPart codes_, absmax_;
};

}  // namespace

std::span<const float, 16> values_of(FourBits kind) {
  return kind == FourBits::kNf4 ? nf4_values().first<16>() : std::span<const float, 16>(kFp4);
}

std::shared_ptr<const ComputedMatrix> make_four_bit_matrix(const FourBitLayout& layout,
                                                           const FourBitParts& parts) {
  return std::make_shared<FourBitMatrix>(layout, parts);
}

std::shared_ptr<const ComputedMatrix> make_eight_bit_matrix(std::uint64_t cols, const QuantizedPart& codes,
                                                            const QuantizedPart& absmax) {
  return std::make_shared<EightBitMatrix>(cols, codes, absmax);
}

}  // namespace crumb
