// Scales as files store them, on the CPU and on a device that is far (tests/support/far_device.cpp).
#include "qat/weights/scales.h"

#include <doctest/doctest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>

#include "formats/number/scale_format.h"
#include "quant/codes/given_scales.h"

TEST_CASE("scales: a device stores what the CPU stores, for every format") {
  torch::manual_seed(3);
  // From what every format is too coarse for to what it is too narrow for, and the halves between its numbers.
  at::Tensor sizes = torch::exp2(torch::empty({20000}).uniform_(-40, 20));
  sizes = at::cat({sizes, torch::arange(1, 4097).mul(0x1p-25)}).to(at::kFloat);
  for (const char* number : {"int2h", "int3h", "int4", "uint4:zero=float", "ternary", "binary", "e2m1"}) {
    for (const crumb::ScaleFormatRow& row : crumb::kScaleFormats) {
      const std::string text = std::string(number) + ":channel:scale=" + std::string(row.name);
      CAPTURE(text);
      const crumb::QuantSpec spec = crumb::QuantSpec::parse(text);
      const at::Tensor here = crumb::qat::stored_scales(spec, sizes);
      CHECK(torch::equal(here, crumb::qat::stored_scales(spec, sizes.to(at::Device("hpu"))).cpu()));
      for (std::int64_t i = 0; i < sizes.numel(); i += 97)
        CHECK(here[i].item<float>() == crumb::stored_scale(spec, sizes[i].item<float>()));
    }
  }
}
