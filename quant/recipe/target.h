// What a budget is, and the formats that may be chosen from, as people write them.
//
//   TARGET   3.5bpw            bits per weight over all quantized tensors, scales and codebooks included
//            200MB             the packed file's size (base/text/byte_size.h)
//   FORMATS  SPEC,SPEC,...    quantizers (quant/quant_spec.h), each once
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "quant/quant_spec.h"

namespace crumb {

struct Target {
  double bits_per_weight = 0;  ///< 0: `file_bytes` says it
  uint64_t file_bytes = 0;     ///< 0: `bits_per_weight` says it
};

/// A Failure quotes the text and says what is wrong with it.
Result<Target> parse_target(std::string_view text);

/// Throws Error(kUsage): a bad spec, the same one twice, none at all, more than kMostFormats.
std::vector<QuantSpec> parse_formats(std::string_view text);

inline constexpr size_t kMostFormats = 64;

/// What is chosen from unless somebody says otherwise: two to eight bits, where a larger format always loses
/// less, nf4 for weights that are spread normally beside int4 for those that are not.
inline constexpr std::string_view kDefaultFormats =
    "int2h:group=64:search=mse,int3:group=64:search=mse,int4:group=64:search=mse,nf4:group=64,"
    "int5:group=64:search=mse,int6:group=64:search=mse,int8:channel";

}  // namespace crumb
