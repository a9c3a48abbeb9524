#include "formats/checkpoint/quantized/bitsandbytes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/checked_size.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/checkpoint/quantized/bitsandbytes_matrix.h"
#include "formats/checkpoint/quantized/modules.h"
#include "formats/checkpoint/quantized/scale_names.h"
#include "formats/checkpoint/quantized/schemes.h"

namespace crumb {
namespace {

using nlohmann::json;
using quantized::found_text;
using quantized::tensor_failure;

constexpr std::string_view kState = ".quant_state.bitsandbytes__", kAbsmax = ".absmax", kMap = ".quant_map",
                           kNestedAbsmax = ".nested_absmax", kNestedMap = ".nested_quant_map";
constexpr std::string_view kRows = "SCB", kFormat = "weight_format";
constexpr std::uint64_t kMostState = 1 << 16;
constexpr std::array<std::uint64_t, 8> kBlocks = {32, 64, 128, 256, 512, 1024, 2048, 4096};
/// A stored table is the type's where it differs by less: versions round it differently.
constexpr float kTableDifference = 1e-3F;

/// What a weight's quant_state says.
struct State {
  FourBits kind = FourBits::kNf4;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;
  std::uint64_t elements = 0, block = 0;
  std::uint64_t nested_block = 0;  ///< 0: not nested
  float nested_offset = 0;
};

std::optional<DType> dtype_of(const std::string& name) {
  if (name == "float32") return DType::kF32;
  if (name == "float16") return DType::kF16;
  if (name == "bfloat16") return DType::kBF16;
  return std::nullopt;
}

Result<std::uint64_t> block_of(const json& state, const char* key) {
  const Result<std::int64_t> block = quantized::integer_of(state, key, 0);
  if (!block.ok()) return block.failure();
  if (block.value() > 0 &&
      std::ranges::find(kBlocks, static_cast<std::uint64_t>(block.value())) != kBlocks.end())
    return static_cast<std::uint64_t>(block.value());
  return Failure{std::string(key) + " is " + std::to_string(block.value()) +
                 ", expected a power of two from 32 to 4096"};
}

Result<State> parse_state(std::span<const std::byte> bytes, std::string_view type) {
  const Result<json> read = parse_bounded_json(bytes);
  if (!read.ok()) return Failure{"it is damaged: " + read.failure().message};
  const json& state = read.value();
  if (!state.is_object()) return Failure{"it is damaged: expected a JSON object"};
  State made;
  const Result<std::string> own = quantized::text_of(state, "quant_type", "");
  if (!own.ok()) return own.failure();
  if (own.value() != type || (type != "nf4" && type != "fp4"))
    return Failure{"its quant_type is " + quote_text(own.value()) +
                   ", expected nf4 or fp4, as its name says"};
  made.kind = type == "nf4" ? FourBits::kNf4 : FourBits::kFp4;
  const Result<std::string> dtype = quantized::text_of(state, "dtype", "");
  if (!dtype.ok()) return dtype.failure();
  const std::optional<DType> known = dtype_of(dtype.value());
  if (!known)
    return Failure{"its dtype is " + quote_text(dtype.value()) + ", expected float32, float16 or bfloat16"};
  made.dtype = *known;
  const auto shape = state.find("shape");
  if (shape == state.end() || !shape->is_array() || shape->empty())
    return Failure{"it has no \"shape\", a list of sizes"};
  for (const json& size : *shape) {
    if (!size.is_number_unsigned()) return Failure{"its shape is no list of sizes"};
    made.shape.push_back(size.get<std::uint64_t>());
  }
  const Result<std::uint64_t> elements = element_count(made.shape);
  if (!elements.ok()) return Failure{"its shape: " + elements.failure().message};
  made.elements = elements.value();
  const Result<std::uint64_t> block = block_of(state, "blocksize");
  if (!block.ok()) return block.failure();
  made.block = block.value();
  if (!state.contains("nested_blocksize")) return made;
  const Result<std::uint64_t> nested = block_of(state, "nested_blocksize");
  if (!nested.ok()) return nested.failure();
  made.nested_block = nested.value();
  const auto offset = state.find("nested_offset");
  if (offset == state.end() || !offset->is_number() || !std::isfinite(offset->get<float>()))
    return Failure{"its nested_offset is no number"};
  made.nested_offset = offset->get<float>();
  return made;
}

class BitsandbytesMaker {
 public:
  BitsandbytesMaker(const std::vector<TensorEntry>& tensors, const std::vector<InputFile>& files)
      : tensors_(tensors), files_(files) {
    for (const InputFile& file : files) shared_.push_back(std::make_shared<const InputFile>(file));
    for (const TensorEntry& tensor : tensors) by_name_.emplace(tensor.name, &tensor);
  }

  Result<DequantizedModel> make() {
    for (const TensorEntry& tensor : tensors_) {
      const std::size_t at = tensor.name.rfind(kState);
      if (at != std::string::npos) {
        const std::string type = tensor.name.substr(at + kState.size());
        if (Status added = add_four_bits(tensor.name.substr(0, at), tensor, type); !added.ok())
          return added.failure();
      } else if (const auto [module, last] = quantized::part_name(tensor.name); last == kRows) {
        if (Status added = add_eight_bits(std::string(module), tensor); !added.ok()) return added.failure();
      }
    }
    if (made_ == 0)
      return Failure{"it holds no tensors of bitsandbytes (quant_state.bitsandbytes__nf4, SCB)"};
    for (const TensorEntry& tensor : tensors_) {
      if (taken_.contains(&tensor)) continue;
      for (const std::string_view end : {kAbsmax, kMap, kNestedAbsmax, kNestedMap})
        if (tensor.name.ends_with(end))
          return tensor_failure(tensor.name, "there is no quant_state that it belongs to");
      model_.tensors.push_back(tensor);
    }
    std::string kinds, types;
    for (const std::string& kind : kinds_) kinds += (kinds.empty() ? "" : ", ") + kind;
    for (const std::string& type : results_) types += (types.empty() ? "" : " and ") + type;
    model_.what = "bitsandbytes (" + kinds + ") computes of " +
                  count_text(made_, "quantized matrix", "quantized matrices") + ", in " + types;
    return std::move(model_);
  }

 private:
  const TensorEntry* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }

  QuantizedPart part(const TensorEntry& tensor) const { return {shared_[tensor.input], tensor.place.offset}; }

  /// A tensor that is there, with this type and number of elements; it counts as read.
  Result<const TensorEntry*> needed(const std::string& name, DType dtype, std::uint64_t count) {
    const TensorEntry* const tensor = find(name);
    if (!tensor) return tensor_failure(name, "it is missing");
    const Result<std::uint64_t> found = element_count(tensor->shape);
    if (tensor->dtype != dtype || !found.ok() || found.value() != count || !quantized::lies_in_order(*tensor))
      return tensor_failure(name, "it is " + found_text(*tensor) + ", expected " + std::to_string(count) +
                                      " " + std::string(dtype_name(dtype)));
    taken_.insert(tensor);
    return tensor;
  }

  Status add_four_bits(const std::string& name, const TensorEntry& stored_state, const std::string& type) {
    if (stored_state.dtype != DType::kU8 || stored_state.bytes > kMostState ||
        !quantized::lies_in_order(stored_state))
      return tensor_failure(stored_state.name, "it is " + found_text(stored_state) + ", expected at most " +
                                                   std::to_string(kMostState) + " U8");
    std::vector<std::byte> bytes(stored_state.bytes);
    if (Status read = files_[stored_state.input].read(stored_state.place.offset, bytes); !read.ok())
      return read;
    const Result<State> parsed = parse_state(bytes, type);
    if (!parsed.ok()) return tensor_failure(stored_state.name, parsed.failure().message);
    const State& state = parsed.value();
    taken_.insert(&stored_state);

    const TensorEntry* const codes = find(name);
    if (!codes) return tensor_failure(name, "it is missing");
    if (codes->bytes != (state.elements + 1) / 2 || !quantized::lies_in_order(*codes))
      return tensor_failure(name, "it is " + found_text(*codes) + ", expected the " +
                                      std::to_string((state.elements + 1) / 2) + " bytes of " +
                                      shape_text(state.shape));
    taken_.insert(codes);
    const std::uint64_t blocks = groups_of(state.elements, state.block);
    const auto absmax =
        needed(name + std::string(kAbsmax), state.nested_block == 0 ? DType::kF32 : DType::kU8, blocks);
    if (!absmax.ok()) return absmax.failure();
    if (Status sound = check_map(name + std::string(kMap), state.kind); !sound.ok()) return sound;
    FourBitParts parts{
        .codes = part(*codes), .absmax = part(*absmax.value()), .nested_absmax = {}, .nested_map = {}};
    const TensorEntry* nested = nullptr;
    if (state.nested_block != 0) {
      const auto scales =
          needed(name + std::string(kNestedAbsmax), DType::kF32, groups_of(blocks, state.nested_block));
      if (!scales.ok()) return scales.failure();
      const auto map = needed(name + std::string(kNestedMap), DType::kF32, 256);
      if (!map.ok()) return map.failure();
      nested = scales.value();
      parts.nested_absmax = part(*nested);
      parts.nested_map = part(*map.value());
    }
    if (Status sound =
            check_absmax(*absmax.value(), nested, state.nested_offset, *codes, state.elements % 2 != 0);
        !sound.ok())
      return sound;
    const FourBitLayout layout{.kind = state.kind,
                               .rows = matrix_rows(state.shape),
                               .cols = matrix_cols(state.shape),
                               .block = state.block,
                               .nested_block = state.nested_block,
                               .nested_offset = state.nested_offset,
                               .result = state.dtype};
    kinds_.insert(type);
    return add(*codes, codes->bytes + absmax.value()->bytes, state.dtype, state.shape,
               make_four_bit_matrix(layout, parts));
  }

  Status add_eight_bits(const std::string& module, const TensorEntry& rows) {
    const std::string name = module.empty() ? "weight" : module + ".weight";
    const TensorEntry* const codes = find(name);
    if (!codes) return tensor_failure(name, "it is missing beside " + quote_text(rows.name));
    if (codes->dtype != DType::kI8 || codes->shape.size() != 2 || !quantized::lies_in_order(*codes))
      return tensor_failure(name, "it is " + found_text(*codes) + " beside " + quote_text(rows.name) +
                                      ", expected I8 with 2 axes");
    const auto absmax = needed(rows.name, DType::kF32, codes->shape[0]);
    if (!absmax.ok()) return absmax.failure();
    if (const TensorEntry* const format = find((module.empty() ? "" : module + ".") + std::string(kFormat))) {
      std::byte number{};
      if (format->bytes != 1)
        return tensor_failure(format->name, "it is " + found_text(*format) + ", expected one U8");
      if (Status read = files_[format->input].read(format->place.offset, std::span(&number, 1)); !read.ok())
        return read;
      if (number != std::byte{0})
        return tensor_failure(format->name, "it is " + std::to_string(std::to_integer<int>(number)) +
                                                ", expected 0: codes row by row");
      taken_.insert(format);
    }
    if (Status sound = check_absmax(*absmax.value(), nullptr, 0, *codes, false); !sound.ok()) return sound;
    taken_.insert(codes);
    kinds_.insert("int8");
    return add(*codes, codes->bytes + rows.bytes, DType::kF32, codes->shape,
               make_eight_bit_matrix(codes->shape[1], part(*codes), part(rows)));
  }

  Status add(const TensorEntry& codes, std::uint64_t stored, DType dtype,
             const std::vector<std::uint64_t>& shape, std::shared_ptr<const ComputedMatrix> values) {
    TensorEntry made;
    made.name = codes.name;
    made.dtype = dtype;
    made.shape = shape;
    made.input = codes.input;
    const Result<std::uint64_t> bytes = tensor_byte_size(dtype, shape);
    if (!bytes.ok()) return tensor_failure(codes.name, bytes.failure().message);
    made.bytes = made.place.decoded = bytes.value();
    made.place.offset = codes.place.offset;
    made.place.stored = stored;
    made.place.coding = StorageCoding::kComputed;
    made.place.computed = std::move(values);
    results_.insert(std::string(dtype_name(dtype)));
    ++made_;
    model_.tensors.push_back(std::move(made));
    return {};
  }

  Status check_map(const std::string& name, FourBits kind) {
    const auto map = needed(name, DType::kF32, 16);
    if (!map.ok()) return map.failure();
    std::array<float, 16> stored{};
    const TensorEntry& tensor = *map.value();
    if (Status read =
            files_[tensor.input].read(tensor.place.offset, std::as_writable_bytes(std::span(stored)));
        !read.ok())
      return read;
    const std::span<const float, 16> meant = values_of(kind);
    for (std::size_t i = 0; i < stored.size(); ++i)
      if (!(std::abs(stored[i] - meant[i]) <= kTableDifference))
        return tensor_failure(name, "it is damaged: value " + std::to_string(i) + " is " +
                                        number_text(stored[i]) + ", expected " + number_text(meant[i]));
    return {};
  }

  /// Whether all bytes of a tensor, but for the last `but`, are the same, and `value` where that is given.
  Result<bool> is_one_byte(const TensorEntry& tensor, std::optional<std::byte> value,
                           std::uint64_t but = 0) const {
    constexpr std::uint64_t kPiece = 1 << 16;
    std::vector<std::byte> piece;
    for (std::uint64_t at = 0; at < tensor.bytes - but; at += piece.size()) {
      piece.resize(std::min(kPiece, tensor.bytes - but - at));
      if (Status read = files_[tensor.input].read(tensor.place.offset + at, piece); !read.ok())
        return read.failure();
      if (!value) value = piece.front();
      if (std::ranges::any_of(piece, [&](std::byte byte) { return byte != *value; })) return false;
    }
    return true;
  }

  /// An absmax of zeros is that of a weight of zeros, whose codes are all the same. Its bytes are zeros, too,
  /// where all blocks have one absmax, `offset`: then there is nothing that they scale. `is_odd`: half of the
  /// last byte of the codes is none of them.
  Status check_absmax(const TensorEntry& absmax, const TensorEntry* nested, float offset,
                      const TensorEntry& codes, bool is_odd) const {
    const Result<bool> bytes = is_one_byte(absmax, std::byte{0});
    if (!bytes.ok()) return bytes.failure();
    bool is_zero = bytes.value();
    if (nested != nullptr) {
      const Result<bool> scales = is_one_byte(*nested, std::byte{0});
      if (!scales.ok()) return scales.failure();
      is_zero = scales.value() ? offset == 0 : is_zero;
    }
    if (!is_zero) return {};
    const Result<bool> is_same = is_one_byte(codes, std::nullopt, is_odd ? 1 : 0);
    if (!is_same.ok()) return is_same.failure();
    if (is_same.value()) return {};
    return tensor_failure(absmax.name, "it is damaged: it is nothing but zeros, and the codes of " +
                                           quote_text(codes.name) + " differ");
  }

  const std::vector<TensorEntry>& tensors_;
  const std::vector<InputFile>& files_;
  std::vector<std::shared_ptr<const InputFile>> shared_;
  std::map<std::string_view, const TensorEntry*> by_name_;
  std::set<const TensorEntry*> taken_;
  std::set<std::string> kinds_, results_;
  std::uint64_t made_ = 0;
  DequantizedModel model_;
};

}  // namespace

bool is_of_bitsandbytes(const std::vector<TensorEntry>& tensors) {
  return std::ranges::any_of(
      tensors, [](const TensorEntry& tensor) { return tensor.name.find(kState) != std::string::npos; });
}

Result<DequantizedModel> bitsandbytes_model(const std::vector<TensorEntry>& tensors,
                                            const std::vector<InputFile>& files) {
  Result<DequantizedModel> made = BitsandbytesMaker(tensors, files).make();
  if (made.ok()) return made;
  return Failure{"bitsandbytes: " + made.failure().message};
}

}  // namespace crumb
