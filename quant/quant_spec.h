// A quantizer written in one line, and the struct that it stands for.
//
//   format[:tensor|channel|group=N|block=RxC][:key=value...]
//
//   scale   f32 f16 bf16 e8m0 e4m3   how scales are stored (f32 per tensor and channel, f16 per group and
//           block)
//   search  absmax percentile=P mse hqo lsq kmeans ema   how a scale is found (absmax; kmeans for palettes;
//           ema, for activations only, is the moving average over batches of what absmax takes)
//   range   narrow full              which codes of an integer grid are used (signed: narrow, unsigned: full)
//   zero    none int float min       the zero point (none); min: unsigned integers have a minimum instead,
//           value = q * s + m
//   round   half_even half_up half_down ceil floor up down stochastic=SEED   (half_even)
//   pad     on off                   whether a last, smaller group is allowed where the size does not divide
//                                    (off; a bare `pad` means on)
//
// Block formats (mxfp4, nvfp4, ...) bring granularity and scale format; search, round and pad may be given.
// The default granularity is channel.
//
// Activations take the same line with one scale for the whole tensor, which is their default: integers,
// half-integers, binary and minifloats, searched by absmax, percentile, mse or ema. Or with `token` one scale
// for each run along the last axis, from the run's largest magnitude at run time: integers and minifloats
// without a zero point.
//
// Caches of keys and values take the same line with `token`, their default, one scale for each token and
// key-value head, or `group=N`, one for each N numbers of a head; scales as those of tokens, formats with a
// sign. `rotate` (on, off) multiplies a head by a Hadamard matrix first, which spreads large values (QuaRot,
// Ashkboos et al. 2024, arXiv:2404.00456).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/number/block_format.h"
#include "formats/number/encoding.h"
#include "formats/number/rounding.h"

namespace crumb {

enum class Granularity : uint8_t { kTensor, kChannel, kGroup, kBlock, kToken };
enum class Search : uint8_t { kAbsmax, kPercentile, kMse, kHqo, kLsq, kKmeans, kEma };

/// The names of the searches in specs, indexed by the enumerator.
inline constexpr std::string_view kSearchNames[] = {"absmax", "percentile", "mse", "hqo",
                                                    "lsq",    "kmeans",     "ema"};

struct QuantSpec {
  const NumberFormat* number = nullptr;       ///< the element format; never null after parse()
  const BlockFormat* block_format = nullptr;  ///< set when the spec names one
  Granularity granularity = Granularity::kChannel;
  uint64_t block_rows = 1;  ///< kBlock only
  uint64_t block_cols = 0;  ///< kGroup and kBlock
  ScaleFormat scale = ScaleFormat::kF32;
  Search search = Search::kAbsmax;
  double percentile = 99.9;  ///< of |x|, kPercentile only
  Range range = Range::kFull;
  ZeroPoint zero = ZeroPoint::kNone;
  RoundingMode round;
  bool pad = false;
  bool rotate = false;  ///< caches only

  bool operator==(const QuantSpec&) const = default;

  /// Whether scales are found at run time, one for each run along the last axis.
  bool is_dynamic() const { return granularity == Granularity::kToken; }

  /// Throws Error(kUsage) naming the part that is wrong and the nearest valid name. A scheme that begins with
  /// "gguf:" is a spec, too.
  static QuantSpec parse(std::string_view text);
  /// The same for activations.
  static QuantSpec parse_activations(std::string_view text);
  /// Parses what to_string() gave of weights or of activations: of activations where the line says what only
  /// they can (token, search=ema).
  static QuantSpec parse_either(std::string_view text);
  /// The same for the keys and values that a decoder keeps.
  static QuantSpec parse_cache(std::string_view text);

  /// Returns the canonical line: what parse() needs to give this spec again, defaults left out.
  std::string to_string() const;

  /// Returns nothing where the spec can encode a tensor of this shape without a smaller last group, always so
  /// with pad; else why not ("group=32 does not divide the 100 columns of [7, 100]"). In a stack this asks
  /// about each of its matrices.
  std::optional<std::string> misfit(std::span<const uint64_t> shape, uint64_t stack_axes = 0,
                                    bool inputs_first = false) const;

  /// Returns the layout of a tensor of this shape. The tensor and channel granularities take their block from
  /// the shape, in a stack from one matrix. Matrices of a stack may be stored [in, out] (`inputs_first`):
  /// their blocks are those of [out, in], transposed.
  Encoding encoding(std::span<const uint64_t> shape, uint64_t stack_axes = 0,
                    bool inputs_first = false) const;
};

/// Returns the grammar with every name that it knows, for help: several lines, without a newline at the end.
std::string spec_grammar();

/// A named scheme ("W4A16"): the spec of its weights, and that of its activations.
struct Scheme {
  std::string_view name;
  std::string_view spec;              ///< for weights; empty when unsupported
  std::string_view summary;           ///< one line for help
  std::string_view activations = {};  ///< their spec; empty: they stay in floats
  int bias_bits = 0;                  ///< 0: they stay in floats
};

std::span<const Scheme> schemes();

/// Finds a scheme by name, in any case. Throws Error(kUsage) for an unknown or not yet supported name.
const Scheme& find_scheme(std::string_view name);

/// Returns the spec of the scheme's weights. Throws as find_scheme() does.
QuantSpec parse_scheme(std::string_view name);

}  // namespace crumb
