#include "quant/packed_check.h"

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

/// Looks at rows of packed codes that come in slices of any size, however long a row is.
class CodesCheck {
 public:
  /// `what` begins messages; `item` is what one code is ("code", "zero point").
  CodesCheck(const Encoding& encoding, uint64_t rows, uint64_t cols, std::string what, std::string item)
      : number_(*encoding.number),
        range_(encoding.range),
        rows_(rows),
        cols_(cols),
        row_bytes_(packed_bytes(cols, number_.bits)),
        what_(std::move(what)),
        item_(std::move(item)) {
    const auto values = value_table(number_, std::vector<float>(size_t{1} << number_.bits));
    const size_t patterns = size_t{1} << number_.bits;
    for (size_t pattern = 0; pattern < patterns; ++pattern) {
      const int code = number_.code_of(static_cast<uint8_t>(pattern));
      const bool legal = code >= number_.least_code(range_) && code <= number_.greatest_code(range_) &&
                         std::isfinite(values[pattern]);
      stray_[pattern] = !legal;
      any_stray_ = any_stray_ || !legal;
    }
    if (8 % number_.bits != 0) return;
    for (size_t byte = 0; byte < stray_byte_.size(); ++byte) {
      for (int at = 0; at < 8; at += number_.bits) stray_byte_[byte] |= stray_[(byte >> at) & (patterns - 1)];
    }
  }

  Status take(std::span<const std::byte> slice) {
    while (!slice.empty() || !pending_.empty()) {
      const uint64_t wanted =
          std::min<uint64_t>(kEights * static_cast<uint64_t>(number_.bits), row_bytes_ - at_);
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
  static constexpr uint64_t kEights = 512;  // codes looked at together, in eights: those are whole bytes

  Status check(std::span<const std::byte> bytes) const {
    const auto bits = static_cast<uint64_t>(number_.bits);
    const uint64_t first = at_ * 8 / bits;
    const uint64_t count = std::min(cols_ - first, bytes.size() * 8 / bits);
    if (has_stray(bytes, count)) {
      std::array<uint8_t, kEights * 8> codes;
      const std::span<uint8_t> some(codes.data(), count);
      unpack_codes(reinterpret_cast<const uint8_t*>(bytes.data()), number_.bits, 0, some);
      for (size_t i = 0; i < some.size(); ++i) {
        if (stray_[some[i]]) return stray(some[i], first + i);
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

  /// Whether one of `count` codes, or of the padding bits behind them, may be a stray one.
  bool has_stray(std::span<const std::byte> bytes, uint64_t count) const {
    if (!any_stray_) return false;
    uint8_t found = 0;
    if (8 % number_.bits == 0) {  // without a branch for each, since almost all are legal
      for (const std::byte byte : bytes) found |= stray_byte_[std::to_integer<size_t>(byte)];
      return found != 0;
    }
    std::array<uint8_t, kEights * 8> codes;
    const std::span<uint8_t> some(codes.data(), count);
    unpack_codes(reinterpret_cast<const uint8_t*>(bytes.data()), number_.bits, 0, some);
    for (const uint8_t code : some) found |= stray_[code];
    return found != 0;
  }

  Failure stray(uint8_t pattern, uint64_t index) const {
    const std::string place = rows_ > 1 || item_ == "code"
                                  ? "row " + std::to_string(row_) + ", column " + std::to_string(index)
                                  : "index " + std::to_string(index);
    const std::string range = number_.grid == Grid::kMinifloat
                                  ? " has no finite value for it"
                                  : " (" + std::string(kRangeNames[static_cast<size_t>(range_)]) +
                                        " range) has codes from " +
                                        std::to_string(number_.least_code(range_)) + " to " +
                                        std::to_string(number_.greatest_code(range_));
    return {what_ + ": " + item_ + " " + std::to_string(number_.code_of(pattern)) + " at " + place + "; " +
            std::string(number_.name) + range};
  }

  const NumberFormat& number_;
  Range range_;
  uint64_t rows_, cols_, row_bytes_;
  std::string what_, item_;
  std::array<uint8_t, 256> stray_{};       ///< by pattern: 1 where the code may not occur
  std::array<uint8_t, 256> stray_byte_{};  ///< by byte of whole codes: 1 where one of them may not occur
  bool any_stray_ = false;
  std::vector<std::byte> pending_;  ///< the beginning of a piece whose rest is in the next slice
  uint64_t row_ = 0;
  uint64_t at_ = 0;  ///< bytes of the row that were looked at
};

/// Looks at stored floats that come in slices: check(value, index) refuses one.
class FloatsCheck {
 public:
  using Check = std::function<Status(float, uint64_t)>;
  FloatsCheck(ScaleFormat format, Check check) : format_(format), check_(std::move(check)) {}

  Status take(std::span<const std::byte> slice) {
    const auto size = static_cast<size_t>(scale_format_row(format_).bytes);
    while (!slice.empty()) {
      const size_t taken = std::min(size - have_, slice.size());
      for (size_t i = 0; i < taken; ++i) pattern_ |= std::to_integer<uint32_t>(slice[i]) << (8 * have_++);
      slice = slice.subspan(taken);
      if (have_ < size) return {};
      if (Status status = check_(decode_scale(format_, pattern_), index_++); !status.ok()) return status;
      pattern_ = 0;
      have_ = 0;
    }
    return {};
  }

 private:
  ScaleFormat format_;
  Check check_;
  uint64_t index_ = 0;
  uint32_t pattern_ = 0;
  size_t have_ = 0;
};

/// The floats of a small part.
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
  for (size_t i = 0; i < book.value().size(); ++i) {
    const float value = book.value()[i];
    if (std::isfinite(value) && (i == 0 || book.value()[i - 1] <= value)) continue;
    return Failure{part_text(tensor, Part::kCodebook) + ": entry " + std::to_string(i) + " is " +
                   number_text(value) + (std::isfinite(value) ? ", less than the one before it" : "") +
                   "; expected finite values in ascending order"};
  }
  return {};
}

Failure bad_scale(const std::string& what, float found) {
  return {what + " is " + number_text(found) + ", expected a finite number that is not negative"};
}

/// The scales, alone and times the factors that make them effective.
Status check_scales(const PackedTensor& tensor, const ReadPart& read) {
  const Encoding& encoding = *tensor.encoding;
  float factor = 1;
  if (encoding.tensor_scale) {
    const Result<std::vector<float>> found = load_floats(read, Part::kTensorScale);
    if (!found.ok()) return found.failure();
    factor = found.value().at(0);
    const std::string what = part_text(tensor, Part::kTensorScale) + ": it";
    if (!std::isfinite(factor) || std::signbit(factor)) return bad_scale(what, factor);
  }
  const std::string what = part_text(tensor, Part::kScales);
  FloatsCheck check(encoding.scale, [&](float scale, uint64_t block) -> Status {
    if (encoding.tensor_scale) scale *= factor;  // a scale_exponent is negative: it makes nothing infinite
    if (std::isfinite(scale) && !std::signbit(scale)) return {};
    return bad_scale(what + ": scale " + std::to_string(block), scale);
  });
  return read(Part::kScales, [&](std::span<const std::byte> slice) { return check.take(slice); });
}

Status check_zeros(const PackedTensor& tensor, const EncodedLayout& layout, const ReadPart& read) {
  const Encoding& encoding = *tensor.encoding;
  const std::string what = part_text(tensor, Part::kZeros);
  if (encoding.zero == ZeroPoint::kInteger) {
    CodesCheck check(encoding, 1, layout.blocks(), what, "zero point");
    return read(Part::kZeros, [&](std::span<const std::byte> slice) { return check.take(slice); });
  }
  FloatsCheck check(zero_point_format(encoding.scale), [&](float zero, uint64_t block) -> Status {
    if (std::isfinite(zero)) return {};
    return Failure{what + ": zero point " + std::to_string(block) + " is " + number_text(zero) +
                   ", expected a finite number"};
  });
  return read(Part::kZeros, [&](std::span<const std::byte> slice) { return check.take(slice); });
}

}  // namespace

Status check_encoded(const PackedTensor& tensor, const ReadPart& read) {
  const Result<EncodedLayout> layout = encoded_layout(*tensor.encoding, tensor.shape);
  if (!layout.ok()) return layout.failure();
  if (tensor.part(Part::kCodebook)) {
    if (Status codebook = check_codebook(tensor, read); !codebook.ok()) return codebook;
  }
  if (Status scales = check_scales(tensor, read); !scales.ok()) return scales;
  if (tensor.part(Part::kZeros)) {
    if (Status zeros = check_zeros(tensor, layout.value(), read); !zeros.ok()) return zeros;
  }
  const auto [rows, cols] = layout.value().matrix;
  CodesCheck check(*tensor.encoding, rows, cols, part_text(tensor, Part::kCodes), "code");
  return read(Part::kCodes, [&](std::span<const std::byte> slice) { return check.take(slice); });
}

Status check_encoded(const CrumbFile& file, const PackedTensor& tensor) {
  return check_encoded(tensor, [&](Part part, const CrumbFile::Sink& sink) {
    return file.read_slices(*tensor.part(part), part_text(tensor, part), sink);
  });
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
