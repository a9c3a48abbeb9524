// What training made of a budget for the widths of weights. Free of LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace crumb::qat {

/// The width of one quantized weight.
struct LayerWidth {
  std::string name;  ///< the weight's name
  std::int64_t weights = 0;
  int bits = 0;                   ///< as it is now, or as its spec says
  std::optional<double> learned;  ///< as a real number, before it is fixed; none where the width was given
};

/// What all quantized weights cost, in the budget's unit.
struct LearnedWidths {
  std::string budget;  ///< as the recipe has it: "3.5bpw"
  std::string unit;    ///< "bpw", "bytes" or "bops"
  double limit = 0, used = 0;
  bool is_fixed = false;  ///< widths are no longer learned
  std::vector<LayerWidth> layers;
};

}  // namespace crumb::qat
