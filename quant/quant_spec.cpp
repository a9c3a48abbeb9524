#include "quant/quant_spec.h"

#include <algorithm>
#include <cstdio>

#include "base/files/counted.h"
#include "base/text/ascii_case.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"
#include "formats/dtype.h"

namespace crumb {
namespace {

constexpr std::string_view kKeys[] = {"scale", "search", "range", "zero", "round", "pad", "rotate"};
constexpr std::string_view kGranularityNames[] = {"tensor", "channel", "group", "block", "token"};

/// What a spec is for.
enum class Use : std::uint8_t { kWeights, kActivations, kCache };

/// Parses one spec; keeps the whole text for messages.
class SpecParser {
 public:
  SpecParser(std::string_view text, Use use) : text_(text), use_(use) {}

  QuantSpec parse() {
    if (text_.size() > 256) fail("a spec has at most 256 characters, found " + std::to_string(text_.size()));
    std::string_view rest = text_;
    parse_format(next_part(rest));
    while (rest_remains_) parse_part(next_part(rest));
    finish();
    return spec_;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    const bool whole = text_.size() <= 256;
    throw usage_error("spec '" + std::string(text_.substr(0, 256)) + (whole ? "': " : "...': ") + message);
  }

  std::string_view next_part(std::string_view& rest) {
    const size_t colon = rest.find(':');
    rest_remains_ = colon != std::string_view::npos;
    const std::string_view part = rest.substr(0, colon);
    rest = rest_remains_ ? rest.substr(colon + 1) : std::string_view();
    return part;
  }

  void parse_format(std::string_view name) {
    spec_.block_format = find_block_format(name);
    spec_.number = find_number_format(spec_.block_format ? spec_.block_format->element : name);
    if (!spec_.number || spec_.number->scale_only) {
      std::vector<std::string_view> names;
      for (const NumberFormat& f : number_formats()) {
        if (!f.scale_only) names.push_back(f.name);
      }
      for (const BlockFormat& f : kBlockFormats) names.push_back(f.name);
      fail(spec_.number ? std::string(name) + " is a scale format, expected a number format"
                        : unknown_name("number format", name, names));
    }
    spec_.range = spec_.number->default_range();
    if (use_ == Use::kActivations) spec_.granularity = Granularity::kTensor;
    if (use_ == Use::kCache) spec_.granularity = Granularity::kToken;
    if (spec_.block_format) {
      spec_.granularity = Granularity::kGroup;
      spec_.block_cols = spec_.block_format->block;
      spec_.scale = spec_.block_format->scale;
    }
    if (spec_.number->learned) spec_.search = Search::kKmeans;
  }

  void parse_part(std::string_view part) {
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const bool has_value = equals != std::string_view::npos;
    const std::string_view value = has_value ? part.substr(equals + 1) : std::string_view();
    if (std::ranges::find(kGranularityNames, key) != std::end(kGranularityNames)) {
      return parse_granularity(key, has_value, value);
    }
    if (std::ranges::find(kKeys, key) == std::end(kKeys)) {
      std::vector<std::string_view> names(std::begin(kGranularityNames), std::end(kGranularityNames));
      names.insert(names.end(), std::begin(kKeys), std::end(kKeys));
      fail(unknown_name("key", key, names));
    }
    if (std::ranges::find(seen_, key) != seen_.end()) fail("'" + std::string(key) + "' is given twice");
    seen_.push_back(key);
    const bool is_switch = key == "pad" || key == "rotate";
    if (!has_value && !is_switch) fail("'" + std::string(key) + "' needs a value, as in " + example(key));
    if (key == "scale") return parse_scale(value);
    if (key == "search") return parse_search(value);
    if (key == "round") return parse_round(value);
    if (key == "range") spec_.range = static_cast<Range>(choice("range", value, kRangeNames));
    if (key == "zero") spec_.zero = static_cast<ZeroPoint>(choice("zero point", value, kZeroPointNames));
    if (is_switch) {
      static constexpr std::string_view kNames[] = {"off", "on"};
      (key == "pad" ? spec_.pad : spec_.rotate) =
          !has_value || choice("value of " + std::string(key), value, kNames) == 1;
    }
  }

  static std::string example(std::string_view key) {
    if (key == "scale") return "scale=f16";
    if (key == "search") return "search=mse";
    if (key == "range") return "range=full";
    return key == "zero" ? "zero=int" : "round=floor";
  }

  template <class Names>
  size_t choice(std::string_view what, std::string_view value, const Names& names) const {
    const auto found = std::ranges::find(names, value);
    if (found == std::end(names)) fail(unknown_name(what, value, names));
    return static_cast<size_t>(found - std::begin(names));
  }

  void parse_granularity(std::string_view key, bool has_value, std::string_view value) {
    if (spec_.block_format) {
      fail(std::string(spec_.block_format->name) + " brings its own granularity (blocks of " +
           std::to_string(spec_.block_format->block) + "), found '" + std::string(key) + "'");
    }
    if (granularity_seen_) fail("the granularity is given twice");
    granularity_seen_ = true;
    spec_.granularity = static_cast<Granularity>(choice("granularity", key, kGranularityNames));
    const bool wants_value = key == "group" || key == "block";
    if (wants_value != has_value) {
      fail("'" + std::string(key) + (wants_value ? "' needs a size, as in " : "' takes no value, found '") +
           (wants_value ? (key == "group" ? "group=128" : "block=16x16") : std::string(value) + "'"));
    }
    if (key == "group") spec_.block_cols = size(value);
    if (key == "block") {
      const size_t x = value.find('x');
      if (x == std::string_view::npos)
        fail("block expects RxC as in block=16x16, found '" + std::string(value) + "'");
      spec_.block_rows = size(value.substr(0, x));
      spec_.block_cols = size(value.substr(x + 1));
    }
  }

  uint64_t size(std::string_view digits) const {
    const auto value = parse_number<uint64_t>(digits);
    if (!value || *value == 0 || *value > (1u << 30)) {
      fail("expected a size from 1 to 2^30, found '" + std::string(digits) + "'");
    }
    return *value;
  }

  void parse_scale(std::string_view value) {
    std::vector<std::string_view> names;
    for (const ScaleFormatRow& row : kScaleFormats) names.push_back(row.name);
    const auto format = static_cast<ScaleFormat>(choice("scale format", value, names));
    if (spec_.block_format && format != spec_.scale) {
      fail(std::string(spec_.block_format->name) + " stores its scales as " +
           std::string(scale_format_row(spec_.scale).name) + ", found scale=" + std::string(value));
    }
    spec_.scale = format;
    scale_seen_ = true;
  }

  void parse_search(std::string_view value) {
    const size_t equals = value.find('=');
    spec_.search = static_cast<Search>(choice("search", value.substr(0, equals), kSearchNames));
    if (equals == std::string_view::npos) return;
    const std::string_view digits = value.substr(equals + 1);
    if (spec_.search != Search::kPercentile) {
      fail("search=" + std::string(value.substr(0, equals)) + " takes no value");
    }
    const auto percentile = parse_number<double>(digits);
    if (!percentile || !(*percentile > 0 && *percentile <= 100)) {
      fail("expected a percentile above 0 and up to 100, found '" + std::string(digits) + "'");
    }
    spec_.percentile = *percentile;
  }

  void parse_round(std::string_view value) {
    const size_t equals = value.find('=');
    std::vector<std::string_view> names;
    for (const RoundingName& row : kRoundingNames) names.push_back(row.name);
    spec_.round.rounding = static_cast<Rounding>(choice("rounding", value.substr(0, equals), names));
    if (equals == std::string_view::npos) return;
    const std::string_view digits = value.substr(equals + 1);
    const auto seed = parse_number<uint64_t>(digits);
    if (spec_.round.rounding != Rounding::kStochastic || !seed) {
      fail("only stochastic rounding takes a seed, as in round=stochastic=7, found 'round=" +
           std::string(value) + "'");
    }
    spec_.round.seed = *seed;
  }

  bool seen(std::string_view key) const { return std::ranges::find(seen_, key) != seen_.end(); }

  /// Checks what no part knows of the others.
  void finish() {
    const NumberFormat& number = *spec_.number;
    const std::string name(spec_.block_format ? spec_.block_format->name : number.name);
    const bool has_short_scales = spec_.block_cols > 0 && use_ != Use::kCache;
    if (!scale_seen_ && !spec_.block_format && has_short_scales) spec_.scale = ScaleFormat::kF16;
    if (seen("range") && (spec_.block_format || !number.has_range()) &&
        spec_.range != number.default_range()) {
      fail(name + " has one range only, found range=" + std::string(kRangeNames[int(spec_.range)]));
    }
    if (spec_.zero != ZeroPoint::kNone && (spec_.block_format || !number.has_zero_point())) {
      fail(name + " takes no zero point, found zero=" + std::string(kZeroPointNames[int(spec_.zero)]));
    }
    if (spec_.zero == ZeroPoint::kMinimum) finish_minimum(name);
    if (spec_.rotate && use_ != Use::kCache) fail("'rotate' is for caches of keys and values");
    if (spec_.round != RoundingMode{} && !number.has_rounding()) {
      fail(name +
           " takes the nearest value, found round=" + std::string(rounding_name(spec_.round.rounding)));
    }
    const bool block_search = spec_.search == Search::kAbsmax || spec_.search == Search::kMse;
    if (spec_.block_format && !block_search) {
      fail(name + " can be searched by absmax or mse, found search=" + search_name());
    }
    if (number.learned != (spec_.search == Search::kKmeans)) {
      fail(number.learned ? name + " learns its codebook by search=kmeans, found search=" + search_name()
                          : "search=kmeans is for palettes, found " + name);
    }
    if ((spec_.search == Search::kHqo || spec_.search == Search::kLsq) && number.grid == Grid::kCodebook) {
      fail("search=" + search_name() + " is for integer, half-integer, binary and minifloat grids, found " +
           name);
    }
    switch (use_) {
      case Use::kWeights: return finish_weights();
      case Use::kActivations: return finish_activations(name);
      case Use::kCache: return finish_cache(name);
    }
  }

  void finish_minimum(const std::string& name) const {
    if (spec_.number->is_signed) fail("zero=min is for unsigned integers, found " + name);
    if (use_ != Use::kWeights) fail("zero=min is for weights");
    if (spec_.search == Search::kHqo || spec_.search == Search::kLsq)
      fail("zero=min can be searched by absmax, percentile or mse, found search=" + search_name());
  }

  void finish_weights() const {
    if (spec_.is_dynamic()) fail("'token' is for activations: one scale for each run along their last axis");
    if (spec_.search == Search::kEma) fail("search=ema is for activations");
  }

  /// Checks what a quantizer of activations can have.
  void finish_activations(const std::string& name) const {
    if (spec_.block_format) {
      fail(name + " is not supported yet for activations: its scales are found as values come");
    }
    if (spec_.granularity != Granularity::kTensor && !spec_.is_dynamic()) {
      fail("activations have one scale a tensor, or one a token, found '" +
           std::string(kGranularityNames[static_cast<size_t>(spec_.granularity)]) + "' (not yet)");
    }
    if (spec_.number->grid == Grid::kCodebook) {
      fail("activations are integers, half-integers, binary or minifloats, found " + name);
    }
    if (spec_.search == Search::kHqo || spec_.search == Search::kLsq) {
      fail("activations are searched by absmax, percentile, mse or ema, found search=" + search_name());
    }
    if (spec_.round.rounding == Rounding::kStochastic) fail("activations cannot be rounded at random");
    if (spec_.pad) fail("'pad' is for groups, and activations have none");
    if (spec_.is_dynamic()) finish_tokens(name);
  }

  /// Checks what a quantizer of keys and values can have.
  void finish_cache(const std::string& name) const {
    const bool is_group = spec_.granularity == Granularity::kGroup && !spec_.block_format;
    if (spec_.granularity != Granularity::kToken && !is_group)
      fail("a cache has a scale for each token and head, or for groups of a head, found '" +
           std::string(kGranularityNames[static_cast<size_t>(spec_.granularity)]) + "'");
    if (spec_.pad) fail("'pad' is not for caches: groups divide the size of a head");
    if (!spec_.number->is_signed) fail("keys and values have signs, and " + name + " has none");
    if (spec_.round.rounding == Rounding::kStochastic) fail("a cache cannot be rounded at random");
    finish_tokens(name);
  }

  void finish_tokens(const std::string& name) const {
    const Grid grid = spec_.number->grid;
    if (grid != Grid::kInteger && grid != Grid::kMinifloat) {
      fail("scales of tokens are for integers and minifloats, found " + name);
    }
    if (spec_.search != Search::kAbsmax) {
      fail("a token's scale is that of its largest magnitude (absmax), found search=" + search_name());
    }
    if (spec_.zero != ZeroPoint::kNone) fail("tokens have no zero point (not yet)");
    if (spec_.scale != ScaleFormat::kF32) {
      fail("scales of tokens are computed in f32, found scale=" +
           std::string(scale_format_row(spec_.scale).name));
    }
  }

  std::string search_name() const { return std::string(kSearchNames[static_cast<size_t>(spec_.search)]); }

  std::string_view text_;
  Use use_;
  QuantSpec spec_;
  std::vector<std::string_view> seen_;
  bool rest_remains_ = false;
  bool granularity_seen_ = false;
  bool scale_seen_ = false;
};

/// Begins the schemes that are specs too: layouts of GGUF's types.
constexpr std::string_view kGgufPrefix = "gguf:";

constexpr Scheme kSchemes[] = {
    {"W8A16", "int8:channel", "8-bit integers, one scale per output channel"},
    {"W4A16", "int4:group=128", "4-bit integers in groups of 128"},
    {"W3A16", "int3:group=64", "3-bit integers in groups of 64"},
    {"W2A16", "int2h:group=64:search=mse",
     "2-bit half-integers in groups of 64, scales by least squared error"},
    {"FP8", "e4m3fn:channel", "OCP 8-bit floats, one scale per output channel"},
    {"MXFP4", "mxfp4", "OCP microscaling: 4-bit floats in blocks of 32"},
    {"MXFP8", "mxfp8_e4m3", "OCP microscaling: 8-bit floats in blocks of 32"},
    {"NVFP4", "nvfp4", "4-bit floats in blocks of 16 with two levels of scales"},
    {"W8A8", "int8:channel", "8-bit weights and activations, for graphs",
     "uint8:tensor:search=percentile=99.999"},
    {"W4A8", "int4:channel:search=mse", "4-bit weights, 8-bit activations, for graphs",
     "uint8:tensor:search=percentile=99.999"},
    {"W4A4", "int4:channel:search=mse", "4-bit weights and activations, for graphs",
     "uint4:tensor:search=mse"},
    {"hls4ml", "int8:tensor:scale=e8m0:search=mse",
     "8 bits with one power of two for a tensor, as hls4ml builds it exactly, for graphs",
     "uint8:tensor:scale=e8m0:search=mse", 32},
    {"finn", "int8:channel:scale=e8m0:search=mse",
     "8 bits with powers of two, one for each output channel, as FINN builds it exactly, for graphs",
     "uint8:tensor:scale=e8m0:search=mse", 32},
    {"gguf:q8_0", "int8:group=32", "what llama.cpp's Q8_0 holds, rounded to nearest"},
    {"gguf:q5_1", "uint5:group=32:zero=min", "Q5_1: 5 bits and a minimum"},
    {"gguf:q5_0", "int5:group=32", "Q5_0: 5 bits"},
    {"gguf:q4_1", "uint4:group=32:zero=min", "Q4_1: 4 bits and a minimum"},
    {"gguf:q4_0", "int4:group=32", "Q4_0: 4 bits"},
    {"gguf:mxfp4", "mxfp4", "MXFP4"},
    {"gguf:nvfp4", "nvfp4", "NVFP4"},
    {"gguf:q2_0", "int2:group=64:search=mse", "Q2_0: -1, 0, 1 in groups of 64"},
    {"gguf:tq2_0", "ternary:group=256:search=mse", "TQ2_0: -1, 0, 1 in groups of 256"},
    {"gguf:q1_0", "binary:group=128", "Q1_0: -1, 1 in groups of 128"},
};

}  // namespace

QuantSpec QuantSpec::parse(std::string_view text) {
  if (text.starts_with(kGgufPrefix)) text = find_scheme(text).spec;
  return SpecParser(text, Use::kWeights).parse();
}

QuantSpec QuantSpec::parse_activations(std::string_view text) {
  return SpecParser(text, Use::kActivations).parse();
}

QuantSpec QuantSpec::parse_either(std::string_view text) {
  const auto says = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  return says(":token") || says(":search=ema") ? parse_activations(text) : parse(text);
}

QuantSpec QuantSpec::parse_cache(std::string_view text) { return SpecParser(text, Use::kCache).parse(); }

std::string QuantSpec::to_string() const {
  std::string text(block_format ? block_format->name : number->name);
  if (!block_format) {
    text += ":" + std::string(kGranularityNames[static_cast<size_t>(granularity)]);
    if (granularity == Granularity::kGroup) text += "=" + std::to_string(block_cols);
    if (granularity == Granularity::kBlock) {
      text += "=" + std::to_string(block_rows) + "x" + std::to_string(block_cols);
    }
    const ScaleFormat usual = block_cols > 0 ? ScaleFormat::kF16 : ScaleFormat::kF32;
    if (scale != usual) text += ":scale=" + std::string(scale_format_row(scale).name);
  }
  if (search != (number->learned ? Search::kKmeans : Search::kAbsmax)) {
    text += ":search=" + std::string(kSearchNames[static_cast<size_t>(search)]);
    if (search == Search::kPercentile) text += "=" + number_text(percentile);
  }
  if (range != number->default_range())
    text += ":range=" + std::string(kRangeNames[static_cast<size_t>(range)]);
  if (zero != ZeroPoint::kNone) text += ":zero=" + std::string(kZeroPointNames[static_cast<size_t>(zero)]);
  if (round != RoundingMode{}) {
    text += ":round=" + std::string(rounding_name(round.rounding));
    if (round.rounding == Rounding::kStochastic) text += "=" + std::to_string(round.seed);
  }
  if (pad) text += ":pad=on";
  if (rotate) text += ":rotate=on";
  return text;
}

namespace {

/// Returns the shape of one matrix of a stack as its quantizer sees it: [out, in].
std::vector<uint64_t> matrix_sizes(std::span<const uint64_t> shape, uint64_t stack_axes, bool inputs_first) {
  std::vector<uint64_t> sizes(shape.begin() + static_cast<std::ptrdiff_t>(stack_axes), shape.end());
  if (inputs_first) std::swap(sizes.at(0), sizes.at(1));
  return sizes;
}

}  // namespace

std::optional<std::string> QuantSpec::misfit(std::span<const uint64_t> shape, uint64_t stack_axes,
                                             bool inputs_first) const {
  if (const auto all = matrix_shape(shape, stack_axes); !all.ok()) return all.failure().message;
  if (pad || block_cols == 0) return std::nullopt;
  const auto [rows, cols] = matrix_shape(matrix_sizes(shape, stack_axes, inputs_first)).take();
  const auto of_all = [&](uint64_t size, const char* what) {
    return std::to_string(size) + " " + what + " of " + shape_text(shape);
  };
  if (cols % block_cols != 0) {
    const std::string what = block_format ? std::string(block_format->name) + "'s block of "
                             : granularity == Granularity::kBlock
                                 ? "a block of " + std::to_string(block_rows) + "x"
                                 : "a group of ";
    return what + std::to_string(block_cols) + " does not divide the " +
           of_all(cols, inputs_first ? "rows" : "columns");
  }
  if (rows % block_rows != 0) {
    return "a block of " + std::to_string(block_rows) + " rows does not divide the " +
           of_all(rows, inputs_first ? "columns" : "rows");
  }
  return std::nullopt;
}

Encoding QuantSpec::encoding(std::span<const uint64_t> shape, uint64_t stack_axes, bool inputs_first) const {
  const MatrixShape matrix = matrix_shape(matrix_sizes(shape, stack_axes, inputs_first)).take();
  Encoding encoding{.number = number, .range = range, .scale = scale, .zero = zero, .stack_axes = stack_axes};
  if (block_format) {
    encoding.scale_exponent = block_format->scale_exponent;
    encoding.tensor_scale = block_format->tensor_scale;
  }
  encoding.block_rows = block_rows;
  encoding.block_cols = block_cols;
  if (granularity == Granularity::kTensor) encoding.block_rows = std::max<uint64_t>(matrix.rows, 1);
  if (block_cols == 0) encoding.block_cols = std::max<uint64_t>(matrix.cols, 1);
  if (inputs_first) std::swap(encoding.block_rows, encoding.block_cols);
  return encoding;
}

std::string spec_grammar() {
  const auto joined = [](const auto& names) {
    std::string text;
    for (const std::string_view name : names) text += (text.empty() ? "" : " ") + std::string(name);
    return text;
  };
  std::vector<std::string_view> scales, roundings;
  for (const ScaleFormatRow& row : kScaleFormats) scales.push_back(row.name);
  for (const RoundingName& row : kRoundingNames) roundings.push_back(row.name);
  return "A spec is format[:tensor|channel|group=N|block=RxC][:key=value...], by default per channel; of\n"
         "activations format[:tensor|token][:key=value...]. Keys:\n"
         "  scale   how scales are stored: " +
         joined(scales) +
         "\n"
         "  search  how a scale is found: " +
         joined(kSearchNames) +
         "; P of 100 magnitudes are\n"
         "          within the range, ema is for activations only\n"
         "  range   which codes of integers are used: " +
         joined(kRangeNames) +
         "\n"
         "  zero    the zero point of integers: " +
         joined(kZeroPointNames) +
         "\n"
         "  round   " +
         joined(roundings) +
         " (stochastic=SEED)\n"
         "  pad     allow a smaller last group: on off\n"
         "  rotate  rotate heads by a Hadamard matrix, for caches only: on off";
}

std::span<const Scheme> schemes() { return kSchemes; }

const Scheme& find_scheme(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Scheme& scheme : kSchemes) {
    names.push_back(scheme.name);
    if (std::ranges::equal(scheme.name, name, {}, to_upper, to_upper)) return scheme;
  }
  throw usage_error(unknown_name("scheme", name, names));
}

QuantSpec parse_scheme(std::string_view name) { return QuantSpec::parse(find_scheme(name).spec); }

}  // namespace crumb
