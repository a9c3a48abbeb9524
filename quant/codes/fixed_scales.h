// Chooses codes one value at a time under scales that were fixed before. Methods use it that choose a code by
// what the codes before it lost, or that change one code of many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quant/code_grid.h"
#include "quant/quant_spec.h"
#include "quant/quantized_tensor.h"

namespace crumb {

/// A tensor's scales, zero points and codebook, without its codes. Rows and columns are those of
/// formats/number/encoding.h.
class FixedScales {
 public:
  /// Takes the scales that quantize() finds for these values, by the spec's search. Throws as quantize()
  /// does. Precondition: no ZeroPoint::kMinimum.
  FixedScales(const QuantSpec& spec, std::span<const float> values, std::span<const std::uint64_t> shape,
              std::string_view name, int threads = 0);

  std::uint64_t rows() const { return tensor_.layout.matrix.rows; }
  std::uint64_t columns() const { return tensor_.layout.matrix.cols; }
  std::uint64_t blocks() const { return scales_.size(); }
  std::uint64_t block_of(std::uint64_t row, std::uint64_t column) const {
    return tensor_.layout.first_block(row) + column / tensor_.encoding.block_cols;
  }
  const Encoding& encoding() const { return tensor_.encoding; }

  /// Returns the code of x at this element, by the contract of quant/code_grid.h.
  std::uint8_t code(std::uint64_t row, std::uint64_t column, float x) const {
    const std::uint64_t block = block_of(row, column);
    if (!(scales_[block] > 0)) return grid_.zero_pattern(zeros_[block]);
    return encode_ref(grid_, x, scales_[block], zeros_[block], row * columns() + column);
  }
  /// Returns the code nearest to x at this element, whichever way the spec rounds.
  std::uint8_t nearest(std::uint64_t row, std::uint64_t column, float x) const {
    const std::uint64_t block = block_of(row, column);
    if (!(scales_[block] > 0)) return grid_.zero_pattern(zeros_[block]);
    return encode_ref(nearest_, x, scales_[block], zeros_[block]);
  }
  /// Returns the value of a code at this element.
  float value(std::uint64_t row, std::uint64_t column, std::uint8_t code) const {
    const std::uint64_t block = block_of(row, column);
    return decode_ref(grid_, code, scales_[block], zeros_[block]);
  }
  /// Writes value(code()) of every x to `made`. The x are consecutive elements of one row and one block, from
  /// `column` on. The same bits, many at a time.
  void round_run(std::uint64_t row, std::uint64_t column, std::span<const float> x, float* made) const;
  /// Code less zero point: value over scale.
  float level(std::uint64_t block, std::uint8_t code) const { return grid_.values[code] - zeros_[block]; }

  /// Returns the scale by which the codes just reach values from `least` to `greatest`, with whatever zero
  /// point suits them best.
  float reaching(float least, float greatest) const;

  float scale(std::uint64_t block) const { return scales_[block]; }
  /// Whether scales may be any number that their format holds. Those of learned codebooks may not: the
  /// codebooks were found for them.
  bool may_change() const { return !tensor_.encoding.number->learned; }
  /// Sets the block's scale to the nearest one that the tensor can have. Several threads may call it at once
  /// for different blocks. Precondition: may_change(), scale >= 0 and finite.
  void set_scale(std::uint64_t block, float scale);

  /// Returns the values of a learned codebook. Precondition: !may_change().
  std::span<const float> codebook() const {
    return std::span(grid_.values).first(std::size_t{1} << tensor_.encoding.number->bits);
  }
  /// Replaces the values of a learned codebook. Not while other threads read. Precondition: !may_change();
  /// 2^bits values, ascending and finite.
  void set_codebook(std::span<const float> values);

  /// Returns the tensor with these codes, row by row. Precondition: as many as values, each below 2^bits.
  QuantizedTensor with_codes(std::span<const std::uint8_t> codes) const;

 private:
  void set_grid(CodeGrid grid);

  QuantSpec spec_;
  QuantizedTensor tensor_;
  CodeGrid grid_, nearest_;            ///< as the spec rounds; to the nearest
  std::vector<float> scales_, zeros_;  ///< of blocks
  float largest_ = 0;
};

}  // namespace crumb
