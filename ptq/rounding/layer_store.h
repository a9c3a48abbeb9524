// Stores the codes of layers as they are found, station by station (sample_stream.h), and returns those that
// an earlier run found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/quantized_constant.h"

namespace crumb::ptq {

/// A layer's constant in codes.
struct StoredLayer {
  std::string constant;
  graph::QuantizedConstant codes;
  double before = 0, after = 0, tried = 0;  ///< as in LayerReport
  std::vector<std::string> notes;           ///< without the layer's name
};

class LayerStore {
 public:
  virtual ~LayerStore() = default;

  /// Returns the next station's layers, if an earlier run found them and they are these, in this order. After
  /// nothing was returned once, nothing more is.
  virtual std::optional<std::vector<StoredLayer>> next(const std::vector<std::string>& constants) = 0;

  /// Stores the next station's layers, after those that next() returned; returns them as they are stored now.
  virtual std::vector<StoredLayer> keep(std::vector<StoredLayer> layers) = 0;
};

}  // namespace crumb::ptq
