// Tensors of the base model that PEFT stores a second time in an adapter's folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/dtype.h"

namespace crumb {

/// One of them. The bytes belong to the file, which is open only while it is checked.
struct BaseCopy {
  std::string stored_as;             ///< its name in the file: "base_model.model.lm_head.base_layer.weight"
  std::string tensor;                ///< the base's tensor of which it is one: "lm_head.weight"
  std::vector<std::uint64_t> shape;  ///< outermost axis first
  DType dtype = DType::kF32;         ///< F32, F16 or BF16
  std::span<const std::byte> bytes;
};

/// Says whether the base has the same numbers. A Failure says what differs.
using CheckCopy = std::function<Status(const BaseCopy&)>;

}  // namespace crumb
