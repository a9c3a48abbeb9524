// What a budget is, and the formats that a search chooses from, as people write them.
//
//   TARGET   3.5bpw            bits per weight over all quantized tensors, scales and codebooks included
//            200MB             the packed file's size (base/text/byte_size.h)
//            2.5Gbops          bit operations of one sample (kbops, Mbops, Gbops, Tbops: 10^3 and so on)
//            16acc             bits of the widest register that any layer's data types need (at least 2)
//   FORMATS  SPEC,SPEC,...    quantizers (quant/quant_spec.h), each once
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "quant/quant_spec.h"

namespace crumb {

/// Exactly one of the fields is not 0.
struct Target {
  double bits_per_weight = 0;
  uint64_t file_bytes = 0;
  uint64_t bops = 0;
  int accumulator_bits = 0;

  /// Whether the target limits what a network does, not what a file holds.
  bool is_of_networks() const { return bops > 0 || accumulator_bits > 0; }
};

/// Returns a target. A Failure quotes the text and says what is wrong with it.
Result<Target> parse_target(std::string_view text);

/// Returns 400000 for "0.4Mbops"; at least 1, at most 10^18. Returns nothing where the text does not end in
/// bops. A Failure says what is wrong with the number.
std::optional<Result<uint64_t>> parse_operations(std::string_view text);

/// Throws Error(kUsage) for a bad spec, for the same spec twice, for none at all and for more than
/// kMostFormats.
std::vector<QuantSpec> parse_formats(std::string_view text);

/// The same for activations.
std::vector<QuantSpec> parse_activation_formats(std::string_view text);

inline constexpr size_t kMostFormats = 64;

/// The formats that a search chooses from by default: two to eight bits, where a larger format always loses
/// less; nf4 for weights with a normal distribution, int4 for the others.
inline constexpr std::string_view kDefaultFormats =
    "int2h:group=64:search=mse,int3:group=64:search=mse,int4:group=64:search=mse,nf4:group=64,"
    "int5:group=64:search=mse,int6:group=64:search=mse,int8:channel";

/// The same for budgets of networks: one scale for each output channel, so that sums are of integers, and any
/// shape fits.
inline constexpr std::string_view kDefaultNetworkFormats =
    "int2:channel:search=mse,int3:channel:search=mse,int4:channel:search=mse,int5:channel:search=mse,"
    "int6:channel:search=mse,int8:channel";

}  // namespace crumb
