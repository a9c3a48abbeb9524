#include "training/widths.h"

namespace crumb::training {

Json widths_json(const qat::LearnedWidths& widths) {
  Json layers = Json::array();
  for (const qat::LayerWidth& layer : widths.layers) {
    layers.push_back({{"name", layer.name},
                      {"weights", layer.weights},
                      {"bits", layer.bits},
                      {"learned", layer.learned ? json_number(*layer.learned) : Json(nullptr)}});
  }
  const bool whole = widths.unit != "bpw";
  const auto amount = [&](double value) { return whole ? json_amount(value) : json_number(value); };
  return {{"budget", widths.budget},
          {"unit", widths.unit},
          {"limit", amount(widths.limit)},
          {"used", amount(widths.used)},
          {"layers", std::move(layers)}};
}

}  // namespace crumb::training
