// What a budget is, and the formats that may be chosen from, as people write them.
//
//   TARGET   3.5bpw            bits per weight over all quantized tensors, scales and codebooks included
//            200MB             the packed file's size (base/text/byte_size.h)
//            2.5Gbops          bit operations of one sample (kbops, Mbops, Gbops, Tbops: 10^3 and so on)
//            16acc             bits of the widest register that the data types of any layer ask for (at least 2)
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

/// One of them is not 0.
struct Target {
  double bits_per_weight = 0;
  uint64_t file_bytes = 0;
  uint64_t bops = 0;
  int accumulator_bits = 0;

  /// Whether it counts what a network does, not what a file holds.
  bool is_of_networks() const { return bops > 0 || accumulator_bits > 0; }
};

/// A Failure quotes the text and says what is wrong with it.
Result<Target> parse_target(std::string_view text);

/// Of "0.4Mbops", 400000; at least 1, at most 10^18. Nothing where the text does not end in bops. A Failure says what is wrong
/// with the number.
std::optional<Result<uint64_t>> parse_operations(std::string_view text);

/// Throws Error(kUsage): a bad spec, the same one twice, none at all, more than kMostFormats.
std::vector<QuantSpec> parse_formats(std::string_view text);

/// The same of activations.
std::vector<QuantSpec> parse_activation_formats(std::string_view text);

inline constexpr size_t kMostFormats = 64;

/// What is chosen from unless somebody says otherwise: two to eight bits, where a larger format always loses
/// less, nf4 for weights that are spread normally beside int4 for those that are not.
inline constexpr std::string_view kDefaultFormats =
    "int2h:group=64:search=mse,int3:group=64:search=mse,int4:group=64:search=mse,nf4:group=64,"
    "int5:group=64:search=mse,int6:group=64:search=mse,int8:channel";

/// The same where networks are budgeted: one scale for each output channel, so that sums are of integers, and any shape fits.
inline constexpr std::string_view kDefaultNetworkFormats =
    "int2:channel:search=mse,int3:channel:search=mse,int4:channel:search=mse,int5:channel:search=mse,"
    "int6:channel:search=mse,int8:channel";

}  // namespace crumb
