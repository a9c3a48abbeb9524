#include "export/compressed_tensors/scheme.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files/text.h"
#include "quant/quant_spec.h"

namespace crumb::exporting::compressed_tensors {
namespace {

/// The largest divisor of `count` that is not above `size`.
std::uint64_t divisor_below(std::uint64_t count, std::uint64_t size) {
  while (size > 1 && count % size != 0) --size;
  return std::max<std::uint64_t>(size, 1);
}

/// The spec with another number format, and without what that has not.
std::string with_number(QuantSpec spec, const std::string& name) {
  spec.number = find_number_format(name);
  spec.block_format = nullptr;
  spec.zero = ZeroPoint::kNone;
  spec.range = spec.number->default_range();
  if (spec.scale == ScaleFormat::kE8M0 || spec.scale == ScaleFormat::kE4M3) spec.scale = ScaleFormat::kF16;
  if (spec.search != Search::kMse && spec.search != Search::kPercentile) spec.search = Search::kAbsmax;
  return spec.to_string();
}

std::string nearest_integer(const QuantSpec& spec) {
  return with_number(spec, "int" + std::to_string(std::max(2, spec.number->bits)));
}

/// The nearest spec to one whose numbers have no form.
std::string nearest_number(const QuantSpec& spec) {
  const NumberFormat& number = *spec.number;
  if (number.grid != Grid::kMinifloat) return nearest_integer(spec);
  if (number.bits == 8) return spec.scale == ScaleFormat::kE8M0 ? "mxfp8_e4m3" : with_number(spec, "e4m3fn");
  if (number.bits == 6) return "mxfp6_e2m3";
  return number.bits == 4 ? "mxfp4" : nearest_integer(spec);
}

Failure no_form(const std::string& why, const std::string& nearest) {
  return Failure{why + "; the nearest that has a form is " + nearest};
}

/// Which blocks share a scale, in the words of compressed-tensors.
Result<Scheme> strategy_of(const PackedTensor& tensor, const QuantSpec& spec) {
  const Encoding& encoding = *tensor.encoding;
  const EncodedLayout layout = encoded_layout(encoding, tensor.shape).take();
  const std::uint64_t rows = layout.matrix.rows, cols = layout.matrix.cols;
  Scheme scheme;
  if (encoding.block_rows >= rows && encoding.block_cols >= cols && rows > 1) {
    scheme.strategy = "tensor";
  } else if (encoding.block_rows > 1) {
    scheme.strategy = "block";
    scheme.block_rows = encoding.block_rows;
    scheme.block_cols = std::min(encoding.block_cols, cols);
  } else if (encoding.block_cols >= cols) {
    scheme.strategy = "channel";
  } else {
    if (cols % encoding.block_cols != 0) {
      QuantSpec nearest = spec;
      nearest.pad = false;
      nearest.block_cols = divisor_below(cols, encoding.block_cols);
      return no_form("groups of " + std::to_string(encoding.block_cols) + " do not divide its rows of " +
                         std::to_string(cols),
                     spec.block_format ? nearest_integer(nearest) : nearest.to_string());
    }
    scheme.strategy = "group";
    scheme.group = encoding.block_cols;
  }
  return scheme;
}

/// Integers, half-integers and the two smallest formats: whole numbers after doubling.
Result<StoredForm> integer_form(const PackedTensor& tensor, const QuantSpec& spec, Scheme scheme,
                                bool is_embedding) {
  const NumberFormat& number = *tensor.encoding->number;
  const bool halves = number.grid == Grid::kHalfInteger;
  const bool has_zeros = tensor.encoding->zero != ZeroPoint::kNone;
  const bool is_unsigned = number.grid == Grid::kInteger && !number.is_signed;
  StoredForm form;
  // Kernels of other tools know four bits and eight, so that halves take four where they fit.
  scheme.bits = halves                     ? std::max(4, number.bits + 1)
                : has_zeros || is_unsigned ? number.bits + 1
                                           : std::max(2, number.bits);
  const bool stores_zeros = scheme.bits > 8 && !halves;
  if (stores_zeros && scheme.strategy == "block")
    return no_form("blocks of rows and columns have no zero points there", nearest_integer(spec));
  form.takes_zero_points = has_zeros && !stores_zeros;
  form.zero_offset = stores_zeros && is_unsigned ? -128 : 0;
  if (is_embedding || stores_zeros) scheme.bits = 8;
  scheme.format = is_embedding || stores_zeros ? "int-quantized" : "pack-quantized";
  scheme.symmetric = !stores_zeros;
  form.scale_factor = halves ? 0.5F : 1.0F;
  form.code_offset = scheme.is_packed_integer() ? 1 << (scheme.bits - 1) : 0;
  const std::array<float, 256> values = value_table(number);
  for (std::size_t pattern = 0; pattern < std::size_t{1} << number.bits; ++pattern)
    form.codes[pattern] = static_cast<int>(values[pattern] * (halves ? 2.0F : 1.0F)) + form.zero_offset;
  form.scheme = std::move(scheme);
  return form;
}

/// A format that keeps patterns as they are.
StoredForm float_form(Scheme scheme, const std::string& format, int bits) {
  StoredForm form;
  scheme.format = format;
  scheme.bits = bits;
  scheme.is_float = true;
  for (int pattern = 0; pattern < 256; ++pattern) form.codes[static_cast<std::size_t>(pattern)] = pattern;
  form.scheme = std::move(scheme);
  return form;
}

bool is_power_of_two(float value) {
  int exponent = 0;
  return value > 0 && std::frexp(value, &exponent) == 0.5F && exponent > -120 && exponent < 120;
}

Result<StoredForm> minifloat_form(const Encoding& encoding, const QuantSpec& spec, const Scheme& scheme,
                                  float tensor_scale, bool allow_approximate) {
  const std::string_view name = encoding.number->name;
  const bool plain = !encoding.tensor_scale && encoding.scale_exponent == 0;
  const bool is_mx = plain && encoding.scale == ScaleFormat::kE8M0 && scheme.group == 32;
  if (is_mx && name == "e2m1") return float_form(scheme, "mxfp4-pack-quantized", 4);
  if (is_mx && name == "e2m3") return float_form(scheme, "mxfp6-pack-quantized", 6);
  if (is_mx && name == "e4m3fn") return float_form(scheme, "mxfp8-quantized", 8);
  if (name == "e4m3fn") return float_form(scheme, "float-quantized", 8);
  if (name == "e2m1" && encoding.tensor_scale && encoding.scale == ScaleFormat::kE4M3 && scheme.group == 16) {
    StoredForm form = float_form(scheme, "nvfp4-pack-quantized", 4);
    form.scheme.strategy = "tensor_group";
    form.is_approximate = !is_power_of_two(tensor_scale);
    if (!form.is_approximate || allow_approximate) return form;
    return no_form(
        "its library divides by the tensor's scale and rounds to bfloat16, which gives other numbers "
        "unless that is a power of two (--allow-approximate takes them)",
        "mxfp4");
  }
  return no_form("it has no numbers of " + std::string(name) + " with such scales", nearest_number(spec));
}

}  // namespace

Result<StoredForm> stored_form(const PackedTensor& tensor, float tensor_scale, bool is_embedding,
                               bool allow_approximate) {
  const Encoding& encoding = *tensor.encoding;
  const QuantSpec spec = QuantSpec::parse(tensor.spec);
  if (encoding.zero == ZeroPoint::kFloat || encoding.zero == ZeroPoint::kMinimum) {
    QuantSpec nearest = spec;
    nearest.zero = ZeroPoint::kInteger;
    return no_form(encoding.zero == ZeroPoint::kFloat ? "its zero points are no whole numbers"
                                                      : "a minimum is added to its values",
                   nearest.to_string());
  }
  Result<Scheme> scheme = strategy_of(tensor, spec);
  if (!scheme.ok()) return scheme.failure();
  switch (encoding.number->grid) {
    case Grid::kInteger:
    case Grid::kHalfInteger:
    case Grid::kBinary: return integer_form(tensor, spec, std::move(scheme.value()), is_embedding);
    case Grid::kMinifloat:
      return minifloat_form(encoding, spec, scheme.value(), tensor_scale, allow_approximate);
    case Grid::kCodebook:
    case Grid::kExponent: break;
  }
  return no_form("it has no codebooks", nearest_number(spec));
}

nlohmann::json config_group(const Scheme& scheme, const std::vector<std::string>& targets) {
  nlohmann::json weights = {{"num_bits", scheme.bits},
                            {"type", scheme.is_float ? "float" : "int"},
                            {"symmetric", scheme.symmetric},
                            {"strategy", scheme.strategy},
                            {"group_size", scheme.group > 0 ? nlohmann::json(scheme.group) : nullptr},
                            {"dynamic", false}};
  if (scheme.strategy == "block") weights["block_structure"] = {scheme.block_rows, scheme.block_cols};
  return {{"targets", targets},
          {"format", scheme.format},
          {"weights", std::move(weights)},
          {"input_activations", nullptr},
          {"output_activations", nullptr}};
}

}  // namespace crumb::exporting::compressed_tensors
