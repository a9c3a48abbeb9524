#include "quant/quantizer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "formats/dtype.h"
#include "formats/io/interrupt.h"
#include "formats/number/packing.h"
#include "quant/codebook_search.h"
#include "quant/loops/loops.h"
#include "quant/parallel.h"
#include "quant/scale_search.h"

namespace crumb {
namespace {

constexpr uint64_t kPieceValues = 1 << 16;  // values a thread takes at a time

/// One tensor on its way to codes. Blocks lie in bands: the rows that one row of blocks covers.
class Run {
 public:
  Run(const QuantSpec& spec, std::span<const float> values, QuantizedTensor& out,
      const QuantizeOptions& options)
      : spec_(spec),
        values_(values),
        out_(out),
        options_(options),
        rows_(out.layout.matrix.rows),
        cols_(out.layout.matrix.cols),
        grid_(make_code_grid(*spec.number, spec.range, spec.round, empty_codebook())),
        search_(spec, grid_, spec.block_format && spec.block_format->tensor_scale ? tensor_absmax() : 0.0f) {
    out_.tensor_scale = search_.tensor_scale();
    fits_.resize(out_.layout.blocks());
  }

  void go() {
    if (values_.empty()) {
      if (spec_.number->learned) store_codebook(std::vector<float>(size_t{1} << spec_.number->bits, 0.0f));
      return;
    }
    const Encoding& encoding = out_.encoding;
    const uint64_t bands = out_.layout.block_rows;
    const bool learned = spec_.number->learned;
    const uint64_t band_values = std::min(encoding.block_rows, rows_) * cols_;
    const uint64_t grain = std::max<uint64_t>(1, kPieceValues / band_values);
    if (learned || bands < 4) {
      // Few bands or a codebook to learn: all scales first, then all rows.
      parallel_for(fits_.size(), learned ? 64 : 1, options_.threads, [&](size_t begin, size_t end) {
        check_interrupt();
        for (size_t block = begin; block < end; ++block) fit_block(block);
      });
      check_finite();
      if (learned) learn();
      const uint64_t row_grain = std::max<uint64_t>(1, kPieceValues / cols_);
      parallel_for(rows_, row_grain, options_.threads,
                   [&](size_t begin, size_t end) { encode_rows(begin, end); });
    } else {
      // Each band while it is in the cache.
      parallel_for(bands, grain, options_.threads, [&](size_t begin, size_t end) {
        check_interrupt();
        for (size_t band = begin; band < end; ++band) {
          for (uint64_t b = 0; b < out_.layout.blocks_per_row; ++b)
            fit_block(band * out_.layout.blocks_per_row + b);
          if (!finite_) return;
          encode_rows(band * encoding.block_rows, std::min(rows_, (band + 1) * encoding.block_rows));
        }
      });
      check_finite();
    }
    store_blocks();
  }

 private:
  std::vector<float> empty_codebook() const {
    return std::vector<float>(spec_.number->learned ? size_t{1} << spec_.number->bits : 0, 0.0f);
  }

  float tensor_absmax() {
    std::atomic<uint32_t> most{0};
    parallel_for(values_.size(), kPieceValues, options_.threads, [&](size_t begin, size_t end) {
      const uint32_t bits = loops().absmax_bits(values_.data() + begin, end - begin);
      uint32_t seen = most;
      while (bits > seen && !most.compare_exchange_weak(seen, bits)) {
      }
    });
    if (most >= kInfinityBits) finite_ = false;
    check_finite();
    return std::bit_cast<float>(most.load());
  }

  void check_finite() const {
    if (finite_) return;
    uint64_t count = 0, first = 0;
    for (uint64_t i = 0; i < values_.size(); ++i) {
      if (!std::isfinite(values_[i]) && count++ == 0) first = i;
    }
    throw Error("tensor '" + std::string(options_.name) + "' holds " + std::to_string(count) +
                " values that are inf or NaN, the first (" + (std::isnan(values_[first]) ? "NaN" : "inf") +
                ") at index " + std::to_string(first) + " of " + shape_text(out_.shape) +
                "; only finite weights can be quantized");
  }

  void fit_block(uint64_t block) {
    const Encoding& encoding = out_.encoding;
    const uint64_t row = block / out_.layout.blocks_per_row * encoding.block_rows;
    const uint64_t col = block % out_.layout.blocks_per_row * encoding.block_cols;
    const BlockValues values{values_.data() + row * cols_ + col, std::min(encoding.block_rows, rows_ - row),
                             std::min(encoding.block_cols, cols_ - col), cols_, row * cols_ + col};
    fits_[block] = search_.fit(values);
    if (!fits_[block].finite) finite_ = false;
  }

  /// Calls visit(fit, first column, columns) for the blocks that a row crosses.
  template <class Visit>
  void for_segments(uint64_t row, const Visit& visit) const {
    const Encoding& encoding = out_.encoding;
    const BlockFit* fit = fits_.data() + row / encoding.block_rows * out_.layout.blocks_per_row;
    for (uint64_t col = 0; col < cols_; col += encoding.block_cols, ++fit) {
      visit(*fit, col, std::min(encoding.block_cols, cols_ - col));
    }
  }

  void encode_rows(uint64_t begin, uint64_t end) {
    thread_local std::vector<uint8_t> codes;
    codes.resize(cols_);
    for (uint64_t row = begin; row < end; ++row) {
      const float* x = values_.data() + row * cols_;
      for_segments(row, [&](const BlockFit& fit, uint64_t col, uint64_t count) {
        if (fit.scale > 0) {
          loops().encode(grid_, x + col, count, fit.scale, fit.zero, row * cols_ + col, codes.data() + col);
        } else {
          std::memset(codes.data() + col, grid_.zero_pattern(fit.zero), count);
        }
      });
      pack_codes(codes, spec_.number->bits,
                 reinterpret_cast<uint8_t*>(out_.codes.data()) + row * out_.layout.row_bytes);
    }
  }

  /// The codebook of all values over their scales; then the grid with it.
  void learn() {
    std::vector<float> scaled(values_.size());
    parallel_for(rows_, std::max<uint64_t>(1, kPieceValues / cols_), options_.threads,
                 [&](size_t begin, size_t end) {
                   for (size_t row = begin; row < end; ++row) {
                     for_segments(row, [&](const BlockFit& fit, uint64_t col, uint64_t count) {
                       for (uint64_t i = row * cols_ + col; i < row * cols_ + col + count; ++i) {
                         scaled[i] = fit.scale > 0 ? values_[i] / fit.scale : 0.0f;
                       }
                     });
                   }
                 });
    store_codebook(learn_codebook(scaled, spec_.number->bits));
  }

  void store_codebook(const std::vector<float>& codebook) {
    grid_ = make_code_grid(*spec_.number, spec_.range, spec_.round, codebook);
    std::memcpy(out_.codebook.data(), codebook.data(), out_.codebook.size());
  }

  void store_blocks() {
    const auto scale_bytes = static_cast<size_t>(scale_format_row(out_.encoding.scale).bytes);
    std::vector<uint8_t> zero_codes;
    for (size_t block = 0; block < fits_.size(); ++block) {
      const BlockFit& fit = fits_[block];
      std::memcpy(out_.scales.data() + block * scale_bytes, &fit.scale_pattern, scale_bytes);
      out_.saturated_scales += fit.saturated;
      if (spec_.zero == ZeroPoint::kInteger) zero_codes.push_back(static_cast<uint8_t>(fit.zero_pattern));
      if (spec_.zero == ZeroPoint::kFloat) {
        const auto bytes =
            static_cast<size_t>(scale_format_row(zero_point_format(out_.encoding.scale)).bytes);
        std::memcpy(out_.zeros.data() + block * bytes, &fit.zero_pattern, bytes);
      }
    }
    if (spec_.zero == ZeroPoint::kInteger) {
      pack_codes(zero_codes, spec_.number->bits, reinterpret_cast<uint8_t*>(out_.zeros.data()));
    }
  }

  const QuantSpec& spec_;
  std::span<const float> values_;
  QuantizedTensor& out_;
  const QuantizeOptions& options_;
  const uint64_t rows_;
  const uint64_t cols_;
  std::atomic<bool> finite_{true};
  CodeGrid grid_;
  ScaleSearch search_;
  std::vector<BlockFit> fits_;
};

}  // namespace

QuantizedTensor quantize(const QuantSpec& spec, std::span<const float> values,
                         std::span<const uint64_t> shape, const QuantizeOptions& options) {
  if (const auto misfit = spec.misfit(shape)) {
    throw Error("tensor '" + std::string(options.name) + "': " + *misfit +
                "; choose another size or add ':pad'");
  }
  QuantizedTensor out;
  out.spec = spec.to_string();
  out.shape.assign(shape.begin(), shape.end());
  out.encoding = spec.encoding(shape);
  Result<EncodedLayout> layout = encoded_layout(out.encoding, shape);
  out.layout = layout.take("tensor '" + std::string(options.name) + "'");
  if (values.size() != out.layout.matrix.size()) {
    throw Error("tensor '" + std::string(options.name) + "': " + std::to_string(values.size()) +
                " values given for shape " + shape_text(shape));
  }
  out.codes.resize(out.layout.codes_bytes);
  out.scales.resize(out.layout.scales_bytes);
  out.zeros.resize(out.layout.zeros_bytes);
  out.codebook.resize(out.layout.codebook_bytes);
  Run(spec, values, out, options).go();
  return out;
}

void fake_quantize(const QuantSpec& spec, std::span<const float> values, std::span<const uint64_t> shape,
                   std::span<float> out, const QuantizeOptions& options) {
  dequantize(quantize(spec, values, shape, options).view(), out, options.threads);
}

double bits_per_weight(uint64_t stored_bytes, uint64_t weights) {
  return weights == 0 ? 0.0 : 8.0 * static_cast<double>(stored_bytes) / static_cast<double>(weights);
}

}  // namespace crumb
