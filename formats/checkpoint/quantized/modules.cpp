#include "formats/checkpoint/quantized/modules.h"

#include <algorithm>

#include "base/files/text.h"

namespace crumb::quantized {

std::string found_text(const TensorEntry& tensor) {
  return shape_text(tensor.shape) + " " + std::string(dtype_name(tensor.dtype));
}

bool lies_in_order(const TensorEntry& tensor) {
  const TensorPlace& place = tensor.place;
  return place.coding == StorageCoding::kPlain && place.strides.empty() && place.first == 0 &&
         place.skip == 0 && !place.big_endian;
}

Failure tensor_failure(const std::string& name, const std::string& why) {
  return Failure{"tensor " + quote_text(name) + ": " + why};
}

Result<const TensorEntry*> needed(const Module& module, std::string_view part,
                                  std::initializer_list<DType> types, std::size_t axes) {
  const TensorEntry* const tensor = module.find(part);
  const std::string name = module.name + "." + std::string(part);
  if (tensor == nullptr) return tensor_failure(name, "it is missing");
  const bool plain = lies_in_order(*tensor);
  if (std::ranges::find(types, tensor->dtype) != types.end() && tensor->shape.size() == axes && plain)
    return tensor;
  std::string expected;
  for (const DType type : types) expected += (expected.empty() ? "" : " or ") + std::string(dtype_name(type));
  return tensor_failure(name, "it is " + found_text(*tensor) + (plain ? "" : ", stored in another order") +
                                  ", expected " + expected + " with " + std::to_string(axes) +
                                  (axes == 1 ? " axis" : " axes") + ", row-major");
}

}  // namespace crumb::quantized
