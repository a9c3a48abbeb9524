// compressed-tensors: config_groups say the schemes, shapes and types which of them a layer has.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "formats/checkpoint/quantized/schemes.h"

namespace crumb::quantized {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 8> kFormats = {
    "pack-quantized",       "int-quantized",        "float-quantized",      "naive-quantized",
    "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp6-pack-quantized", "mxfp8-quantized"};

constexpr std::array<std::string_view, 7> kStrategies = {"tensor",       "channel", "group",    "block",
                                                         "tensor_group", "token",   "attn_head"};

/// One group of the configuration.
struct Scheme {
  std::string name;    ///< "group_0"
  std::string format;  ///< of kFormats
  std::vector<std::string> targets;
  unsigned bits = 8;
  bool is_float = false, symmetric = true;
  std::string strategy;  ///< tensor, channel, group, block, tensor_group
  std::uint64_t group = 0;
  std::uint64_t block_rows = 0, block_cols = 0;
};

/// The words that codes of 3, 5, 6 and 7 bits took before version 0.17 (quantized_matrix.h, kWords).
std::uint64_t old_words(std::uint64_t count, unsigned bits) { return (count + 32 / bits - 1) / (32 / bits); }

/// Whether a version is before 0.17; nothing where it is not said.
std::optional<bool> is_old(std::string_view version) {
  unsigned major = 0, minor = 0;
  const char* const end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return std::nullopt;
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc()) return std::nullopt;
  return major == 0 && minor < 17;
}

Result<std::vector<std::string>> target_list(const json& group) {
  const auto found = group.find("targets");
  if (found == group.end() || !found->is_array()) return Failure{"its targets are no list"};
  std::vector<std::string> targets;
  for (const json& target : *found) {
    if (!target.is_string()) return Failure{"one of its targets is no string"};
    targets.push_back(target.get<std::string>());
  }
  return targets;
}

Status read_block(const json& weights, Scheme& scheme) {
  const auto found = weights.find("block_structure");
  const bool good = found != weights.end() && found->is_array() && found->size() == 2 &&
                    std::ranges::all_of(*found, [](const json& size) {
                      return size.is_number_unsigned() && size.get<std::uint64_t>() > 0;
                    });
  if (!good) return Failure{"block_structure is no list of two sizes"};
  scheme.block_rows = (*found)[0].get<std::uint64_t>();
  scheme.block_cols = (*found)[1].get<std::uint64_t>();
  return {};
}

Status read_weights(const json& weights, Scheme& scheme) {
  const Result<std::int64_t> bits = integer_of(weights, "num_bits", 8);
  if (!bits.ok()) return bits.failure();
  if (bits.value() < 1 || bits.value() > 8)
    return Failure{"weights of " + std::to_string(bits.value()) + " bits are not read, expected 1 to 8"};
  scheme.bits = static_cast<unsigned>(bits.value());
  const Result<std::string> type = text_of(weights, "type", "int");
  if (!type.ok()) return type.failure();
  if (type.value() != "int" && type.value() != "float")
    return Failure{"type is " + quote_text(type.value()) + ", expected int or float"};
  scheme.is_float = type.value() == "float";
  const Result<bool> symmetric = flag_of(weights, "symmetric", true);
  if (!symmetric.ok()) return symmetric.failure();
  scheme.symmetric = symmetric.value();
  const Result<std::int64_t> group = integer_of(weights, "group_size", 0);
  if (!group.ok()) return group.failure();
  const Result<std::string> strategy = text_of(weights, "strategy",
                                               group.value() > 0     ? "group"
                                               : group.value() == -1 ? "channel"
                                                                     : "tensor");
  if (!strategy.ok()) return strategy.failure();
  scheme.strategy = strategy.value();
  if (std::ranges::find(kStrategies.begin(), kStrategies.begin() + 5, scheme.strategy) ==
      kStrategies.begin() + 5)
    return Failure{"the strategy " + quote_text(scheme.strategy) +
                   " is not read; read are tensor, channel, group, block and tensor_group"};
  if (scheme.strategy == "group" || scheme.strategy == "tensor_group") {
    if (group.value() <= 0) return Failure{"group_size is " + std::to_string(group.value())};
    scheme.group = static_cast<std::uint64_t>(group.value());
  }
  if (scheme.strategy == "block") return read_block(weights, scheme);
  return {};
}

class CompressedTensors final : public Method {
 public:
  CompressedTensors(std::vector<Scheme> schemes, std::optional<bool> old)
      : schemes_(std::move(schemes)), old_(old) {
    std::vector<std::string> formats;
    for (const Scheme& scheme : schemes_)
      if (std::ranges::find(formats, scheme.format) == formats.end()) formats.push_back(scheme.format);
    reading_.method = "compressed-tensors (";
    for (std::size_t i = 0; i < formats.size(); ++i) reading_.method += (i > 0 ? ", " : "") + formats[i];
    reading_.method += ')';
    reading_.codes = {"weight_packed", "weight"};
    reading_.taken = {"weight_packed",     "weight",       "weight_scale",       "weight_shape",
                      "weight_zero_point", "weight_g_idx", "weight_global_scale"};
    for (const char* of : {"input", "output", "q", "k", "v"})
      for (const char* what : {"_scale", "_zero_point", "_global_scale"})
        reading_.others.push_back(std::string(of) + what);
  }

  const Reading& reading() const override { return reading_; }

  Result<Decoding> decode(const Module& module, const std::vector<InputFile>& files) const override {
    const bool packed = module.find("weight_packed") != nullptr;
    if (packed && module.find("weight") != nullptr)
      return tensor_failure(module.name + ".weight", "there is a weight_packed, too");
    std::vector<const Scheme*> schemes = named(module.name);
    const bool by_name = !schemes.empty();
    if (!by_name)
      for (const Scheme& scheme : schemes_) schemes.push_back(&scheme);
    std::optional<Decoding> found;
    std::string why;
    for (const Scheme* scheme : schemes) {
      Result<Decoding> decoding = decode_as(*scheme, module, files);
      if (!decoding.ok()) {
        if (why.empty()) why = decoding.failure().message;
        continue;
      }
      if (found && !(found->layout == decoding.value().layout))
        return tensor_failure(module.name + (packed ? ".weight_packed" : ".weight"),
                              "several of the configuration's groups fit it, and say different things of it");
      found = std::move(decoding.value());
    }
    if (found) return *std::move(found);
    return Failure{schemes.size() == 1 ? why : why + " (nor does another of config_groups fit)"};
  }

 private:
  /// Those that name the layer itself.
  std::vector<const Scheme*> named(const std::string& module) const {
    std::vector<const Scheme*> schemes;
    for (const Scheme& scheme : schemes_)
      if (std::ranges::find(scheme.targets, module) != scheme.targets.end()) schemes.push_back(&scheme);
    return schemes;
  }

  Result<Decoding> decode_as(const Scheme& scheme, const Module& module,
                             const std::vector<InputFile>& files) const {
    Decoding decoding;
    QuantizedLayout& layout = decoding.layout;
    decoding.scales = "weight_scale";
    Status read = Failure{"group " + quote_text(scheme.name) + ": no format " + scheme.format};
    if (scheme.format == "pack-quantized") {
      read = read_packed(scheme, module, files, decoding);
    } else if (scheme.format.ends_with("-pack-quantized")) {
      read = read_packed_floats(scheme, module, decoding);
    } else {
      read = read_plain(scheme, module, decoding);
    }
    if (!read.ok()) return read.failure();
    if (Status scales = read_scales(scheme, module, layout); !scales.ok()) return scales.failure();
    if (Status zeros = read_zeros(scheme, module, decoding); !zeros.ok()) return zeros.failure();
    if (Status index = read_index(module, files, decoding); !index.ok()) return index.failure();
    return decoding;
  }

  Status read_packed(const Scheme& scheme, const Module& module, const std::vector<InputFile>& files,
                     Decoding& decoding) const {
    QuantizedLayout& layout = decoding.layout;
    if (scheme.is_float) return Failure{"pack-quantized weights are floats, expected integers"};
    const auto codes = needed(module, "weight_packed", {DType::kI32}, 2);
    if (!codes.ok()) return codes.failure();
    const auto shape = needed(module, "weight_shape", {DType::kI64, DType::kI32}, 1);
    if (!shape.ok()) return shape.failure();
    const std::string name = module.name + ".weight_shape";
    if (shape.value()->shape[0] != 2)
      return tensor_failure(name, "it has " + shape_text(shape.value()->shape));
    std::array<std::uint64_t, 2> sizes{};
    const std::size_t bytes = dtype_bits(shape.value()->dtype) / 8;
    std::array<std::byte, 16> stored{};
    if (Status read =
            files[shape.value()->input].read(shape.value()->place.offset, std::span(stored).first(2 * bytes));
        !read.ok())
      return read;
    for (std::size_t i = 0; i < 2; ++i) std::memcpy(&sizes[i], stored.data() + i * bytes, bytes);
    const std::uint64_t words = codes.value()->shape[1];
    const checked::Size bits = checked::multiply(sizes[1], scheme.bits);
    const checked::Size dense = bits ? checked::add(*bits, 31) : checked::Size();
    const bool rows_fit = sizes[0] == codes.value()->shape[0];
    const bool is_dense = rows_fit && dense && *dense / 32 == words;
    const bool has_gaps = 32 % scheme.bits != 0;
    const bool is_sparse = rows_fit && has_gaps && dense && old_words(sizes[1], scheme.bits) == words;
    if (!is_dense && !is_sparse)
      return tensor_failure(module.name + ".weight_packed",
                            "it is " + found_text(*codes.value()) + ", but weight_shape says " +
                                shape_text(sizes) + " of " + std::to_string(scheme.bits) + " bits");
    layout.rows = sizes[0];
    layout.cols = sizes[1];
    layout.bits = scheme.bits;
    layout.codes =
        is_sparse && (!is_dense || old_.value_or(false)) ? CodePlacement::kWords : CodePlacement::kRows;
    layout.row_bytes = words * 4;
    layout.meaning = CodeMeaning::kOffset;
    decoding.codes = "weight_packed";
    return {};
  }

  Status read_packed_floats(const Scheme& scheme, const Module& module, Decoding& decoding) const {
    QuantizedLayout& layout = decoding.layout;
    const bool six = scheme.format == "mxfp6-pack-quantized";
    const auto codes = needed(module, "weight_packed", {DType::kU8}, 2);
    if (!codes.ok()) return codes.failure();
    layout.rows = codes.value()->shape[0];
    layout.row_bytes = codes.value()->shape[1];
    layout.bits = six ? 6 : 4;
    const checked::Size cols = checked::multiply(layout.row_bytes, 8);
    if (!cols || *cols % layout.bits != 0)
      return tensor_failure(module.name + ".weight_packed", "it is " + found_text(*codes.value()) +
                                                                ", which is no whole number of codes a row");
    layout.cols = *cols / layout.bits;
    layout.meaning = six ? CodeMeaning::kE2M3 : CodeMeaning::kE2M1;
    if (!scheme.symmetric) return Failure{scheme.format + " with zero points is not read"};
    layout.has_global = scheme.format == "nvfp4-pack-quantized";
    decoding.codes = "weight_packed";
    if (layout.has_global) {
      const auto global = needed(module, "weight_global_scale", {DType::kF32}, 1);
      if (!global.ok()) return global.failure();
      if (global.value()->shape[0] != 1)
        return tensor_failure(module.name + ".weight_global_scale",
                              "its shape is " + shape_text(global.value()->shape) + ", expected [1]");
      decoding.global = "weight_global_scale";
    } else if (module.find("weight_global_scale") != nullptr) {
      return tensor_failure(module.name + ".weight_global_scale",
                            "the format " + scheme.format + " has none");
    }
    return {};
  }

  Status read_plain(const Scheme& scheme, const Module& module, Decoding& decoding) const {
    QuantizedLayout& layout = decoding.layout;
    const auto codes = scheme.is_float ? needed(module, "weight", {DType::kF8E4M3}, 2)
                                       : needed(module, "weight", {DType::kI8}, 2);
    if (!codes.ok()) return codes.failure();
    layout.rows = codes.value()->shape[0];
    layout.cols = layout.row_bytes = codes.value()->shape[1];
    layout.bits = 8;
    layout.meaning = scheme.is_float ? CodeMeaning::kE4M3 : CodeMeaning::kSigned;
    decoding.codes = "weight";
    return {};
  }

  Status read_scales(const Scheme& scheme, const Module& module, QuantizedLayout& layout) const {
    const bool is_mx = scheme.format.starts_with("mxfp");
    const std::string name = module.name + ".weight_scale";
    const TensorEntry* const found = module.find("weight_scale");
    const std::size_t axes = found != nullptr && found->shape.size() < 2 ? found->shape.size() : 2;
    const auto scales = is_mx ? needed(module, "weight_scale", {DType::kU8}, axes)
                        : layout.has_global
                            ? needed(module, "weight_scale", {DType::kF8E4M3}, axes)
                            : needed(module, "weight_scale", {DType::kF32, DType::kF16, DType::kBF16}, axes);
    if (!scales.ok()) return scales.failure();
    layout.scale = scales.value()->dtype;
    layout.result = is_mx || layout.has_global ? DType::kBF16 : layout.scale;
    std::vector<std::uint64_t> expected;
    if (scheme.strategy == "tensor") {
      layout.scale_rows = std::max<std::uint64_t>(layout.rows, 1);
      layout.group = std::max<std::uint64_t>(layout.cols, 1);
      expected = std::vector<std::uint64_t>(axes, 1);
    } else if (scheme.strategy == "block") {
      layout.scale_rows = scheme.block_rows;
      layout.group = scheme.block_cols;
      layout.groups = groups_of(layout.cols, layout.group);
      expected = {groups_of(layout.rows, layout.scale_rows), layout.groups};
    } else {
      layout.group = scheme.strategy == "channel" ? std::max<std::uint64_t>(layout.cols, 1) : scheme.group;
      if (layout.cols % layout.group != 0)
        return tensor_failure(name, "groups of " + std::to_string(layout.group) + " do not divide " +
                                        std::to_string(layout.cols) + " columns");
      layout.groups = layout.cols / layout.group;
      expected = {layout.rows, layout.groups};
    }
    if (scales.value()->shape == expected) return {};
    return tensor_failure(name, "its shape is " + shape_text(scales.value()->shape) + ", expected " +
                                    shape_text(expected) + " (strategy " + scheme.strategy + ")");
  }

  Status read_zeros(const Scheme& scheme, const Module& module, Decoding& decoding) const {
    QuantizedLayout& layout = decoding.layout;
    const std::string name = module.name + ".weight_zero_point";
    const TensorEntry* const found = module.find("weight_zero_point");
    if (scheme.symmetric) {
      if (found == nullptr) return {};
      // Of plain codes the library takes one that is there all the same.
      if (layout.meaning != CodeMeaning::kSigned)
        return tensor_failure(name, "the configuration says that there is none (symmetric)");
    }
    if (scheme.is_float) return Failure{scheme.format + " with zero points is not read"};
    const bool packed = layout.meaning == CodeMeaning::kOffset &&
                        (scheme.strategy == "group" || scheme.strategy == "channel");
    decoding.zeros = "weight_zero_point";
    if (packed) {
      layout.zeros = ZeroPlacement::kDown;
      const auto zeros = needed(module, "weight_zero_point", {DType::kI32}, 2);
      if (!zeros.ok()) return zeros.failure();
      const checked::Size bits = checked::add(checked::multiply(layout.rows, layout.bits), 31);
      if (!bits) return tensor_failure(name, "its shape overflows");
      const std::vector<std::uint64_t> expected = {*bits / 32, layout.groups};
      if (zeros.value()->shape == expected) return {};
      return tensor_failure(
          name, "its shape is " + shape_text(zeros.value()->shape) + ", expected " + shape_text(expected));
    }
    layout.zeros = ZeroPlacement::kBytes;
    const std::vector<std::uint64_t>& scales = module.find("weight_scale")->shape;
    const auto zeros = needed(module, "weight_zero_point", {DType::kI8}, scales.size());
    if (!zeros.ok()) return zeros.failure();
    if (zeros.value()->shape == scales) return {};
    return tensor_failure(
        name, "its shape is " + shape_text(zeros.value()->shape) + ", expected " + shape_text(scales));
  }

  /// Columns in groups by an index ("actorder": "group", until 2026). One that was never set is -1.
  Status read_index(const Module& module, const std::vector<InputFile>& files, Decoding& decoding) const {
    if (module.find("weight_g_idx") == nullptr) return {};
    const auto index = needed(module, "weight_g_idx", {DType::kI32}, 1);
    if (!index.ok()) return index.failure();
    const std::string name = module.name + ".weight_g_idx";
    if (index.value()->shape[0] != decoding.layout.cols)
      return tensor_failure(name, "its shape is " + shape_text(index.value()->shape) + ", expected [" +
                                      std::to_string(decoding.layout.cols) + "]");
    if (decoding.layout.cols == 0) return {};
    std::int32_t first = 0;
    if (Status read = files[index.value()->input].read(index.value()->place.offset,
                                                       std::as_writable_bytes(std::span(&first, 1)));
        !read.ok())
      return read;
    if (first == -1) return {};
    decoding.layout.has_index = true;
    decoding.index = "weight_g_idx";
    return {};
  }

  std::vector<Scheme> schemes_;
  std::optional<bool> old_;
  Reading reading_;
};

/// A section that may be there as long as it says nothing.
Status refuse_section(const json& config, const char* key, const char* harmless) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null() || (found->is_object() && found->empty())) return {};
  const auto format = found->is_object() ? found->find("format") : found->end();
  if (found->is_object() && format != found->end() && *format == harmless) return {};
  return Failure{"compressed-tensors with a " + std::string(key) + " is not read"};
}

}  // namespace

Result<std::unique_ptr<Method>> compressed_tensors_method(const json& config) {
  if (Status none = refuse_section(config, "transform_config", ""); !none.ok()) return none.failure();
  if (Status none = refuse_section(config, "sparsity_config", "dense"); !none.ok()) return none.failure();
  const Result<std::string> format = text_of(config, "format", "");
  if (!format.ok()) return format.failure();
  const Result<std::string> version = text_of(config, "version", "");
  if (!version.ok()) return version.failure();
  const auto groups = config.find("config_groups");
  if (groups == config.end() || !groups->is_object() || groups->empty())
    return Failure{"its quantization_config has no config_groups"};
  std::vector<Scheme> schemes;
  for (const auto& [name, group] : groups->items()) {
    const auto fail = [&, &key = name](const std::string& why) {
      return Failure{"config_groups, " + quote_text(key) + ": " + why};
    };
    if (!group.is_object()) return fail("it is no object (names of presets are not read)");
    const auto weights = group.find("weights");
    if (weights == group.end() || weights->is_null()) continue;  // quantizers of activations alone
    if (!weights->is_object()) return fail("weights is no object");
    Scheme scheme{.name = name};
    const Result<std::string> own = text_of(group, "format", format.value());
    if (!own.ok()) return fail(own.failure().message);
    scheme.format = own.value();
    if (std::ranges::find(kFormats, scheme.format) == kFormats.end()) {
      std::string known;
      for (const std::string_view one : kFormats) known += (known.empty() ? "" : ", ") + std::string(one);
      return Failure{"the format " + quote_text(scheme.format) +
                     " of compressed-tensors is not read; read are " + known};
    }
    Result<std::vector<std::string>> targets = target_list(group);
    if (!targets.ok()) return fail(targets.failure().message);
    scheme.targets = std::move(targets.value());
    if (Status read = read_weights(*weights, scheme); !read.ok()) return fail(read.failure().message);
    schemes.push_back(std::move(scheme));
  }
  if (schemes.empty()) return Failure{"its config_groups quantize no weights"};
  return std::unique_ptr<Method>(
      std::make_unique<CompressedTensors>(std::move(schemes), is_old(version.value())));
}

Result<std::string> text_of(const json& object, const char* key, const std::string& fallback) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  if (!found->is_string()) return Failure{std::string(key) + " is no string"};
  return found->get<std::string>();
}

Result<std::int64_t> integer_of(const json& object, const char* key, std::int64_t fallback) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  const bool fits = found->is_number_integer() &&
                    (!found->is_number_unsigned() || found->get<std::uint64_t>() <= std::uint64_t{1} << 62);
  if (!fits) return Failure{std::string(key) + " is no integer"};
  return found->get<std::int64_t>();
}

Result<bool> flag_of(const json& object, const char* key, bool fallback) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  if (!found->is_boolean()) return Failure{std::string(key) + " is neither true nor false"};
  return found->get<bool>();
}

}  // namespace crumb::quantized
