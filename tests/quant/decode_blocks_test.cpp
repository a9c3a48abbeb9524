// Rows of small formats, decoded a block after the other, against one weight at a time.
#include <doctest/doctest.h>

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "quant/quantizer.h"
#include "tests/support/samples.h"

namespace crumb {
namespace {

TEST_CASE("rows of small formats have the bits of the definition, from any column on") {
  std::mt19937 engine(7);
  for (const char* format :
       {"int2",    "int3", "int4", "uint1", "uint3", "uint4", "int2h", "int3h",    "int4h",    "binary",
        "ternary", "e1m1", "e2m0", "e2m1",  "e1m2",  "e3m0",  "nf4",   "palette1", "palette3", "palette4"}) {
    for (const int block : {8, 16, 24, 32, 40, 64, 128}) {
      CAPTURE(format);
      CAPTURE(block);
      const std::size_t rows = 2,
                        cols = static_cast<std::size_t>(block) * (1 + engine() % 30) + (engine() % 2 ? 0 : 5);
      const std::vector<float> w = testing::normal_values(rows * cols, engine());
      const std::uint64_t shape[] = {rows, cols};
      const QuantizedTensor made =
          quantize(QuantSpec::parse(std::string(format) + ":group=" + std::to_string(block) + ":pad"), w,
                   shape, {.threads = 1});
      const RowDecoder decoder(made.view());
      for (int part = 0; part < 4; ++part) {
        const std::size_t first = part == 0 ? 0 : engine() % cols,
                          count = part == 0 ? cols : 1 + engine() % (cols - first);
        std::vector<float> out(count);
        decoder.values(1, first, out);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i)
          wrong += std::bit_cast<std::uint32_t>(out[i]) !=
                   std::bit_cast<std::uint32_t>(decoder.value_ref(1, first + i));
        CHECK(wrong == 0);
      }
    }
  }
}

}  // namespace
}  // namespace crumb
