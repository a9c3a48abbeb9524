#include "quant/slices/slice_quantizer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/files/interrupt.h"
#include "base/threads/parallel.h"
#include "formats/dtype.h"
#include "formats/number/packing.h"
#include "quant/codes/above_minimum.h"
#include "quant/codes/code_layout.h"
#include "quant/loops/loops.h"
#include "quant/search/codebook_search.h"
#include "quant/search/scale_search.h"
#include "quant/slices/rule_bands.h"

namespace crumb {
namespace {

constexpr uint64_t kThreadValues = 1 << 16;  // values a thread takes at a time
constexpr uint64_t kCodesUnit = 8;           // so many codes end on a whole byte, whatever their bits

bool is_one_block(const EncodedLayout& layout) { return layout.blocks() == 1; }

/// Quantizes one tensor. Its blocks are in bands: the rows that one row of blocks covers.
class Run {
 public:
  Run(const QuantSpec& spec, ValueStream& values, uint64_t slice_values, const SliceSink& sink,
      QuantizedTensor& out, const QuantizeOptions& options)
      : spec_(spec),
        values_(values),
        slice_values_(slice_values),
        sink_(sink),
        out_(out),
        options_(options),
        encoding_(out.encoding),
        rows_(out.layout.matrix.rows),
        cols_(out.layout.matrix.cols),
        grid_(make_code_grid(*spec.number, spec.range, spec.round, empty_codebook())),
        search_(spec, grid_, spec.block_format && spec.block_format->tensor_scale ? tensor_absmax() : 0.0F,
                options.threads) {
    if (encoding_.tensor_scale) out_.tensor_scales = {search_.tensor_scale()};
  }

  void go() {
    const bool learned = spec_.number->learned;
    if (rows_ * cols_ == 0) {
      if (learned) store_codebook(std::vector<float>(size_t{1} << spec_.number->bits, 0.0F));
      return;
    }
    if (is_one_block(out_.layout)) {
      fits_.assign(1, search_.fit({nullptr, rows_, cols_, cols_, 0, &values_, slice_values_}));
      if (!fits_[0].finite) throw_not_finite();
      store_fits(fits_);
    }
    if (learned) {
      if (!is_one_block(out_.layout)) for_slices([&](const Slice& slice) { fit_only(slice); });
      learn();
    }
    if (options_.codes) {
      for_slices([&](const Slice& slice) { encode_slice(slice); });
    } else if (!is_one_block(out_.layout) && !learned) {
      for_slices([&](const Slice& slice) { fit_only(slice); });
    }
    if (spec_.zero == ZeroPoint::kInteger) pack_codes(zero_codes_, spec_.number->bits, bytes_of(out_.zeros));
    out_.codes = std::move(codes_);
  }

 private:
  /// A part of the tensor in memory: whole rows, or columns of the one row.
  struct Slice {
    const float* data;
    uint64_t rows;
    uint64_t cols;
    uint64_t index;        ///< of its first value in the tensor
    uint64_t first_block;  ///< 0 where the tensor is one block
    uint64_t blocks_per_row;
    uint64_t bands;
    std::span<const float> values() const { return {data, rows * cols}; }
  };

  template <class Bytes>
  static uint8_t* bytes_of(Bytes& bytes) {
    return reinterpret_cast<uint8_t*>(bytes.data());
  }

  std::vector<float> empty_codebook() const {
    return std::vector<float>(spec_.number->learned ? size_t{1} << spec_.number->bits : 0, 0.0F);
  }

  template <class Visit>
  void for_slices(const Visit& visit) {
    values_.rewind();
    uint64_t index = 0;
    for (auto x = values_.next(slice_values_); !x.empty(); x = values_.next(slice_values_)) {
      check_interrupt();
      Slice slice{x.data(), rows_ == 1 ? 1 : x.size() / cols_, rows_ == 1 ? x.size() : cols_, index, 0, 0, 0};
      slice.blocks_per_row = (slice.cols - 1) / encoding_.block_cols + 1;
      slice.bands = (slice.rows - 1) / encoding_.block_rows + 1;
      if (!is_one_block(out_.layout)) {
        slice.first_block = rows_ == 1 ? index / encoding_.block_cols
                                       : index / cols_ / encoding_.block_rows * out_.layout.blocks_per_row;
      }
      visit(slice);
      index += x.size();
    }
  }

  float tensor_absmax() {
    std::atomic<uint32_t> most{0};
    values_.rewind();
    for (auto x = values_.next(slice_values_); !x.empty(); x = values_.next(slice_values_)) {
      check_interrupt();
      parallel_for(x.size(), kThreadValues, options_.threads, [&](size_t begin, size_t end) {
        const uint32_t bits = loops().absmax_bits(x.data() + begin, end - begin);
        uint32_t seen = most;
        while (bits > seen && !most.compare_exchange_weak(seen, bits)) {
        }
      });
    }
    if (most >= kInfinityBits) throw_not_finite();
    return std::bit_cast<float>(most.load());
  }

  [[noreturn]] void throw_not_finite() const {
    uint64_t count = 0, first = 0, index = 0;
    bool first_is_nan = false;
    values_.rewind();
    for (auto x = values_.next(slice_values_); !x.empty(); x = values_.next(slice_values_)) {
      for (const float v : x) {
        if (!std::isfinite(v) && count++ == 0) {
          first = index;
          first_is_nan = std::isnan(v);
        }
        ++index;
      }
    }
    throw Error("tensor '" + std::string(options_.name) + "' holds " + std::to_string(count) +
                " values that are inf or NaN, the first (" +
                (first_is_nan        ? "NaN"
                 : options_.narrowed ? "inf, or a float64 beyond float32's range of 3.4e38"
                                     : "inf") +
                ") at index " + std::to_string(first) + " of " + shape_text(out_.shape) +
                "; only finite weights can be quantized");
  }

  void fit_block(const Slice& slice, uint64_t block) {
    const uint64_t row = block / slice.blocks_per_row * encoding_.block_rows;
    const uint64_t col = block % slice.blocks_per_row * encoding_.block_cols;
    const BlockValues values{
        slice.data + row * slice.cols + col, std::min(encoding_.block_rows, slice.rows - row),
        std::min(encoding_.block_cols, slice.cols - col), slice.cols, slice.index + row * slice.cols + col};
    fits_[block] = search_.fit(values);
    if (!fits_[block].finite) finite_ = false;
  }

  void fit_blocks(const Slice& slice) {
    fits_.resize(slice.bands * slice.blocks_per_row);
    parallel_for(fits_.size(), 1 + kThreadValues / (encoding_.block_rows * encoding_.block_cols),
                 options_.threads, [&](size_t begin, size_t end) {
                   check_interrupt();
                   for (size_t block = begin; block < end; ++block) fit_block(slice, block);
                 });
    if (!finite_) throw_not_finite();
  }

  void fit_only(const Slice& slice) {
    fit_blocks(slice);
    store_fits(fits_);
  }

  /// The fits of a slice's blocks: found now, or earlier.
  void recall_fits(const Slice& slice) {
    if (is_one_block(out_.layout)) return;
    fits_.resize(slice.bands * slice.blocks_per_row);
    for (size_t block = 0; block < fits_.size(); ++block) {
      uint32_t pattern = 0;
      std::memcpy(&pattern, out_.scales.data() + (slice.first_block + block) * scale_bytes(), scale_bytes());
      fits_[block] = {.scale_pattern = pattern, .scale = search_.effective(pattern)};
    }
  }

  /// Calls visit(fit, first column, columns) for the blocks that a row of a slice crosses.
  template <class Visit>
  void for_segments(const Slice& slice, uint64_t row, const Visit& visit) const {
    const BlockFit* fit = fits_.data() + row / encoding_.block_rows * slice.blocks_per_row;
    for (uint64_t col = 0; col < slice.cols; col += encoding_.block_cols, ++fit) {
      visit(*fit, col, std::min(encoding_.block_cols, slice.cols - col));
    }
  }

  void encode_rows(const Slice& slice, uint64_t begin, uint64_t end, uint64_t row_bytes) {
    thread_local std::vector<uint8_t> codes;
    codes.resize(slice.cols);
    const bool has_minimum = spec_.zero == ZeroPoint::kMinimum;
    for (uint64_t row = begin; row < end; ++row) {
      const float* x = slice.data + row * slice.cols;
      for_segments(slice, row, [&](const BlockFit& fit, uint64_t col, uint64_t count) {
        if (has_minimum) {
          encode_above_minimum(grid_, {x + col, count}, fit.scale, fit.zero,
                               slice.index + row * slice.cols + col, codes.data() + col);
        } else if (fit.scale > 0) {
          loops().encode(grid_, x + col, count, fit.scale, fit.zero, slice.index + row * slice.cols + col,
                         codes.data() + col);
        } else {
          std::memset(codes.data() + col, grid_.zero_pattern(fit.zero), count);
        }
      });
      pack_codes(codes, spec_.number->bits, bytes_of(codes_) + row * row_bytes);
    }
  }

  /// A slice whose scales follow from largest magnitudes: each band while it is in the cache.
  void encode_by_rule(const ScaleRule& rule, const Slice& slice, uint64_t row_bytes) {
    const RuleBands bands(rule, search_, grid_, encoding_);
    std::atomic<uint64_t> saturated{0};
    const uint64_t grain = std::max<uint64_t>(1, kThreadValues / (encoding_.block_rows * slice.cols));
    parallel_for(slice.bands, grain, options_.threads, [&](size_t begin, size_t end) {
      check_interrupt();
      for (size_t band = begin; band < end && finite_; ++band) {
        const uint64_t row = band * encoding_.block_rows;
        const auto found = bands.quantize(
            {slice.data + row * slice.cols, std::min(encoding_.block_rows, slice.rows - row), slice.cols,
             slice.index + row * slice.cols},
            {out_.scales.data() + (slice.first_block + band * slice.blocks_per_row) * scale_bytes(),
             bytes_of(codes_) + row * row_bytes, row_bytes});
        if (!found) finite_ = false;
        saturated += found.value_or(0);
      }
    });
    if (!finite_) throw_not_finite();
    out_.saturated_scales += saturated;
    stored_ += slice.bands * slice.blocks_per_row;
  }

  void encode_slice(const Slice& slice) {
    const bool fitted = is_one_block(out_.layout) || spec_.number->learned;
    EncodedLayout layout = slice_layout(slice);
    codes_.resize(layout.codes_bytes);
    const uint64_t row_grain = std::max<uint64_t>(1, kThreadValues / slice.cols);
    const std::optional<ScaleRule> rule = search_.absmax_rule();
    const bool by_rule = !fitted && slice.bands >= 4 && rule;
    if (by_rule) {
      encode_by_rule(*rule, slice, layout.row_bytes);
    } else if (fitted || slice.bands < 4) {
      // Few bands: all scales first, then all rows.
      if (fitted) {
        recall_fits(slice);
      } else {
        fit_blocks(slice);
      }
      parallel_for(slice.rows, row_grain, options_.threads,
                   [&](size_t begin, size_t end) { encode_rows(slice, begin, end, layout.row_bytes); });
    } else {
      // Each band while it is in the cache.
      fits_.resize(slice.bands * slice.blocks_per_row);
      const uint64_t grain = std::max<uint64_t>(1, kThreadValues / (encoding_.block_rows * slice.cols));
      parallel_for(slice.bands, grain, options_.threads, [&](size_t begin, size_t end) {
        check_interrupt();
        for (size_t band = begin; band < end; ++band) {
          for (uint64_t b = 0; b < slice.blocks_per_row; ++b)
            fit_block(slice, band * slice.blocks_per_row + b);
          if (!finite_) return;
          encode_rows(slice, band * encoding_.block_rows,
                      std::min(slice.rows, (band + 1) * encoding_.block_rows), layout.row_bytes);
        }
      });
      if (!finite_) throw_not_finite();
    }
    if (!fitted && !by_rule) store_fits(fits_);
    if (sink_) hand_over(slice, layout);
  }

  EncodedLayout slice_layout(const Slice& slice) const {
    const uint64_t shape[] = {slice.rows, slice.cols};
    return encoded_layout(encoding_, shape).take();
  }

  /// Gives a slice to the sink as a tensor of its own.
  void hand_over(const Slice& slice, const EncodedLayout& layout) {
    const uint64_t shape[] = {slice.rows, slice.cols};
    QuantizedView view{shape, encoding_, layout, codes_, {}, {}, out_.codebook, out_.tensor_scales};
    view.scales = std::span(out_.scales).subspan(slice.first_block * scale_bytes(), layout.scales_bytes);
    std::vector<std::byte> zeros;
    if (has_float_zeros()) {
      view.zeros = std::span(out_.zeros).subspan(slice.first_block * zero_bytes(), layout.zeros_bytes);
    } else if (encoding_.zero == ZeroPoint::kInteger) {
      zeros.resize(layout.zeros_bytes);
      pack_codes(std::span(zero_codes_).subspan(slice.first_block, layout.blocks()), spec_.number->bits,
                 bytes_of(zeros));
      view.zeros = zeros;
    }
    sink_(slice.values(), view);
  }

  /// The codebook of all values over their scales; then the grid with it.
  void learn() {
    CodebookSearch codebook(rows_ * cols_, spec_.number->bits);
    std::vector<float> scaled;
    for (int walk = 0; walk < codebook.walks(); ++walk) {
      for_slices([&](const Slice& slice) {
        recall_fits(slice);
        scaled.resize(slice.rows * slice.cols);
        parallel_for(slice.rows, std::max<uint64_t>(1, kThreadValues / slice.cols), options_.threads,
                     [&](size_t begin, size_t end) {
                       for (size_t row = begin; row < end; ++row) scale_row(slice, row, scaled.data());
                     });
        codebook.add(walk, scaled);
      });
    }
    store_codebook(codebook.learn());
  }

  void scale_row(const Slice& slice, uint64_t row, float* scaled) const {
    for_segments(slice, row, [&](const BlockFit& fit, uint64_t col, uint64_t count) {
      for (uint64_t i = row * slice.cols + col; i < row * slice.cols + col + count; ++i) {
        scaled[i] = fit.scale > 0 ? slice.data[i] / fit.scale : 0.0F;
      }
    });
  }

  void store_codebook(const std::vector<float>& codebook) {
    grid_ = make_code_grid(*spec_.number, spec_.range, spec_.round, codebook);
    std::memcpy(out_.codebook.data(), codebook.data(), out_.codebook.size());
  }

  bool has_float_zeros() const {
    return spec_.zero == ZeroPoint::kFloat || spec_.zero == ZeroPoint::kMinimum;
  }

  size_t scale_bytes() const { return static_cast<size_t>(scale_format_row(encoding_.scale).bytes); }
  size_t zero_bytes() const {
    return static_cast<size_t>(scale_format_row(zero_point_format(encoding_.scale)).bytes);
  }

  /// Stores the fits of the next blocks.
  void store_fits(const std::vector<BlockFit>& fits) {
    for (const BlockFit& fit : fits) {
      std::memcpy(out_.scales.data() + stored_ * scale_bytes(), &fit.scale_pattern, scale_bytes());
      out_.saturated_scales += fit.saturated;
      if (spec_.zero == ZeroPoint::kInteger) zero_codes_.push_back(static_cast<uint8_t>(fit.zero_pattern));
      if (has_float_zeros())
        std::memcpy(out_.zeros.data() + stored_ * zero_bytes(), &fit.zero_pattern, zero_bytes());
      ++stored_;
    }
  }

  const QuantSpec& spec_;
  ValueStream& values_;
  const uint64_t slice_values_;
  const SliceSink& sink_;
  QuantizedTensor& out_;
  const QuantizeOptions& options_;
  const Encoding& encoding_;
  const uint64_t rows_;
  const uint64_t cols_;
  std::atomic<bool> finite_{true};
  CodeGrid grid_;
  ScaleSearch search_;
  std::vector<BlockFit> fits_;       ///< those of the slice's blocks, or that of the one block
  CodeBytes codes_;                  ///< those of the slice
  std::vector<uint8_t> zero_codes_;  ///< one a block, until they are packed
  uint64_t stored_ = 0;              ///< blocks whose fits were stored
};

}  // namespace

SliceSize slice_size(const QuantSpec& spec, std::span<const uint64_t> shape, uint64_t requested,
                     CodeLayout codes, uint64_t stack_axes) {
  if (stack_axes > 0) {
    const uint64_t one = matrix_shape(shape.subspan(stack_axes)).take().size();
    return {one, one};
  }
  const Encoding encoding = spec.encoding(shape);
  const EncodedLayout layout = encoded_layout(encoding, shape).take();
  const MatrixShape& matrix = layout.matrix;
  if (matrix.size() == 0) return {};
  uint64_t unit = matrix.cols;
  if (is_one_block(layout)) {
    if (matrix.rows == 1) unit = kErrorRun;
  } else {
    unit = matrix.rows == 1 ? std::lcm(encoding.block_cols, kCodesUnit)
                            : std::min(encoding.block_rows, matrix.rows) * matrix.cols;
  }
  if (codes == CodeLayout::kTiles) unit = std::lcm(unit, kTileRows * matrix.cols);
  unit = std::min(unit, matrix.size());
  return {std::min(std::max(requested / unit, uint64_t{1}) * unit, matrix.size()), unit};
}

uint64_t slice_working_bytes(const QuantSpec& spec, std::span<const uint64_t> shape, uint64_t slice_values,
                             uint64_t stack_axes, bool inputs_first) {
  const Encoding encoding = spec.encoding(shape, stack_axes, inputs_first);
  const EncodedLayout layout = encoded_layout(encoding, shape).take();
  const uint64_t block_values = std::max<uint64_t>(1, encoding.block_rows * encoding.block_cols);
  uint64_t bytes = layout.scales_bytes + layout.zeros_bytes + layout.codebook_bytes;
  if (encoding.zero == ZeroPoint::kInteger) bytes += 2 * layout.blocks();
  bytes += slice_values;                                          // codes
  if (inputs_first) bytes += slice_values * (sizeof(float) + 3);  // the matrix and its codes, transposed
  bytes += std::min(layout.blocks(), slice_values / block_values + layout.matrix.rows) * sizeof(BlockFit);
  if (spec.number->learned) bytes += slice_values * sizeof(float) + CodebookSearch::kMostBytes;
  if (spec.search == Search::kHqo) bytes += std::min(block_values, layout.matrix.size()) * 2 * sizeof(float);
  return bytes;
}

namespace {

QuantizedTensor quantize_whole(const QuantSpec& spec, std::span<const uint64_t> shape,
                               std::span<const float> values, const SliceSink& sink,
                               const QuantizeOptions& options) {
  SpanStream whole(values);
  return quantize_slices(spec, shape, whole, values.size(), sink, options);
}

/// Quantizes a matrix [in, out]: quantizes its transpose and transposes the result.
QuantizedTensor quantize_inputs_first(const QuantSpec& spec, std::span<const uint64_t> shape,
                                      std::span<const float> values, const SliceSink& sink,
                                      QuantizeOptions options) {
  const uint64_t in = shape[0], out = shape[1], sizes[] = {out, in};
  std::vector<float> rows(values.size());
  for (uint64_t i = 0; i < in; ++i)
    for (uint64_t o = 0; o < out; ++o) rows[o * in + i] = values[i * out + o];
  options.inputs_first = false;
  const QuantizedTensor made = quantize_whole(spec, sizes, rows, {}, options);
  QuantizedTensor lying = transposed(made.view(), made.spec);
  lying.saturated_scales = made.saturated_scales;
  if (sink) sink(values, lying.view());
  return lying;
}

/// Quantizes the matrices of a stack, each in memory while it is quantized.
void quantize_matrices(const QuantSpec& spec, ValueStream& values, const SliceSink& sink,
                       QuantizedTensor& out, const QuantizeOptions& options) {
  const std::span<const uint64_t> shape = std::span(out.shape).subspan(options.stack_axes);
  const uint64_t size = out.layout.matrix_rows * out.layout.matrix.cols;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  if (size == 0) {  // the parts of a tensor without elements
    constexpr uint64_t kNone[] = {0, 0};
    SpanStream none({});
    const QuantizedTensor empty = quantize_slices(spec, kNone, none, 0, {});
    out.codebook = empty.codebook;
    out.tensor_scales = empty.tensor_scales;
    return;
  }
  values.rewind();
  for (uint64_t i = 0; i < out.layout.matrices; ++i) {
    const std::string name = std::string(options.name) + "[" + std::to_string(i) + "]";
    QuantizeOptions alone = options;
    alone.stack_axes = 0;
    alone.name = name;
    const std::span<const float> x = values.next(size);
    QuantizedTensor made = options.inputs_first ? quantize_inputs_first(spec, shape, x, sink, alone)
                                                : quantize_whole(spec, shape, x, sink, alone);
    append(out.scales, made.scales);
    append(out.zeros, made.zeros);
    append(out.codebook, made.codebook);
    append(out.tensor_scales, made.tensor_scales);
    out.saturated_scales += made.saturated_scales;
    out.codes = std::move(made.codes);
  }
}

}  // namespace

QuantizedTensor quantize_slices(const QuantSpec& spec, std::span<const uint64_t> shape, ValueStream& values,
                                uint64_t slice_values, const SliceSink& sink,
                                const QuantizeOptions& options) {
  if (const auto misfit = spec.misfit(shape, options.stack_axes, options.inputs_first)) {
    throw Error("tensor '" + std::string(options.name) + "': " + *misfit +
                "; choose another size or add ':pad'");
  }
  QuantizedTensor out;
  out.spec = spec.to_string();
  out.shape.assign(shape.begin(), shape.end());
  out.encoding = spec.encoding(shape, options.stack_axes, options.inputs_first);
  Result<EncodedLayout> layout = encoded_layout(out.encoding, shape);
  out.layout = layout.take("tensor '" + std::string(options.name) + "'");
  if (options.stack_axes > 0) {
    quantize_matrices(spec, values, sink, out, options);
    return out;
  }
  out.scales.resize(out.layout.scales_bytes);
  out.zeros.resize(out.layout.zeros_bytes);
  out.codebook.resize(out.layout.codebook_bytes);
  Run(spec, values, slice_values, sink, out, options).go();
  return out;
}

void add_slice(DistortionSum& sum, std::span<const float> values, const QuantizedView& slice, int threads) {
  const RowDecoder decoder(slice);
  sum.add_made(
      values, [&](uint64_t first, std::span<float> out) { decoder.flat_values(first, out); }, threads);
}

}  // namespace crumb
