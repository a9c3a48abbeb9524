#include "quant/packed_tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/io/text.h"
#include "formats/number/packing.h"

namespace crumb {
namespace {

std::string part_text(const PackedTensor& tensor, Part part) {
  return "tensor " + quote_text(tensor.name) + ": " + std::string(kPartNames[static_cast<size_t>(part)]);
}

/// The first column of a row whose code the quantizer would not emit; cols where all are good.
uint64_t first_stray_code(std::span<const uint8_t> codes, const NumberFormat& number, Range range) {
  const int least = number.least_code(range), greatest = number.greatest_code(range);
  for (uint64_t i = 0; i < codes.size(); ++i) {
    const int code = number.code_of(codes[i]);
    if (code < least || code > greatest) return i;
  }
  return codes.size();
}

Status check_codes(const PackedTensor& tensor, const RowDecoder& decoder, std::span<const std::byte> bytes) {
  const NumberFormat& number = *tensor.encoding->number;
  const Range range = tensor.encoding->range;
  const uint64_t cols = decoder.cols();
  const uint64_t row_bytes = packed_bytes(cols, number.bits);
  const int used = static_cast<int>(cols * static_cast<uint64_t>(number.bits) % 8);
  const bool every_code = number.least_code(range) == number.least_code(Range::kFull) &&
                          number.greatest_code(range) == number.greatest_code(Range::kFull);
  std::array<uint8_t, 4096> codes;
  for (uint64_t row = 0; row < decoder.rows(); ++row) {
    if (used != 0 && std::to_integer<int>(bytes[(row + 1) * row_bytes - 1]) >> used != 0) {
      return Failure{part_text(tensor, Part::kCodes) + ": the padding bits of row " + std::to_string(row) +
                     " are not zero"};
    }
    if (every_code) {
      if (used == 0) break;
      continue;
    }
    for (uint64_t col = 0; col < cols; col += codes.size()) {
      const std::span<uint8_t> some(codes.data(), std::min<uint64_t>(codes.size(), cols - col));
      decoder.codes(row, col, some);
      const uint64_t stray = first_stray_code(some, number, range);
      if (stray == some.size()) continue;
      return Failure{part_text(tensor, Part::kCodes) + ": code " + std::to_string(number.code_of(some[stray])) +
                     " at row " + std::to_string(row) + ", column " + std::to_string(col + stray) + "; " +
                     std::string(number.name) + " (" + std::string(kRangeNames[static_cast<size_t>(range)]) +
                     " range) has codes from " + std::to_string(number.least_code(range)) + " to " +
                     std::to_string(number.greatest_code(range))};
    }
  }
  return {};
}

Status check_blocks(const PackedTensor& tensor, const RowDecoder& decoder, const EncodedLayout& layout) {
  const Encoding& encoding = *tensor.encoding;
  for (uint64_t block = 0; block < layout.blocks(); ++block) {
    const float scale = decoder.scale(block);
    if (!std::isfinite(scale) || std::signbit(scale)) {
      return Failure{part_text(tensor, Part::kScales) + ": scale " + std::to_string(block) + " is " +
                     std::to_string(scale) + ", expected a finite number that is not negative"};
    }
    const float zero = decoder.zero_point(block);
    const bool in_range = encoding.zero != ZeroPoint::kInteger ||
                          (zero >= static_cast<float>(encoding.number->least_code(encoding.range)) &&
                           zero <= static_cast<float>(encoding.number->greatest_code(encoding.range)));
    if (!std::isfinite(zero) || !in_range) {
      return Failure{part_text(tensor, Part::kZeros) + ": zero point " + std::to_string(block) + " is " +
                     std::to_string(zero) + ", outside " + std::string(encoding.number->name) + "'s range"};
    }
  }
  const std::span<const float> book(decoder.grid().values.data(), size_t{1} << encoding.number->bits);
  if (encoding.number->learned &&
      (!std::ranges::is_sorted(book) || !std::ranges::all_of(book, [](float v) { return std::isfinite(v); }))) {
    return Failure{part_text(tensor, Part::kCodebook) + ": its values are not finite and ascending"};
  }
  return {};
}

}  // namespace

Result<LoadedTensor> LoadedTensor::load(const CrumbFile& file, const PackedTensor& tensor) {
  LoadedTensor loaded;
  QuantizedView& view = loaded.view_;
  view.shape = tensor.shape;
  view.encoding = *tensor.encoding;
  Result<EncodedLayout> layout = encoded_layout(view.encoding, tensor.shape);
  if (!layout.ok()) return layout.failure();
  view.layout = layout.value();
  loaded.parts_.reserve(kPartNames.size());
  for (size_t i = 0; i < kPartNames.size(); ++i) {
    const auto part = static_cast<Part>(i);
    if (!tensor.part(part)) continue;
    Result<BlobBytes> bytes = file.load(*tensor.part(part), part_text(tensor, part));
    if (!bytes.ok()) return bytes.failure();
    const std::span<const std::byte> span = loaded.parts_.emplace_back(std::move(bytes.value())).bytes();
    switch (part) {
      case Part::kData: break;
      case Part::kCodes: view.codes = span; break;
      case Part::kScales: view.scales = span; break;
      case Part::kZeros: view.zeros = span; break;
      case Part::kCodebook: view.codebook = span; break;
      case Part::kTensorScale: std::memcpy(&view.tensor_scale, span.data(), sizeof view.tensor_scale); break;
    }
  }
  return loaded;
}

PackedTensor plan_encoded(std::string name, DType dtype, std::vector<uint64_t> shape, std::string spec,
                          const Encoding& encoding) {
  PackedTensor plan;
  plan.name = std::move(name);
  plan.dtype = dtype;
  plan.shape = std::move(shape);
  plan.spec = std::move(spec);
  plan.encoding = encoding;
  return plan;
}

void write_encoded(CrumbWriter& writer, const QuantizedTensor& tensor) {
  writer.write(tensor.codes);
  writer.write(tensor.scales);
  if (tensor.encoding.zero != ZeroPoint::kNone) writer.write(tensor.zeros);
  if (tensor.encoding.number->learned) writer.write(tensor.codebook);
  if (tensor.encoding.tensor_scale) writer.write(std::as_bytes(std::span(&tensor.tensor_scale, 1)));
}

Status check_encoded(const CrumbFile& file, const PackedTensor& tensor) {
  Result<LoadedTensor> loaded = LoadedTensor::load(file, tensor);
  if (!loaded.ok()) return loaded.failure();
  const QuantizedView& view = loaded.value().view();
  const RowDecoder decoder(view);
  if (const Status blocks = check_blocks(tensor, decoder, view.layout); !blocks.ok()) return blocks;
  return check_codes(tensor, decoder, view.codes);
}

Status check_packed_file(const CrumbFile& file) {
  for (const PackedTensor& tensor : file.header().tensors) {
    for (size_t i = 0; i < kPartNames.size(); ++i) {
      if (!tensor.parts[i]) continue;
      const Status status = file.check_blob(*tensor.parts[i], part_text(tensor, static_cast<Part>(i)));
      if (!status.ok()) return status;
    }
    if (!tensor.encoding) continue;
    if (const Status status = check_encoded(file, tensor); !status.ok()) return status;
    for (const auto& blob : tensor.parts) {
      if (blob) file.release(*blob);
    }
  }
  for (const PackedFile& entry : file.header().files) {
    const Status status = file.check_blob(entry.blob, "file " + quote_text(entry.path));
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace crumb
