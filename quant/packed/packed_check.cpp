#include "quant/packed/packed_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/number/packing.h"

namespace crumb {
namespace {

/// The codes that an encoding does not allow.
class StrayCodes {
 public:
  /// `what` begins messages.
  StrayCodes(const Encoding& encoding, std::string what)
      : number_(*encoding.number), range_(encoding.range), what_(std::move(what)) {
    const auto values = value_table(number_, std::vector<float>(size_t{1} << number_.bits));
    const size_t patterns = size_t{1} << number_.bits;
    for (size_t pattern = 0; pattern < patterns; ++pattern) {
      const int code = number_.code_of(static_cast<uint8_t>(pattern));
      const bool legal = code >= number_.least_code(range_) && code <= number_.greatest_code(range_) &&
                         std::isfinite(values[pattern]);
      stray_[pattern] = !legal;
      any_ = any_ || !legal;
    }
  }

  bool any() const { return any_; }
  bool has(uint8_t pattern) const { return stray_[pattern] != 0; }

  /// Returns "...: code -8 at row 3, column 5; int4 (narrow range) has codes from -7 to 7".
  Failure failure(uint8_t pattern, const std::string& item, const std::string& position) const {
    const std::string range = number_.grid == Grid::kMinifloat
                                  ? " has no finite value for it"
                                  : " (" + std::string(kRangeNames[static_cast<size_t>(range_)]) +
                                        " range) has codes from " +
                                        std::to_string(number_.least_code(range_)) + " to " +
                                        std::to_string(number_.greatest_code(range_));
    return {what_ + ": " + item + " " + std::to_string(number_.code_of(pattern)) + " at " + position + "; " +
            std::string(number_.name) + range};
  }

 private:
  const NumberFormat& number_;
  Range range_;
  std::string what_;
  std::array<uint8_t, 256> stray_{};  ///< by pattern: 1 where the code may not occur
  bool any_ = false;
};

Failure padding_failure(const std::string& what, uint64_t slot) {
  return {what + ": the padding bits of slot " + std::to_string(slot) + " are not zero"};
}

std::string position_of(uint64_t row, uint64_t column) {
  return "row " + std::to_string(row) + ", column " + std::to_string(column);
}

/// Finds stray codes in bytes of whole codes, of 1, 2, 4 or 8 bits, without a branch for each: almost all are
/// legal.
class StrayBytes {
 public:
  StrayBytes(const StrayCodes& strays, int bits) : bits_(bits) {
    if (8 % bits != 0) return;
    for (unsigned pattern = 0; pattern < 1U << bits; ++pattern) {
      if (strays.has(static_cast<uint8_t>(pattern))) patterns_.push_back(static_cast<uint8_t>(pattern));
    }
    for (unsigned byte = 0; byte < stray_.size(); ++byte) {
      for (int at = 0; at < 8; at += bits)
        stray_[byte] |= strays.has(static_cast<uint8_t>((byte >> at) & ((1U << bits) - 1)));
    }
  }

  bool are_in(std::span<const std::byte> bytes) const {
    if (patterns_.size() > kFew) {
      bool found = false;
      for (const std::byte byte : bytes) found |= stray_[std::to_integer<size_t>(byte)];
      return found;
    }
    uint8_t found = 0;
    for (const uint8_t pattern : patterns_) {
      for (int at = 0; at < 8; at += bits_) {
        const auto mask = static_cast<uint8_t>(((1U << bits_) - 1) << at);
        const auto stray = static_cast<uint8_t>(pattern << at);
        for (const std::byte byte : bytes) found |= (std::to_integer<uint8_t>(byte) & mask) == stray ? 1 : 0;
      }
    }
    return found != 0;
  }

 private:
  static constexpr size_t kFew = 4;  ///< patterns that are faster compared, in vectors, than looked up

  int bits_;
  std::vector<uint8_t> patterns_;
  std::array<bool, 256> stray_{};  ///< by byte: whether one of its codes may not occur
};

/// Checks rows of packed codes that come in slices of any size, however long a row is.
class CodesCheck {
 public:
  /// `what` begins messages; `item` is what one code is ("code", "zero point").
  CodesCheck(const Encoding& encoding, uint64_t rows, uint64_t cols, std::string what, std::string item)
      : bits_(encoding.number->bits),
        strays_(encoding, what),
        stray_bytes_(strays_, bits_),
        rows_(rows),
        cols_(cols),
        row_bytes_(packed_bytes(cols, bits_)),
        what_(std::move(what)),
        item_(std::move(item)) {}

  Status take(std::span<const std::byte> slice) {
    while (!slice.empty() || !pending_.empty()) {
      const uint64_t wanted = std::min<uint64_t>(kEights * static_cast<uint64_t>(bits_), row_bytes_ - at_);
      std::span<const std::byte> piece = slice;
      if (!pending_.empty() || slice.size() < wanted) {
        const uint64_t missing = std::min<uint64_t>(wanted - pending_.size(), slice.size());
        pending_.insert(pending_.end(), slice.begin(), slice.begin() + static_cast<ptrdiff_t>(missing));
        slice = slice.subspan(missing);
        if (pending_.size() < wanted) return {};
        piece = pending_;
      } else {
        slice = slice.subspan(wanted);
      }
      if (Status status = check(piece.first(wanted)); !status.ok()) return status;
      pending_.clear();
      at_ += wanted;
      if (at_ == row_bytes_) {
        at_ = 0;
        ++row_;
      }
    }
    return {};
  }

 private:
  static constexpr uint64_t kEights = 512;  // codes checked together; groups of eight are whole bytes

  Status check(std::span<const std::byte> bytes) const {
    const auto bits = static_cast<uint64_t>(bits_);
    const uint64_t first = at_ * 8 / bits;
    const uint64_t count = std::min(cols_ - first, bytes.size() * 8 / bits);
    if (has_stray(bytes, count)) {
      std::array<uint8_t, kEights * 8> codes;
      const std::span<uint8_t> some(codes.data(), count);
      unpack_codes(reinterpret_cast<const uint8_t*>(bytes.data()), bits_, 0, some);
      for (size_t i = 0; i < some.size(); ++i) {
        if (strays_.has(some[i])) return stray(some[i], first + i);
      }
    }
    const uint64_t used = cols_ * bits % 8;
    if (at_ + bytes.size() == row_bytes_ && used != 0 &&
        std::to_integer<uint64_t>(bytes.back()) >> used != 0) {
      return Failure{what_ + ": the padding bits" + (rows_ > 1 ? " of row " + std::to_string(row_) : "") +
                     " are not zero"};
    }
    return {};
  }

  /// Whether one of `count` codes, or of the padding bits after them, may be a stray one.
  bool has_stray(std::span<const std::byte> bytes, uint64_t count) const {
    if (!strays_.any()) return false;
    if (8 % bits_ == 0) return stray_bytes_.are_in(bytes);
    bool found = false;
    std::array<uint8_t, kEights * 8> codes;
    const std::span<uint8_t> some(codes.data(), count);
    unpack_codes(reinterpret_cast<const uint8_t*>(bytes.data()), bits_, 0, some);
    for (const uint8_t code : some) found |= strays_.has(code);
    return found;
  }

  Failure stray(uint8_t pattern, uint64_t index) const {
    const bool is_code = rows_ > 1 || item_ == "code";
    return strays_.failure(pattern, item_,
                           is_code ? position_of(row_, index) : "index " + std::to_string(index));
  }

  const int bits_;
  const StrayCodes strays_;
  const StrayBytes stray_bytes_;
  uint64_t rows_, cols_, row_bytes_;
  std::string what_, item_;
  std::vector<std::byte> pending_;  ///< the beginning of a piece whose rest is in the next slice
  uint64_t row_ = 0;
  uint64_t at_ = 0;  ///< bytes of the row that were checked
};

/// Checks codes in tiles that come in slices of any size.
class TilesCheck {
 public:
  TilesCheck(const Encoding& encoding, const EncodedLayout& layout, std::string what)
      : bits_(encoding.number->bits),
        strays_(encoding, what),
        stray_bytes_(strays_, bits_),
        matrix_{layout.matrix_rows, layout.matrix.cols},
        across_((matrix_.cols + kTileCols - 1) / kTileCols),
        down_((matrix_.rows + kTileRows - 1) / kTileRows),
        what_(std::move(what)) {}

  Status take(std::span<const std::byte> slice) {
    const uint64_t size = tile_bytes(bits_);
    while (!slice.empty()) {
      std::span<const std::byte> tile = slice.first(std::min<uint64_t>(size - pending_.size(), slice.size()));
      slice = slice.subspan(tile.size());
      if (!pending_.empty() || tile.size() < size) {
        pending_.insert(pending_.end(), tile.begin(), tile.end());
        if (pending_.size() < size) return {};
        tile = pending_;
      }
      if (Status status = check(reinterpret_cast<const uint8_t*>(tile.data())); !status.ok()) return status;
      pending_.clear();
      ++tile_;
    }
    return {};
  }

 private:
  Status check(const uint8_t* tile) const {
    const uint64_t inside = tile_ / across_ % down_ * kTileRows, first_col = tile_ % across_ * kTileCols;
    const uint64_t first_row = tile_ / across_ / down_ * matrix_.rows + inside;
    const uint64_t rows = std::min(kTileRows, matrix_.rows - inside);
    const uint64_t cols = std::min(kTileCols, matrix_.cols - first_col);
    if (rows == kTileRows && cols == kTileCols && !has_stray(tile)) return {};
    std::array<uint8_t, kTileCols> codes;
    for (uint64_t r = 0; r < kTileRows; ++r) {
      unpack_tile_row(tile, bits_, r, codes);
      for (uint64_t c = 0; c < kTileCols; ++c) {
        if (r < rows && c < cols) {
          if (strays_.has(codes[c]))
            return strays_.failure(codes[c], "code", position_of(first_row + r, first_col + c));
        } else if (codes[c] != 0) {
          return Failure{what_ + ": the padding bits at " + position_of(first_row + r, first_col + c) +
                         " are not zero; the matrix has " + std::to_string(matrix_.rows) + " rows and " +
                         std::to_string(matrix_.cols) + " columns"};
        }
      }
    }
    return {};
  }

  /// Whether a tile without padding has a code that may not occur.
  bool has_stray(const uint8_t* tile) const {
    if (!strays_.any()) return false;
    if (8 % bits_ == 0) return stray_bytes_.are_in(std::as_bytes(std::span(tile, tile_bytes(bits_))));
    std::array<uint8_t, kTileRows * kTileCols> codes;
    unpack_tile(tile, bits_, codes.data());
    bool found = false;
    for (const uint8_t code : codes) found |= strays_.has(code);
    return found;
  }

  const int bits_;
  const StrayCodes strays_;
  const StrayBytes stray_bytes_;
  const MatrixShape matrix_;  ///< in a stack, that of one matrix
  const uint64_t across_;     ///< tiles next to each other
  const uint64_t down_;       ///< tiles below each other in one matrix
  const std::string what_;
  std::vector<std::byte> pending_;  ///< the beginning of a tile whose rest is in the next slice
  uint64_t tile_ = 0;
};

/// Checks stored floats, one for each slot, that come in slices: check(value, block) refuses one.
class FloatsCheck {
 public:
  using Check = std::function<Status(float, uint64_t)>;
  FloatsCheck(ScaleFormat format, const EncodedLayout& layout, std::string what, Check check)
      : format_(format), layout_(layout), what_(std::move(what)), check_(std::move(check)) {}

  Status take(std::span<const std::byte> slice) {
    const auto size = static_cast<size_t>(scale_format_row(format_).bytes);
    while (!slice.empty()) {
      const size_t taken = std::min(size - have_, slice.size());
      for (size_t i = 0; i < taken; ++i) pattern_ |= std::to_integer<uint32_t>(slice[i]) << (8 * have_++);
      slice = slice.subspan(taken);
      if (have_ < size) return {};
      if (Status status = check_slot(); !status.ok()) return status;
      ++slot_;
      pattern_ = 0;
      have_ = 0;
    }
    return {};
  }

 private:
  Status check_slot() const {
    if (const auto block = layout_.block_of(slot_)) return check_(decode_scale(format_, pattern_), *block);
    return pattern_ == 0 ? Status() : Status(padding_failure(what_, slot_));
  }

  ScaleFormat format_;
  const EncodedLayout& layout_;
  std::string what_;
  Check check_;
  uint64_t slot_ = 0;
  uint32_t pattern_ = 0;
  size_t have_ = 0;
};

/// Returns the floats of a small part.
Result<std::vector<float>> load_floats(const ReadPart& read, Part part) {
  std::vector<std::byte> bytes;
  const Status status = read(part, [&](std::span<const std::byte> slice) {
    bytes.insert(bytes.end(), slice.begin(), slice.end());
    return Status();
  });
  if (!status.ok()) return status.failure();
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

Status check_codebook(const PackedTensor& tensor, const ReadPart& read) {
  const Result<std::vector<float>> book = load_floats(read, Part::kCodebook);
  if (!book.ok()) return book.failure();
  const size_t entries = size_t{1} << tensor.encoding->number->bits;  // in the codebook of one matrix
  for (size_t i = 0; i < book.value().size(); ++i) {
    const float value = book.value()[i];
    if (std::isfinite(value) && (i % entries == 0 || book.value()[i - 1] <= value)) continue;
    return Failure{part_text(tensor, Part::kCodebook) + ": entry " + std::to_string(i) + " is " +
                   number_text(value) + (std::isfinite(value) ? ", less than the one before it" : "") +
                   "; expected finite values in ascending order"};
  }
  return {};
}

Failure bad_scale(const std::string& what, float found, bool is_signed) {
  return {what + " is " + number_text(found) + ", expected a finite number" +
          (is_signed ? "" : " that is not negative")};
}

/// Checks the scales, alone and times the factors that make them effective.
Status check_scales(const PackedTensor& tensor, const EncodedLayout& layout, const ReadPart& read) {
  const Encoding& encoding = *tensor.encoding;
  std::vector<float> factors;
  if (encoding.tensor_scale) {
    Result<std::vector<float>> found = load_floats(read, Part::kTensorScale);
    if (!found.ok()) return found.failure();
    factors = found.take();
    for (size_t i = 0; i < factors.size(); ++i) {
      const std::string what = part_text(tensor, Part::kTensorScale) +
                               (factors.size() > 1 ? ": entry " + std::to_string(i) : ": it");
      if (!std::isfinite(factors[i]) || std::signbit(factors[i])) return bad_scale(what, factors[i], false);
    }
  }
  const std::string what = part_text(tensor, Part::kScales);
  FloatsCheck check(encoding.scale, layout, what, [&](float scale, uint64_t block) -> Status {
    if (encoding.scale_exponent != 0) scale *= std::ldexp(1.0F, encoding.scale_exponent);
    const bool finite_before = std::isfinite(scale);
    if (encoding.tensor_scale) scale *= factors[layout.matrix_of_block(block)];
    if (finite_before && std::isfinite(scale) && (encoding.signed_scales || !std::signbit(scale))) return {};
    return bad_scale(what + ": scale " + std::to_string(block), scale, encoding.signed_scales);
  });
  return read(Part::kScales, [&](std::span<const std::byte> slice) { return check.take(slice); });
}

/// Checks that slots without a row have the code 0.
Status check_zero_padding(const Encoding& encoding, const EncodedLayout& layout, const std::string& what,
                          const ReadPart& read) {
  const auto bits = static_cast<uint64_t>(encoding.number->bits);
  uint64_t next = 0;  // byte
  return read(Part::kZeros, [&](std::span<const std::byte> slice) -> Status {
    for (const std::byte byte : slice) {
      const uint64_t before = next / layout.zeros_each * layout.slots_each,
                     bit = next % layout.zeros_each * 8;
      for (uint64_t at = 0; at < 8; ++at) {
        const uint64_t own = (bit + at) / bits;
        if ((std::to_integer<uint64_t>(byte) >> at & 1) == 0 || own >= layout.slots_each) continue;
        if (!layout.block_of(before + own)) return padding_failure(what, before + own);
      }
      ++next;
    }
    return {};
  });
}

Status check_zeros(const PackedTensor& tensor, const EncodedLayout& layout, const ReadPart& read) {
  const Encoding& encoding = *tensor.encoding;
  const std::string what = part_text(tensor, Part::kZeros);
  if (encoding.zero == ZeroPoint::kInteger) {
    CodesCheck check(encoding, layout.matrices, layout.slots_each, what, "zero point");
    Status legal = read(Part::kZeros, [&](std::span<const std::byte> slice) { return check.take(slice); });
    return legal.ok() && layout.slots_in_tiles ? check_zero_padding(encoding, layout, what, read) : legal;
  }
  FloatsCheck check(zero_point_format(encoding.scale), layout, what,
                    [&](float zero, uint64_t block) -> Status {
                      if (std::isfinite(zero)) return {};
                      return Failure{what + ": zero point " + std::to_string(block) + " is " +
                                     number_text(zero) + ", expected a finite number"};
                    });
  return read(Part::kZeros, [&](std::span<const std::byte> slice) { return check.take(slice); });
}

}  // namespace

Status check_encoded(const PackedTensor& tensor, const ReadPart& read) {
  Status blocks = check_blocks(tensor, read);
  return blocks.ok() ? check_codes(tensor, read) : blocks;
}

Status check_blocks(const PackedTensor& tensor, const ReadPart& read) {
  const Result<EncodedLayout> layout = encoded_layout(*tensor.encoding, tensor.shape);
  if (!layout.ok()) return layout.failure();
  if (tensor.part(Part::kCodebook)) {
    if (Status codebook = check_codebook(tensor, read); !codebook.ok()) return codebook;
  }
  if (Status scales = check_scales(tensor, layout.value(), read); !scales.ok()) return scales;
  if (tensor.part(Part::kZeros)) {
    if (Status zeros = check_zeros(tensor, layout.value(), read); !zeros.ok()) return zeros;
  }
  return {};
}

Status check_codes(const PackedTensor& tensor, const ReadPart& read) {
  const Result<EncodedLayout> layout = encoded_layout(*tensor.encoding, tensor.shape);
  if (!layout.ok()) return layout.failure();
  const auto [rows, cols] = layout.value().matrix;
  if (tensor.encoding->codes == CodeLayout::kTiles) {
    TilesCheck check(*tensor.encoding, layout.value(), part_text(tensor, Part::kCodes));
    return read(Part::kCodes, [&](std::span<const std::byte> slice) { return check.take(slice); });
  }
  CodesCheck check(*tensor.encoding, rows, cols, part_text(tensor, Part::kCodes), "code");
  return read(Part::kCodes, [&](std::span<const std::byte> slice) { return check.take(slice); });
}

Status check_encoded(const CrumbFile& file, const PackedTensor& tensor) {
  return check_encoded(tensor, parts_of(file, tensor));
}

ReadPart parts_of(const CrumbFile& file, const PackedTensor& tensor) {
  return [&](Part part, const CrumbFile::Sink& sink) {
    return file.read_slices(*tensor.part(part), part_text(tensor, part), sink);
  };
}

Status check_packed_file(const CrumbFile& file) {
  for (const PackedTensor& tensor : file.header().tensors) {
    Status status = tensor.encoding
                        ? check_encoded(file, tensor)
                        : file.check_blob(*tensor.part(Part::kData), part_text(tensor, Part::kData));
    if (!status.ok()) return status;
  }
  for (const PackedFile& entry : file.header().files) {
    const Status status = file.check_blob(entry.blob, "file " + quote_text(entry.path));
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace crumb
