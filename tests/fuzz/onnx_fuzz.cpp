// Weights inside an ONNX file.
#include "formats/onnx/onnx_weights.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_onnx.h"
#include "tests/fuzz/listing.h"

namespace crumb::testing {

void fuzz(std::span<const std::byte> input) {
  (void)looks_like_onnx(input);
  check_listing(input, list_onnx_weights(input));
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_onnx, data, size, most, seed);
}
