// hls4ml's configuration of a network, by the names of its nodes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "export/hls4ml/layer_types.h"

namespace crumb::exporting::hls4ml {

/// What a person chooses; the defaults are hls4ml's.
struct Choices {
  std::string strategy = "Latency";  ///< or Resource
  int reuse_factor = 1;
};

/// {"Model": {...}, "LayerName": {"Conv_0": {"Precision": {"accum": "ap_fixed<14,6>"}}}}, to lay over what
/// hls4ml.utils.config_from_onnx_model(model, granularity="name") gives.
nlohmann::ordered_json config_of(const NetworkTypes& types, const Choices& choices = {});

}  // namespace crumb::exporting::hls4ml
