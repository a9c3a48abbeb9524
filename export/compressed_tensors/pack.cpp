#include "export/compressed_tensors/pack.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/threads/parallel.h"
#include "formats/number/packing.h"

namespace crumb::exporting::compressed_tensors {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;  // bytes that are made at a time
constexpr std::uint64_t kColumns = 4096;                  // codes of a row that are looked at

bool has_byte_scales(const Scheme& scheme) {
  return scheme.format.starts_with("mxfp") || scheme.format.starts_with("nvfp4");
}

/// What is stored for the codes [col, col + codes.size()) of a row; overwrites them.
void recode(const RowDecoder& decoder, const QuantizedView& tensor, const StoredForm& form, std::uint64_t row,
            std::uint64_t col, std::span<std::uint8_t> codes) {
  const Encoding& encoding = tensor.encoding;
  const std::uint64_t first_block = tensor.layout.first_block(row);
  for (std::size_t done = 0; done < codes.size();) {
    const std::uint64_t at = col + done, block = at / encoding.block_cols;
    const std::uint64_t left = encoding.block_cols - at % encoding.block_cols;
    const auto part = codes.subspan(done, std::min<std::uint64_t>(left, codes.size() - done));
    const int zero = form.takes_zero_points ? static_cast<int>(decoder.zero_point(first_block + block)) : 0;
    for (std::uint8_t& code : part)
      code = static_cast<std::uint8_t>(form.codes[code] - zero + form.code_offset);
    done += part.size();
  }
}

}  // namespace

std::uint64_t code_row_bytes(const Scheme& scheme, std::uint64_t cols) {
  const std::uint64_t bytes = packed_bytes(cols, scheme.bits);
  return scheme.is_packed_integer() ? (bytes + 3) / 4 * 4 : bytes;
}

void write_codes(const QuantizedView& tensor, const StoredForm& form, int threads, const ByteSink& sink) {
  const RowDecoder decoder(tensor);
  const std::uint64_t rows = decoder.rows(), cols = decoder.cols();
  const std::uint64_t row_bytes = code_row_bytes(form.scheme, cols);
  if (rows == 0 || row_bytes == 0) return;
  const std::uint64_t step = std::max<std::uint64_t>(1, kPiece / row_bytes);
  std::vector<std::byte> piece;
  for (std::uint64_t first = 0; first < rows; first += step) {
    check_interrupt();
    const std::uint64_t count = std::min(step, rows - first);
    piece.assign(count * row_bytes, std::byte{0});
    parallel_for(count, std::max<std::uint64_t>(1, kColumns / std::max<std::uint64_t>(cols, 1)), threads,
                 [&](std::size_t begin, std::size_t end) {
                   std::vector<std::uint8_t> codes(std::min(cols, kColumns));
                   for (std::size_t row = begin; row < end; ++row)
                     for (std::uint64_t col = 0; col < cols; col += kColumns) {  // whole bytes of any width
                       const auto part = std::span(codes).first(std::min(kColumns, cols - col));
                       decoder.codes(first + row, col, part);
                       recode(decoder, tensor, form, first + row, col, part);
                       std::byte* const to =
                           piece.data() + row * row_bytes + col * static_cast<unsigned>(form.scheme.bits) / 8;
                       pack_codes(part, form.scheme.bits, reinterpret_cast<std::uint8_t*>(to));
                     }
                 });
    sink(piece);
  }
}

void write_scales(const QuantizedView& tensor, const StoredForm& form, const ByteSink& sink) {
  const RowDecoder decoder(tensor);
  const std::uint64_t blocks = tensor.layout.blocks();
  std::vector<std::byte> bytes;
  if (has_byte_scales(form.scheme)) {
    bytes.resize(blocks);
    for (std::uint64_t block = 0; block < blocks; ++block) {
      bytes[block] = tensor.scales[tensor.layout.slot(block)];
      if (tensor.encoding.scale == ScaleFormat::kE8M0 &&
          std::to_integer<std::uint32_t>(bytes[block]) == kE8M0Zero)
        throw Error("the scale of block " + std::to_string(block) +
                    " is 0, which MX formats of compressed-tensors cannot say");
    }
    return sink(bytes);
  }
  bytes.resize(blocks * sizeof(float));
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const float whole = decoder.scale(block), scale = whole * form.scale_factor;
    if (scale / form.scale_factor != whole)
      throw Error("the scale of block " + std::to_string(block) + " is so small that its half is no float32");
    std::memcpy(bytes.data() + block * sizeof(float), &scale, sizeof scale);
  }
  sink(bytes);
}

void write_zero_points(const QuantizedView& tensor, const StoredForm& form, const ByteSink& sink) {
  const RowDecoder decoder(tensor);
  std::vector<std::byte> bytes(tensor.layout.blocks());
  for (std::uint64_t block = 0; block < bytes.size(); ++block)
    bytes[block] = static_cast<std::byte>(static_cast<int>(decoder.zero_point(block)) + form.zero_offset);
  sink(bytes);
}

}  // namespace crumb::exporting::compressed_tensors
