// Every kind of quantizer that a tensor may have.
#pragma once

#include <string>
#include <vector>

#include "quant/quant_spec.h"

namespace crumb::testing {

/// Specs over every number format and block format, granularity, scale format and zero point kind; they fit any shape.
inline std::vector<std::string> all_specs() {
  std::vector<std::string> specs;
  for (const NumberFormat& format : number_formats()) {
    if (format.scale_only) continue;
    const std::string name(format.name);
    for (const char* granularity : {":tensor", ":channel", ":group=8:pad", ":block=2x5:pad"}) {
      for (const ScaleFormatRow& scale : kScaleFormats) {
        specs.push_back(name + granularity + ":scale=" + std::string(scale.name));
      }
    }
    if (!format.has_zero_point()) continue;
    for (const char* zero : {":group=8:pad:zero=int", ":channel:zero=float"}) specs.push_back(name + zero);
    if (!format.is_signed) specs.push_back(name + ":group=8:pad:zero=min");
  }
  for (const BlockFormat& format : kBlockFormats) specs.push_back(std::string(format.name) + ":pad");
  return specs;
}

}  // namespace crumb::testing
