#include "jobs/evaluate_layers_json.h"

#include "base/json/numbers.h"

namespace crumb::jobs {
namespace {

using Json = nlohmann::ordered_json;

void add_sqnr(Json& json, const char* key, const std::optional<double>& sqnr_db) {
  if (sqnr_db) json[key] = json_sqnr(*sqnr_db);
}

Json layer_json(const EvaluateLayer& layer) {
  Json json = {
      {"name", layer.name},           {"op", layer.op},
      {"weights", layer.weights},     {"input", layer.input.empty() ? Json(nullptr) : Json(layer.input)},
      {"constants", layer.constants}, {"weight_count", layer.weight_count}};
  add_sqnr(json, "weights_sqnr_db", layer.weights_sqnr_db);
  add_sqnr(json, "alone_db", layer.alone_db);
  add_sqnr(json, "accumulated_db", layer.accumulated_db);
  if (layer.low && layer.high) json["range"] = {json_number(*layer.low), json_number(*layer.high)};
  if (layer.clipped) json["clipped"] = json_number(*layer.clipped);
  if (layer.channels) {
    json["channels"] = *layer.channels;
    json["dead_channels"] = layer.dead_channels.value_or(0);
  }
  if (layer.bits_needed) {
    json["accumulator_bits"] = *layer.bits_needed;
    json["register_bits"] = layer.bits_there.value_or(0);
  }
  return json;
}

}  // namespace

Json json_of(const EvaluateLayers& layers) {
  Json on = {{"samples", layers.samples}};
  add_sqnr(on, "sqnr_db", layers.sqnr_db);
  add_sqnr(on, "advised_sqnr_db", layers.advised_db);
  Json json = {{"layers_on", std::move(on)}, {"layers", Json::array()}, {"advice", Json::array()}};
  for (const EvaluateLayer& layer : layers.layers) json["layers"].push_back(layer_json(layer));
  for (const LayerAdvice& advice : layers.advice)
    json["advice"].push_back({{"layer", advice.layer},
                              {"set", advice.set},
                              {"sqnr_db", json_sqnr(advice.sqnr_db)},
                              {"gain_db", json_number(advice.gain_db)},
                              {"bytes", advice.bytes}});
  return json;
}

}  // namespace crumb::jobs
