// Quantizes an ONNX network, activations by samples: quantize_network net.onnx samples.npy net.crumb
// [DEVICE]. Samples run on the CPU without LibTorch, or by it on the device (cpu, cuda). What each output
// keeps of the float network's is printed, and the layer that loses most.
#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "jobs/quantize.h"

int main(int count, char** arguments) try {
  if (count != 4 && count != 5) return 2;
  const crumb::Recipe recipe =
      crumb::parse_recipe("weights: int8:channel\nactivations: uint8:tensor\n", "the recipe");
  crumb::jobs::Observer silent;
  const auto report = crumb::jobs::quantize({.input = arguments[1],
                                             .output = arguments[3],
                                             .recipe = recipe,
                                             .data = {arguments[2]},
                                             .device = count == 5 ? arguments[4] : ""},
                                            silent);
  for (const auto& output : report.comparison->outputs)
    std::printf("output %s: SQNR %.2f dB\n", output.output.c_str(), output.distortion.sqnr_db);
  const auto worst = std::ranges::min_element(report.tensors, {}, [](const crumb::TensorReport& tensor) {
    return tensor.spec.empty() ? 1e9 : tensor.sqnr_db;
  });
  if (worst != report.tensors.end()) std::printf("%s: %.2f dB\n", worst->name.c_str(), worst->sqnr_db);
  return 0;
} catch (const crumb::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
