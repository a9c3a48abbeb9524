// Devices on which tensors are kept and computed with.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace crumb::libtorch {

/// "cpu", "cuda", "cuda:1". Throws usage Error for a device that the machine does not have.
c10::Device device_named(const std::string& name);

}  // namespace crumb::libtorch
