// Where the codes of layers go as they are found, station by station (sample_stream.h), and where those are that an earlier run
// found.
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
  double before = 0, after = 0, tried = 0;  ///< as LayerReport has them
  std::vector<std::string> notes;           ///< without the layer's name
};

class LayerStore {
 public:
  virtual ~LayerStore() = default;

  /// The next station's layers, where an earlier run found them and they are these, in this order; once nothing came, nothing
  /// comes.
  virtual std::optional<std::vector<StoredLayer>> next(const std::vector<std::string>& constants) = 0;

  /// Takes the next station's layers, after those that next() gave; gives them back as they lie from here on.
  virtual std::vector<StoredLayer> keep(std::vector<StoredLayer> layers) = 0;
};

}  // namespace crumb::ptq
