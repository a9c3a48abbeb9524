#include "export/gguf/keep_codes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "formats/crumb_file/writer.h"
#include "formats/gguf/code_blocks.h"
#include "formats/gguf/ggml_type.h"
#include "formats/number/packing.h"
#include "quant/packed/packed_stream.h"
#include "quant/packed/packed_tensor.h"
#include "quant/quantized_tensor.h"

namespace crumb::exporting {
namespace {

namespace fs = std::filesystem;
using Kind = GgmlCodes::Kind;

/// What of a tensor's codes and scales decides how they are encoded.
struct Found {
  std::array<bool, 256> codes{};
  bool negative_scale = false;
  bool stray_scale = false;  ///< MXFP4's last exponent, which a packed file has for 0
};

/// The blocks of a tensor, row by row, in the checkpoint's order of rows.
class CodeRows {
 public:
  CodeRows(const Checkpoint& file, const TensorEntry& entry)
      : entry_(entry),
        codes_(*find_ggml_codes(entry.place.blocks->number)),
        matrix_(matrix_shape(entry.shape).take()),
        bytes_(entry.place.stored) {
    file.tensor_files()[entry.input].read(entry.place.offset, bytes_).take();
  }

  const GgmlCodes& codes() const { return codes_; }
  const MatrixShape& matrix() const { return matrix_; }

  /// use(codes, scales) for each block of a row, scales with the minimum behind them.
  template <class Use>
  void for_row(std::uint64_t row, const Use& use) const {
    const GgmlType& type = *entry_.place.blocks;
    const std::uint64_t row_bytes = matrix_.cols / codes_.elements * type.block_bytes;
    const std::byte* block = bytes_.data() + stored_row(row) * row_bytes;
    std::array<std::uint8_t, kMostBlockCodes> codes{};
    std::array<std::uint16_t, kMostBlockScales + 1> scales{};
    for (std::uint64_t col = 0; col < matrix_.cols; col += codes_.elements, block += type.block_bytes) {
      codes_.split(block, codes.data(), scales.data());
      for (unsigned group = 0; codes_.group == 16 && group < codes_.scales(); ++group)
        scales[group] = without_sign(scales[group]);
      use(std::span(codes).first(codes_.elements), std::span<const std::uint16_t>(scales));
    }
  }

 private:
  /// ggml looks at no sign of an e4m3 scale, and takes what would be NaN for 0.
  static std::uint16_t without_sign(unsigned scale) {
    const unsigned bits = scale & 0x7fu;
    return static_cast<std::uint16_t>(bits == 0x7fu ? 0 : bits);
  }

  std::uint64_t stored_row(std::uint64_t row) const {
    const std::uint64_t n = entry_.place.interleaved_rows;
    return n == 0 ? row : interleaved_row(row, n);
  }

  const TensorEntry& entry_;
  const GgmlCodes& codes_;
  MatrixShape matrix_;
  std::vector<std::byte> bytes_;
};

Found look_at(const CodeRows& rows, const std::string& name) {
  Found found;
  const GgmlCodes& codes = rows.codes();
  for (std::uint64_t row = 0; row < rows.matrix().rows; ++row) {
    rows.for_row(row, [&](std::span<const std::uint8_t> block, std::span<const std::uint16_t> scales) {
      for (const std::uint8_t code : block) found.codes[code] = true;
      for (unsigned i = 0; i < codes.scales(); ++i) {
        if (codes.scale_bytes == 1) {
          found.stray_scale = found.stray_scale || (codes.group == 32 && scales[i] == kE8M0Zero);
          continue;
        }
        const float scale = f16_to_float(scales[i]);
        const float minimum = codes.has_minimum() ? f16_to_float(scales[codes.scales()]) : 0;
        if (!std::isfinite(scale) || !std::isfinite(minimum))
          throw Error("tensor " + quote_text(name) + ": a block of row " + std::to_string(row) +
                      " has the scale " + number_text(scale) + " and the minimum " + number_text(minimum) +
                      ", expected finite numbers");
        found.negative_scale = found.negative_scale || std::signbit(scale);
      }
    });
  }
  return found;
}

/// How a tensor's codes will lie, and what its spec says.
struct Meaning {
  Encoding encoding;
  std::string spec;
  int offset = 0;  ///< pattern = code - offset, in the number's bits
};

const NumberFormat* number(const char* name) { return find_number_format(name); }

Meaning meaning_of(const GgmlCodes& codes, const Found& found, float tensor_scale) {
  Meaning made;
  Encoding& encoding = made.encoding;
  encoding.scale = ScaleFormat::kF16;
  encoding.block_cols = codes.group;
  encoding.signed_scales = found.negative_scale;
  const std::string group = ":group=" + std::to_string(codes.group);
  const auto whole = [&](const char* name, std::uint8_t least) {
    encoding.number = number(name);
    encoding.range = found.codes[least] ? Range::kFull : Range::kNarrow;
    made.spec = name + group + (encoding.range == Range::kFull ? ":range=full" : "");
    made.offset = codes.zero;
  };
  if (codes.kind == Kind::kE2M1) {
    encoding.number = number("e2m1");
    encoding.scale = codes.group == 32 ? ScaleFormat::kE8M0 : ScaleFormat::kE4M3;
    encoding.tensor_scale = tensor_scale != 1;
    made.spec = codes.group == 32 ? "mxfp4" : encoding.tensor_scale ? "nvfp4" : "e2m1:group=16:scale=e4m3";
  } else if (codes.kind == Kind::kMinimum) {
    encoding.number = number(codes.bits == 4 ? "uint4" : "uint5");
    encoding.zero = ZeroPoint::kMinimum;
    made.spec = std::string(encoding.number->name) + group + ":zero=min";
  } else if (codes.bits == 1) {
    encoding.number = number("binary");
    made.spec = "binary" + group;
  } else if (codes.bits == 2 && found.codes[3]) {
    encoding.number = number("uint2");
    encoding.zero = ZeroPoint::kInteger;
    made.spec = "uint2" + group + ":zero=int";
  } else if (codes.bits == 2) {
    encoding.number = number(codes.group == 256 ? "ternary" : "int2");
    encoding.range = Range::kNarrow;
    made.spec = std::string(encoding.number->name) + group;
    made.offset = codes.zero;
  } else if (codes.bits == 8) {
    whole("int8", 0x80);
  } else {
    whole(codes.bits == 4 ? "int4" : "int5", 0);
  }
  return made;
}

class GgufPacker {
 public:
  explicit GgufPacker(const Checkpoint& file) : file_(file) {}

  PackReport make(const fs::path& output) {
    CrumbHeader plan;
    plan.model = architecture();
    for (const TensorEntry& entry : file_.tensors()) plan.tensors.push_back(planned(entry));
    for (const ModelFile& file : file_.files())
      plan.files.push_back({file.path, Blob{.raw = file.bytes.size()}});
    CrumbWriter writer(output, std::move(plan));
    for (const TensorEntry& entry : file_.tensors()) {
      check_interrupt();
      const auto meaning = meanings_.find(entry.name);
      if (meaning == meanings_.end())
        write_plain(writer, entry);
      else
        write_codes(writer, entry, meaning->second);
    }
    for (const ModelFile& file : file_.files()) writer.write(file.bytes);
    report_.bytes = writer.finish();
    for (const auto& [type, count] : widened_)
      report_.notes.push_back(count_text(count, "tensor") + " of " + type +
                              (count == 1 ? " becomes" : " become") +
                              " float32: a packed file has no such codes (crumb quantize makes new ones)");
    return std::move(report_);
  }

 private:
  std::string architecture() const {
    const nlohmann::json* config = file_.config();
    if (config == nullptr) return "";
    const auto names = config->find("architectures");
    const bool named =
        names != config->end() && names->is_array() && !names->empty() && names->front().is_string();
    return named ? names->front().get<std::string>() : "";
  }

  PackedTensor planned(const TensorEntry& entry) {
    if (entry.place.coding == StorageCoding::kGgmlBlocks && entry.place.added == 0 &&
        !entry.place.blocks->plain) {
      const bool in_rows = entry.shape.size() > 1 || entry.place.interleaved_rows == 0;
      if (in_rows && find_ggml_codes(entry.place.blocks->number) != nullptr) {
        const CodeRows rows(file_, entry);
        const Found found = look_at(rows, entry.name);
        if (!found.stray_scale) {
          Meaning meaning = meaning_of(rows.codes(), found, entry.place.block_scale);
          ++report_.specs[meaning.spec];
          PackedTensor made =
              plan_encoded(entry.name, entry.dtype, entry.shape, meaning.spec, meaning.encoding);
          meanings_.emplace(entry.name, std::move(meaning));
          return made;
        }
      }
      ++widened_[std::string(entry.place.blocks->name)];
    }
    PackedTensor kept;
    kept.name = entry.name;
    kept.dtype = entry.dtype;
    kept.shape = entry.shape;
    ++report_.specs[std::string(dtype_name(entry.dtype))];
    return kept;
  }

  void write_plain(CrumbWriter& writer, const TensorEntry& entry) const {
    TensorReader reader = file_.reader(entry);
    std::vector<std::byte> piece;
    for (std::uint64_t left = entry.bytes; left > 0; left -= piece.size()) {
      piece.resize(std::min<std::uint64_t>(left, std::uint64_t{1} << 20));
      reader.read(piece).take();
      writer.append(piece);
    }
    writer.end_part();
  }

  void write_codes(CrumbWriter& writer, const TensorEntry& entry, const Meaning& meaning) const {
    const CodeRows rows(file_, entry);
    const GgmlCodes& codes = rows.codes();
    QuantizedTensor made;
    made.spec = meaning.spec;
    made.shape = entry.shape;
    made.encoding = meaning.encoding;
    made.layout = encoded_layout(meaning.encoding, entry.shape).take("tensor " + quote_text(entry.name));
    if (meaning.encoding.tensor_scale) made.tensor_scales = {entry.place.block_scale};
    const int bits = meaning.encoding.number->bits;
    std::vector<std::uint8_t> patterns(rows.matrix().cols), packed(made.layout.row_bytes);
    std::byte* scale = reserve(made.scales, made.layout.scales_bytes);
    std::byte* zero = reserve(made.zeros, made.layout.zeros_bytes);
    for (std::uint64_t row = 0; row < rows.matrix().rows; ++row) {
      auto to = patterns.begin();
      rows.for_row(row, [&](std::span<const std::uint8_t> block, std::span<const std::uint16_t> scales) {
        to = std::ranges::transform(block, to, [&](std::uint8_t code) {
               return meaning.encoding.number->bits_of(code - meaning.offset);
             }).out;
        for (unsigned i = 0; i < codes.scales(); ++i, scale += codes.scale_bytes)
          std::memcpy(scale, &scales[i], codes.scale_bytes);
        if (!codes.has_minimum()) return;
        std::memcpy(zero, &scales[codes.scales()], sizeof(std::uint16_t));
        zero += sizeof(std::uint16_t);
      });
      pack_codes(patterns, bits, packed.data());
      writer.append(std::as_bytes(std::span(packed)));
    }
    writer.end_part();
    if (meaning.encoding.zero == ZeroPoint::kInteger) put_ones(made, bits);
    write_after_codes(writer, made);
  }

  static std::byte* reserve(std::vector<std::byte>& bytes, std::uint64_t size) {
    bytes.resize(size);
    return bytes.data();
  }

  /// A zero point of 1 for every block.
  static void put_ones(QuantizedTensor& tensor, int bits) {
    const std::vector<std::uint8_t> ones(tensor.layout.slots, 1);
    pack_codes(ones, bits, reinterpret_cast<std::uint8_t*>(tensor.zeros.data()));
  }

  const Checkpoint& file_;
  std::map<std::string, Meaning> meanings_;
  std::map<std::string, std::size_t> widened_;
  PackReport report_;
};

}  // namespace

PackReport pack_gguf(const Checkpoint& file, const fs::path& output) { return GgufPacker(file).make(output); }

}  // namespace crumb::exporting
