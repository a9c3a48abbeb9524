// The bounds of a graph's one output, for tests in other languages (tests/support/enclosure.h):
//
//   crumb_enclosure MODEL.onnx X.npy LOW.npy HIGH.npy
//
// fails where too many of the quantized values lie within rounding of a boundary.
#include <ATen/ATen.h>

#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "formats/npy/npy.h"
#include "graph/onnx/expand_functions.h"
#include "graph/onnx/read.h"
#include "libtorch/engine.h"
#include "tests/support/enclosure.h"

namespace {

void write(const char* path, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  const std::vector<std::uint64_t> shape(whole.sizes().begin(), whole.sizes().end());
  crumb::write_npy(path, crumb::DType::kF32, shape,
                   {static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: crumb_enclosure MODEL.onnx X.npy LOW.npy HIGH.npy\n");
    return 2;
  }
  try {
    const auto graph =
        crumb::graph::expand_functions(crumb::graph::read_onnx(arguments[1]), crumb::libtorch::engine());
    const crumb::NpyArray array = crumb::read_npy(arguments[2]).take();
    const std::vector<float> values = array.to_floats();
    const std::vector<std::int64_t> shape(array.shape.begin(), array.shape.end());
    const at::Tensor x = at::empty(shape, at::kFloat);
    std::memcpy(x.mutable_data_ptr<float>(), values.data(), values.size() * sizeof(float));
    const auto bounds = crumb::testing::enclose(graph, {x});
    if (const std::string failure = crumb::testing::too_near(bounds); !failure.empty()) {
      throw crumb::Error(failure);
    }
    write(arguments[3], bounds.low.at(0));
    write(arguments[4], bounds.high.at(0));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crumb_enclosure: %s\n", error.what());
    return 1;
  }
}
