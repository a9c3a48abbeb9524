// GPTQ, AWQ and AutoRound folders: bits, groups and outputs follow from the shapes; the configuration says
// which layout.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "formats/checkpoint/quantized/schemes.h"

namespace crumb::quantized {
namespace {

constexpr std::initializer_list<DType> kWords = {DType::kI32, DType::kU32};
constexpr std::initializer_list<DType> kScales = {DType::kF16, DType::kBF16, DType::kF32};

/// The quotient, or nothing where it is no whole number.
checked::Size exact_quotient(checked::Size of, std::uint64_t by) {
  return of && by != 0 && *of % by == 0 ? checked::Size(*of / by) : checked::Size();
}

Status expect_shape(const Module& module, std::string_view part, const TensorEntry& tensor,
                    std::initializer_list<std::uint64_t> shape) {
  const std::vector<std::uint64_t> expected(shape);
  if (tensor.shape == expected) return {};
  return tensor_failure(module.name + "." + std::string(part),
                        "its shape is " + shape_text(tensor.shape) + ", expected " + shape_text(expected));
}

/// What both formats have of a matrix.
struct Operands {
  const TensorEntry *codes, *zeros, *scales;
};

Result<Operands> operands_of(const Module& module) {
  const auto codes = needed(module, "qweight", kWords, 2);
  if (!codes.ok()) return codes.failure();
  const auto zeros = needed(module, "qzeros", kWords, 2);
  if (!zeros.ok()) return zeros.failure();
  const auto scales = needed(module, "scales", kScales, 2);
  if (!scales.ok()) return scales.failure();
  return Operands{codes.value(), zeros.value(), scales.value()};
}

constexpr std::int64_t kGptqWidths[] = {2, 3, 4, 8}, kAutoRoundWidths[] = {2, 3, 4, 5, 6, 7, 8};

bool is_any_of(std::int64_t bits, std::span<const std::int64_t> widths) {
  return std::ranges::find(widths, bits) != widths.end();
}

/// "2, 3, 4 or 8".
std::string widths_text(std::span<const std::int64_t> widths, const std::string& last) {
  std::string text;
  for (const std::int64_t& width : widths)
    text += (text.empty() ? "" : &width == &widths.back() ? " " + last + " " : ", ") + std::to_string(width);
  return text;
}

std::string groups_text(std::int64_t group) {
  return group > 0 ? "groups of " + std::to_string(group) : "a group a row";
}

/// The group size where no index says the groups; -1 is the whole row.
Result<std::uint64_t> group_size(const Module& module, std::int64_t configured, std::uint64_t cols,
                                 std::uint64_t groups) {
  const std::uint64_t size =
      configured > 0 ? static_cast<std::uint64_t>(configured) : std::max<std::uint64_t>(cols, 1);
  if (groups > 0 && groups_of(cols, size) == groups) return size;
  // Layers of their own group size ("dynamic"): as long as it divides.
  if (groups > 0 && cols % groups == 0 && cols > 0) return cols / groups;
  return tensor_failure(module.name + ".scales", "it has " + std::to_string(groups) + " groups of " +
                                                     std::to_string(cols) +
                                                     " inputs, which no group size makes");
}

class Gptq final : public Method {
 public:
  /// `method`: "GPTQ (gptq", followed by what the configuration says of codes. `widths`: numbers of bits.
  Gptq(const std::string& method, ZeroPlacement zeros, std::span<const std::int64_t> widths,
       std::int64_t bits, std::int64_t group)
      : zeros_(zeros), widths_(widths), group_(group) {
    reading_ = {.method = method + ", " + std::to_string(bits) + " bits, " + groups_text(group) + ")",
                .codes = {"qweight"},
                .taken = {"qweight", "qzeros", "scales", "g_idx"}};
  }

  const Reading& reading() const override { return reading_; }

  Result<Decoding> decode(const Module& module, const std::vector<InputFile>&) const override {
    const Result<Operands> found = operands_of(module);
    if (!found.ok()) return found.failure();
    const auto& [codes, zeros, scales] = found.value();
    QuantizedLayout layout;
    layout.codes = CodePlacement::kColumns;
    layout.meaning = CodeMeaning::kUnsigned;
    layout.zeros = zeros_;
    layout.rows = codes->shape[1];
    layout.groups = scales->shape[0];
    // [G, N] scales and [G, N * bits / 32] zero points: the bits.
    const auto bits = exact_quotient(checked::multiply(zeros->shape[1], 32), layout.rows);
    if (!bits || *bits > 8 || !is_any_of(static_cast<std::int64_t>(*bits), widths_))
      return tensor_failure(module.name + ".qzeros",
                            "it is " + found_text(*zeros) + " beside " + std::to_string(layout.rows) +
                                " outputs, expected words for " + widths_text(widths_, "or") + " bits");
    layout.bits = static_cast<unsigned>(*bits);
    const auto cols = exact_quotient(checked::multiply(codes->shape[0], 32), *bits);
    if (!cols)
      return tensor_failure(
          module.name + ".qweight",
          "it is " + found_text(*codes) + ", expected whole rows of " + std::to_string(*bits) + "-bit codes");
    layout.cols = *cols;
    layout.row_bytes = layout.rows * 4;
    if (Status fits = expect_shape(module, "scales", *scales, {layout.groups, layout.rows}); !fits.ok())
      return fits.failure();
    if (Status fits = expect_shape(module, "qzeros", *zeros, {layout.groups, zeros->shape[1]}); !fits.ok())
      return fits.failure();
    layout.scale = layout.result = scales->dtype;
    layout.scale_columns = true;
    Decoding decoding{.codes = "qweight", .scales = "scales", .zeros = "qzeros"};
    if (module.find("g_idx") != nullptr) {
      const auto index = needed(module, "g_idx", kWords, 1);
      if (!index.ok()) return index.failure();
      if (Status fits = expect_shape(module, "g_idx", *index.value(), {layout.cols}); !fits.ok())
        return fits.failure();
      layout.has_index = true;
      decoding.index = "g_idx";
      if (layout.groups == 0 && layout.cols != 0)
        return tensor_failure(module.name + ".scales", "it is empty");
    } else {
      const Result<std::uint64_t> size = group_size(module, group_, layout.cols, layout.groups);
      if (!size.ok()) return size.failure();
      layout.group = size.value();
    }
    decoding.layout = layout;
    return decoding;
  }

 private:
  ZeroPlacement zeros_;
  std::span<const std::int64_t> widths_;
  std::int64_t group_;
  Reading reading_;
};

class Awq final : public Method {
 public:
  Awq(const std::string& method, std::int64_t group) : group_(group) {
    reading_ = {.method = method + ", 4 bits, " + groups_text(group) + ")",
                .codes = {"qweight"},
                .taken = {"qweight", "qzeros", "scales"}};
  }

  const Reading& reading() const override { return reading_; }

  Result<Decoding> decode(const Module& module, const std::vector<InputFile>&) const override {
    const Result<Operands> found = operands_of(module);
    if (!found.ok()) return found.failure();
    const auto& [codes, zeros, scales] = found.value();
    QuantizedLayout layout;
    layout.bits = 4;
    layout.codes = CodePlacement::kAwq;
    layout.meaning = CodeMeaning::kUnsigned;
    layout.zeros = ZeroPlacement::kAwq;
    layout.cols = codes->shape[0];
    layout.groups = scales->shape[0];
    const auto rows = checked::multiply(codes->shape[1], 8);
    if (!rows) return tensor_failure(module.name + ".qweight", "its shape overflows");
    layout.rows = *rows;
    layout.row_bytes = codes->shape[1] * 4;
    if (Status fits = expect_shape(module, "scales", *scales, {layout.groups, layout.rows}); !fits.ok())
      return fits.failure();
    if (Status fits = expect_shape(module, "qzeros", *zeros, {layout.groups, codes->shape[1]}); !fits.ok())
      return fits.failure();
    layout.scale = layout.result = scales->dtype;
    layout.scale_columns = true;
    const Result<std::uint64_t> size = group_size(module, group_, layout.cols, layout.groups);
    if (!size.ok()) return size.failure();
    layout.group = size.value();
    return Decoding{.layout = layout, .codes = "qweight", .scales = "scales", .zeros = "qzeros"};
  }

 private:
  std::int64_t group_;
  Reading reading_;
};

/// The group size of a configuration: more than 0, or -1.
Result<std::int64_t> configured_group(const nlohmann::json& config, std::int64_t fallback) {
  Result<std::int64_t> group = integer_of(config, "group_size", fallback);
  if (!group.ok()) return group;
  if (group.value() > 0 || group.value() == -1) return group;
  return Failure{"group_size is " + std::to_string(group.value()) + ", expected -1 or more than 0"};
}

/// The first of these keys that is there; old and new tools spell them differently.
Result<std::string> first_text(const nlohmann::json& config, std::initializer_list<const char*> keys,
                               const std::string& fallback) {
  for (const char* key : keys)
    if (const auto found = config.find(key); found != config.end() && !found->is_null())
      return text_of(config, key, fallback);
  return fallback;
}

}  // namespace

Result<std::unique_ptr<Method>> gptq_method(const nlohmann::json& config) {
  const Result<std::string> format = first_text(config, {"checkpoint_format", "format"}, "gptq");
  if (!format.ok()) return format.failure();
  if (format.value() != "gptq" && format.value() != "gptq_v2")
    return Failure{"GPTQ's checkpoint_format " + quote_text(format.value()) +
                   " is not read; read are gptq and gptq_v2"};
  const Result<std::string> packed = text_of(config, "pack_dtype", "int32");
  if (!packed.ok()) return packed.failure();
  if (packed.value() != "int32")
    return Failure{"GPTQ's pack_dtype " + quote_text(packed.value()) + " is not read, expected int32"};
  const Result<std::int64_t> bits = integer_of(config, "bits", 4);
  if (!bits.ok()) return bits.failure();
  if (!is_any_of(bits.value(), kGptqWidths))
    return Failure{"GPTQ of " + std::to_string(bits.value()) + " bits is not read; read are " +
                   widths_text(kGptqWidths, "and")};
  const Result<std::int64_t> group = configured_group(config, 128);
  if (!group.ok()) return group.failure();
  return std::unique_ptr<Method>(std::make_unique<Gptq>(
      "GPTQ (" + format.value(), format.value() == "gptq" ? ZeroPlacement::kGptq1 : ZeroPlacement::kGptq2,
      kGptqWidths, bits.value(), group.value()));
}

Result<std::unique_ptr<Method>> awq_method(const nlohmann::json& config) {
  const Result<std::string> version = first_text(config, {"version", "checkpoint_format", "format"}, "gemm");
  if (!version.ok()) return version.failure();
  std::string name = version.value();
  for (char& letter : name) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  if (name != "gemm")
    return Failure{"AWQ's version " + quote_text(version.value()) + " is not read, expected gemm"};
  const char* const key = config.contains("w_bit") ? "w_bit" : "bits";
  const Result<std::int64_t> bits = integer_of(config, key, 4);
  if (!bits.ok()) return bits.failure();
  if (bits.value() != 4)
    return Failure{"AWQ of " + std::to_string(bits.value()) + " bits is not read, expected 4"};
  const Result<std::int64_t> group = configured_group(config, 128);
  if (!group.ok()) return group.failure();
  return std::unique_ptr<Method>(std::make_unique<Awq>("AWQ (gemm", group.value()));
}

Result<std::unique_ptr<Method>> auto_round_method(const nlohmann::json& config) {
  for (const char* key : {"rotation_config", "super_bits", "super_group_size"})
    if (const auto found = config.find(key); found != config.end() && !found->is_null())
      return Failure{"AutoRound with " + std::string(key) + " is not read"};
  const Result<std::string> type = text_of(config, "data_type", "int");
  if (!type.ok()) return type.failure();
  if (type.value() != "int")
    return Failure{"AutoRound's data_type " + quote_text(type.value()) + " is not read, expected int"};
  if (!config.contains("packing_format") && config.contains("backend"))
    return Failure{"AutoRound's configuration has a backend and no packing_format, as before version 0.4"};
  const Result<std::string> found = text_of(config, "packing_format", "auto_round:auto_gptq");
  if (!found.ok()) return found.failure();
  const std::string& format = found.value();
  const Result<std::int64_t> bits = integer_of(config, "bits", 4);
  if (!bits.ok()) return bits.failure();
  const Result<std::int64_t> group = configured_group(config, 128);
  if (!group.ok()) return group.failure();
  if (format == "auto_round:auto_awq" || format == "auto_round:awq") {
    if (bits.value() != 4)
      return Failure{"AutoRound of " + std::to_string(bits.value()) + " bits with packing_format " +
                     quote_text(format) + " is not read, expected 4"};
    return std::unique_ptr<Method>(std::make_unique<Awq>("AutoRound (auto_awq", group.value()));
  }
  const bool less_one = format == "auto_round:auto_gptq" || format == "auto_round:gptq";
  if (!less_one && format != "auto_round" && format != "auto_round:gptqmodel")
    return Failure{"AutoRound's packing_format " + quote_text(format) +
                   " is not read; read are auto_round, auto_round:auto_gptq and auto_round:auto_awq"};
  if (!is_any_of(bits.value(), kAutoRoundWidths))
    return Failure{"AutoRound of " + std::to_string(bits.value()) + " bits is not read; read are 2 to 8"};
  return std::unique_ptr<Method>(
      std::make_unique<Gptq>(less_one ? "AutoRound (auto_gptq" : "AutoRound (auto_round",
                             less_one ? ZeroPlacement::kAutoRound : ZeroPlacement::kGptq2, kAutoRoundWidths,
                             bits.value(), group.value()));
}

}  // namespace crumb::quantized
