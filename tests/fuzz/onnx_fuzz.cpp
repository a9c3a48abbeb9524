// Weights inside an ONNX file.
#include "formats/onnx/onnx_weights.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/listing.h"

namespace crumb::testing {

void fuzz(std::span<const std::byte> input) {
  (void)looks_like_onnx(input);
  check_listing(input, list_onnx_weights(input));
}

}  // namespace crumb::testing
