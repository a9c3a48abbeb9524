#include "cli/train_widths.h"

#include <iostream>

namespace crumb::cli {

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

void print_widths(const Json& widths) {
  const std::string unit = widths.at("unit");
  const int digits = unit == "bpw" ? 3 : 0;
  std::cout << fixed(widths.at("used"), digits) << " of " << fixed(widths.at("limit"), digits) << " " << unit
            << " used\n";
  std::vector<std::vector<std::string>> rows{{"weight", "weights", "bits", "learned"}};
  for (const Json& layer : widths.at("layers")) {
    const Json& learned = layer.at("learned");
    rows.push_back({layer.at("name"), layer.at("weights").dump(), layer.at("bits").dump(),
                    learned.is_null() ? std::string("given") : fixed(learned, 2)});
  }
  print_table(std::move(rows));
}

}  // namespace crumb::cli
