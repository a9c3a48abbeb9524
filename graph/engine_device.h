// The device on which an engine computes.
#pragma once

#include <string>

namespace crumb::graph {

class EngineDevice {
 public:
  virtual ~EngineDevice() = default;

  /// Sets the device of whatever is prepared from now on: "cpu" (the default) or "cuda". threads: 0 for as
  /// many as the machine has. Throws Error where there is no such device.
  virtual void use(const std::string& device, int threads) = 0;
};

}  // namespace crumb::graph
