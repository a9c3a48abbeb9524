// Constants of every spec as MatMulNBits takes them: what has a form has exactly the same values in it, by
// the operator's definition; what has none is refused with a spec that has one.
#include "export/qcdq/block_weight.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <regex>

#include "formats/half.h"
#include "graph/onnx/block_codes.h"
#include "quant/quant_spec.h"
#include "quant/quantizer.h"
#include "tests/support/samples.h"
#include "tests/support/specs.h"

namespace crumb::exporting {
namespace {

using crumb::testing::says;
using graph::ElementType;
using graph::QuantizedConstant;
using graph::Tensor;

QuantizedConstant constant_of(const std::string& spec, std::span<const float> values,
                              std::vector<std::uint64_t> shape) {
  return {.tensor = std::make_shared<const QuantizedTensor>(quantize(QuantSpec::parse(spec), values, shape)),
          .axes = {1, 0}};
}

/// Values by the definition of the operator, element by element; row-major [N, K].
std::vector<float> defined_values(const BlockTensors& tensors, const BlockWeight& weight, std::int64_t rows,
                                  std::int64_t columns) {
  const std::int64_t blocks = (columns + weight.block - 1) / weight.block,
                     blob = weight.block * weight.bits / 8;
  REQUIRE(tensors.codes.shape() == std::vector{rows, blocks, blob});
  REQUIRE(tensors.scales.shape() == std::vector{rows, blocks});
  const int mask = (1 << weight.bits) - 1;
  const auto code_at = [&](const Tensor& tensor, std::int64_t row_bytes, std::int64_t row, std::int64_t at) {
    const std::int64_t bit = at * weight.bits;
    return std::to_integer<int>(tensor.bytes()[static_cast<std::size_t>(row * row_bytes + bit / 8)]) >>
               bit % 8 &
           mask;
  };
  const std::vector<float> scales = tensors.scales.to_floats();
  const bool packed_zeros = tensors.zeros && tensors.zeros->type() == ElementType::kUint8;
  const std::vector<float> zeros =
      tensors.zeros && !packed_zeros ? tensors.zeros->to_floats() : std::vector<float>{};
  std::vector<float> values;
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t k = 0; k < columns; ++k) {
      const std::int64_t block = k / weight.block;
      const auto at = static_cast<std::size_t>(n * blocks + block);
      const float zero =
          packed_zeros ? static_cast<float>(code_at(*tensors.zeros, (blocks * weight.bits + 7) / 8, n, block))
          : tensors.zeros ? zeros[at]
                          : static_cast<float>(1 << (weight.bits - 1));
      values.push_back((static_cast<float>(code_at(tensors.codes, blocks * blob, n, k)) - zero) * scales[at]);
    }
  }
  return values;
}

/// The spec that a refusal names.
std::string named_spec(const std::string& message) {
  std::smatch found;
  REQUIRE(std::regex_search(message, found, std::regex("the nearest that MatMulNBits holds is ([^ ;]+)")));
  return found[1];
}

std::string with_sizes(std::string spec, const std::string& group, const std::string& block) {
  spec = std::regex_replace(spec, std::regex("group=8"), "group=" + group);
  return std::regex_replace(spec, std::regex("block=2x5"), "block=" + block);
}

TEST_CASE("weights as MatMulNBits: every spec keeps its values or is refused with one that does") {
  const std::vector<std::string> specs = crumb::testing::all_specs();
  const char *groups[] = {"8", "16", "24", "32", "48", "64", "128", "200"},
             *blocks[] = {"2x5", "2x32", "3x16"};
  std::mt19937_64 engine(3);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
  int written = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::string spec = with_sizes(specs[static_cast<std::size_t>(round) % specs.size()],
                                        groups[below(std::size(groups))], blocks[below(std::size(blocks))]);
    const std::vector<std::uint64_t> shape{1 + below(5), 1 + below(140)};
    CAPTURE(spec);
    CAPTURE(shape);
    std::vector<float> values = crumb::testing::normal_values(shape[0] * shape[1], engine());
    if (below(8) == 0) std::fill_n(values.begin(), std::min<std::size_t>(values.size(), 40), 0.F);
    const QuantizedConstant constant = constant_of(spec, values, shape);
    const auto found = find_block_weight(constant);
    if (!found.ok()) {
      ++refused;
      const std::string nearest = named_spec(found.failure().message);
      CAPTURE(found.failure().message);
      REQUIRE(find_block_weight(constant_of(nearest + ":pad=on", values, shape)).ok());
      continue;
    }
    ++written;
    const BlockWeight& weight = found.value();
    REQUIRE((weight.bits == 2 || weight.bits == 4 || weight.bits == 8));
    REQUIRE((weight.block >= 16 && weight.block <= 256 && (weight.block & (weight.block - 1)) == 0));
    REQUIRE_FALSE((weight.float_zeros && weight.bits == 8));
    const BlockTensors tensors = tensors_of(constant, weight);
    const auto rows = static_cast<std::int64_t>(shape[0]), columns = static_cast<std::int64_t>(shape[1]);
    std::vector<float> meant(values.size());
    RowDecoder(constant.tensor->view()).flat_values(0, meant);
    REQUIRE(defined_values(tensors, weight, rows, columns) == meant);
    const QuantizedTensor again =
        graph::tensor_of_blocks({.rows = rows,
                                 .columns = columns,
                                 .bits = weight.bits,
                                 .block = weight.block,
                                 .row_bytes = tensors.codes.shape()[1] * tensors.codes.shape()[2],
                                 .codes = tensors.codes,
                                 .scales = tensors.scales,
                                 .zeros = tensors.zeros})
            .take();
    std::vector<float> read(values.size());
    RowDecoder(again.view()).flat_values(0, read);
    REQUIRE(read == meant);
  }
  CHECK(written > 2500);
  CHECK(refused > 1000);
}

TEST_CASE("weights as MatMulNBits: widths and zero points are those of the header") {
  const std::vector<float> values = crumb::testing::normal_values(3 * 64, 1);
  const auto weight_of = [&](const std::string& spec) {
    return find_block_weight(constant_of(spec, values, {3, 64})).take("spec " + spec);
  };
  struct Row {
    const char* spec;
    int bits;
    std::int64_t block;
    float offset;
    bool usual, floats;
    int doublings = 0;
  };
  const Row rows[] = {{"int4:group=32", 4, 32, 8, true, false},
                      {"int4:group=32:range=full", 4, 32, 8, true, false},
                      {"int3:channel", 4, 64, 8, true, false},
                      {"int2:group=16", 2, 16, 2, true, false},
                      {"int2:group=16:range=full", 2, 16, 2, true, false},
                      {"int2h:group=64", 2, 64, 1.5, false, true},
                      {"int3h:group=64", 4, 64, 7.5, false, true},
                      {"int4h:group=64", 4, 64, 7.5, false, true},
                      {"ternary:group=32", 2, 32, 2, true, false},
                      {"binary:group=32", 2, 32, 2, true, false},
                      {"int5:group=32", 8, 32, 128, true, false},
                      {"int8:channel", 8, 64, 128, true, false},
                      {"uint8:channel", 8, 64, 0, false, false},
                      {"uint4:group=32:zero=int", 4, 32, 0, false, false},
                      {"uint4:group=32:zero=float", 4, 32, 0, false, true},
                      {"uint8:group=32:zero=int", 8, 32, 0, false, false},
                      {"e1m2:group=32", 4, 32, 8, true, false, 1},
                      {"mxfp4", 8, 32, 128, true, false, 1},
                      {"mxint8", 8, 32, 128, true, false}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.spec));
    const BlockWeight made = weight_of(row.spec);
    CHECK(made.bits == row.bits);
    CHECK(made.block == row.block);
    CHECK(made.offset == row.offset);
    CHECK(made.usual_zeros == row.usual);
    CHECK(made.float_zeros == row.floats);
    CHECK(made.doublings == row.doublings);
  }
  for (const auto& [spec, said] : std::map<std::string, std::string>{
           {"nf4:group=32", "has nf4 codes, which are no whole numbers of eight bits"},
           {"int4:group=8", "has groups of 8"},
           {"uint8:group=32:zero=float", "zero points that are floats"},
           {"uint4:group=32:zero=min", "has minima (zero=min)"}}) {
    const auto made = find_block_weight(constant_of(spec, values, {3, 64}));
    REQUIRE_FALSE(made.ok());
    CHECK(says(made.failure().message, {said.c_str(), "the nearest that MatMulNBits holds is "}));
  }
}

/// Minima that are whole multiples of their scales are zero points; the values stay.
TEST_CASE("weights as MatMulNBits: minima that are multiples of the scale are written") {
  std::mt19937_64 engine(5);
  for (int round = 0; round < 300; ++round) {
    QuantizedConstant constant =
        constant_of("uint4:group=32:zero=min", crumb::testing::normal_values(2 * 64, engine()), {2, 64});
    QuantizedTensor changed = *constant.tensor;
    for (std::size_t i = 0; i < changed.scales.size(); i += 2) {
      const std::uint16_t scale = float_to_f16(static_cast<float>(1 + engine() % 7) / 64),
                          minimum = float_to_f16(-f16_to_float(scale) * static_cast<float>(engine() % 16));
      std::memcpy(changed.scales.data() + i, &scale, 2);
      std::memcpy(changed.zeros.data() + i, &minimum, 2);
    }
    constant.tensor = std::make_shared<const QuantizedTensor>(std::move(changed));
    const BlockWeight weight = find_block_weight(constant).take("minima");
    CHECK_FALSE(weight.float_zeros);
    std::vector<float> meant(128);
    RowDecoder(constant.tensor->view()).flat_values(0, meant);
    REQUIRE(defined_values(tensors_of(constant, weight), weight, 2, 64) == meant);
  }
}

}  // namespace
}  // namespace crumb::exporting
