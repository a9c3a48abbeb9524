#include "export/hls4ml/config.h"

#include <nlohmann/json.hpp>

namespace crumb::exporting::hls4ml {

nlohmann::ordered_json config_of(const NetworkTypes& types, const Choices& choices) {
  using Json = nlohmann::ordered_json;
  Json layers = Json::object();
  for (const auto& [name, type] : types.inputs) layers[name]["Precision"]["result"] = type;
  for (const LayerTypes& layer : types.layers) {
    Json& precision = layers[layer.node]["Precision"];
    const auto put = [&](const char* key, const std::optional<FixedRange>& range) {
      if (range) precision[key] = narrowest_type(*range);
    };
    put("scale", layer.scale);
    put("bias", layer.bias);
    put("accum", layer.accum);
    put("result", layer.result);
  }
  const Json model = {{"ReuseFactor", choices.reuse_factor}, {"Strategy", choices.strategy}};
  return {{"Model", model}, {"LayerName", layers}};
}

}  // namespace crumb::exporting::hls4ml
