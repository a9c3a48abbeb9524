// Where an engine computes.
#pragma once

#include <string>

namespace crumb::graph {

class EngineDevice {
 public:
  virtual ~EngineDevice() = default;

  /// "cpu" (the default), "cuda": where what is prepared from now on runs. Throws Error where there is no such
  /// device. threads: 0 for those the machine has.
  virtual void use(const std::string& device, int threads) = 0;
};

}  // namespace crumb::graph
