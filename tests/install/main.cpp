// The smallest program that uses an installed Crumb: eight weights to int4 and back.
#include <cstdint>
#include <iostream>
#include <vector>

#include "quant/distortion.h"
#include "quant/quantizer.h"

int main() {
  const std::vector<float> weights = {-7, -3.2F, 0, 1, 2, 3, 4, 7};
  const std::vector<uint64_t> shape = {1, 8};
  const auto spec = crumb::QuantSpec::parse("int4:channel");

  std::vector<float> decoded(weights.size());
  crumb::fake_quantize(spec, weights, shape, decoded);
  for (const float value : decoded) std::cout << value << ' ';
  std::cout << '\n';
}
