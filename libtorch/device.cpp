#include "libtorch/device.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::libtorch {

c10::Device device_named(const std::string& name) {
  try {
    const c10::Device device(name);
    at::empty({1}, device);
    return device;
  } catch (const c10::Error&) {
    throw usage_error("there is no device " + quote_text(name) + " here; 'cpu' is always there");
  }
}

}  // namespace crumb::libtorch
