#include "quant/row_source.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "quant/quantizer.h"
#include "tests/support/block_rows.h"
#include "tests/support/samples.h"
#include "tests/support/specs.h"

namespace crumb {
namespace {

/// Whether drawn rows and drawn elements of the source have the bits of the whole.
bool gives_parts_of(const RowSource& source, const std::vector<float>& whole, std::mt19937_64& engine) {
  const uint64_t cols = source.cols();
  for (int draw = 0; draw < 8; ++draw) {
    const uint64_t first = engine() % source.rows(), count = 1 + engine() % (source.rows() - first);
    std::vector<float> rows(count * cols);
    source.decode(first, rows);
    if (!std::equal(rows.begin(), rows.end(), whole.begin() + static_cast<ptrdiff_t>(first * cols)))
      return false;
    const uint64_t from = engine() % whole.size();
    std::vector<float> some(engine() % (whole.size() - from + 1));
    decode_elements(source, from, some);
    if (!std::equal(some.begin(), some.end(), whole.begin() + static_cast<ptrdiff_t>(from))) return false;
  }
  return true;
}

TEST_CASE(
    "rows of codes have the bits of the tensor that is decoded at once, for every spec and for stacks") {
  std::mt19937_64 engine(1);
  for (const std::string& text : testing::all_specs()) {
    CAPTURE(text);
    const std::vector<uint64_t> shape{1 + engine() % 3, 1 + engine() % 20, 1 + engine() % 40};
    const std::size_t stack = engine() % 2;
    const auto tensor = std::make_shared<const QuantizedTensor>(
        quantize(QuantSpec::parse(text), testing::normal_values(testing::elements(shape), engine()), shape,
                 {.stack_axes = stack}));
    std::vector<float> whole(testing::elements(shape));
    dequantize(tensor->view(), whole);
    const auto rows = rows_of(tensor);
    REQUIRE(rows->rows() * rows->cols() == whole.size());
    CHECK(rows->rows_together() == 1);
    CHECK(rows->bytes() == tensor->codes.size() + tensor->scales.size() + tensor->zeros.size() +
                               tensor->codebook.size() + tensor->tensor_scales.size() * sizeof(float));
    CHECK(gives_parts_of(*rows, whole, engine));
  }
}

TEST_CASE("rows of blocks that only decode as a whole have the bits of the whole matrix") {
  std::mt19937_64 engine(2);
  for (int round = 0; round < 200; ++round) {
    const uint64_t rows = 1 + engine() % 40, cols = 1 + engine() % 40, height = 1 + engine() % 7,
                   width = 1 + engine() % 7;
    CAPTURE(rows);
    CAPTURE(cols);
    CAPTURE(height);
    CAPTURE(width);
    const testing::BlockRows blocks(rows, cols, height, width, testing::normal_values(rows * cols, engine()));
    CHECK(gives_parts_of(blocks, blocks.values(), engine));
  }
}

}  // namespace
}  // namespace crumb
