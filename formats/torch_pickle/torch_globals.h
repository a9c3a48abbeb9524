// The names that a pickle of torch.save may ask for: torch's own functions that rebuild tensors, its storages
// and types, and a few plain Python types. None of them is ever run; each only has a meaning here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "formats/dtype.h"
#include "formats/torch_pickle/pickle.h"

namespace crumb {

enum class TorchRole : std::uint8_t {
  kRebuildTensor,    ///< (storage, offset, size, stride)
  kRebuildTensorV2,  ///< (storage, offset, size, stride, requires_grad, hooks[, metadata])
  kRebuildTensorV3,  ///< the same with the dtype after hooks
  kWrapTensor,       ///< (tensor, ...): a parameter, which is its tensor
  kFromType,         ///< (one of the above, type, its arguments, attributes)
  kOnDevice,         ///< (tensor, dtype, device, requires_grad)
  kRebuildQTensor,   ///< (storage, offset, size, stride, (scheme, scale, zero point[, axis]), ...)
  kOtherTensor,      ///< a tensor without plain elements: sparse, meta, ...
  kTensorType,
  kStorage,
  kDType,
  kDictionary,
  kPlain,   ///< a value that holds no tensor
  kObject,  ///< the same, of which attributes may be set
};

struct TorchGlobal {
  std::string_view name;
  TorchRole role;
  std::string_view text;         ///< for people: what a call of it or the type is
  std::uint8_t bytes = 0;        ///< of an element: kStorage, kDType
  std::optional<DType> dtype{};  ///< none where the type is none of ours: kStorage, kDType
  std::optional<DType> codes{};  ///< of a kStorage of a quantized tensor: the integers that it holds
};

const TorchGlobal& torch_global(std::uint16_t id);

/// A Failure for every other name, with the name and what to do about it.
Result<PickleGlobal> find_torch_global(std::string_view name);

/// All of them, sorted by name.
std::span<const TorchGlobal> torch_globals();

}  // namespace crumb
