// Where tensors lie and are computed with.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace crumb::libtorch {

/// "cpu", "cuda", "cuda:1". Throws usage Error where there is no such device.
c10::Device device_named(const std::string& name);

}  // namespace crumb::libtorch
