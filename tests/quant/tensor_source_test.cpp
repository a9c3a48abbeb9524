// The values of a checkpoint's tensors, by pieces, for every type that safetensors has.
#include "quant/tensor_source.h"

#include <doctest/doctest.h>

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "formats/safetensors/safetensors.h"
#include "tests/support/testing.h"

using crumb::TensorDescription;

namespace {

/// Tensors of each type that has float values, of 0 to 200 elements that come to whole bytes.
std::vector<TensorDescription> described() {
  std::vector<TensorDescription> tensors;
  for (const crumb::DTypeInfo& type : crumb::kDTypes) {
    if (type.dtype == crumb::DType::kC64) continue;
    for (const uint64_t count : {0, 1, 2, 4, 7, 8, 12, 64, 100, 200}) {
      if (count * type.bits % 8 != 0) continue;
      tensors.push_back({std::string(type.name) + "." + std::to_string(count), type.dtype, {count}});
    }
  }
  return tensors;
}

}  // namespace

TEST_CASE(
    "checkpoint streams: pieces are of the size that was asked for, in every type, from the front as often "
    "as asked") {
  const crumb::testing::TempDir dir;
  const auto path = dir.path() / "all.safetensors";
  std::mt19937_64 engine(1);
  std::vector<std::vector<float>> expected;
  crumb::SafetensorsWriter file(path, described());
  const std::vector<TensorDescription> tensors = file.tensors();
  REQUIRE(tensors.size() > 180);
  for (const TensorDescription& tensor : tensors) {
    std::vector<std::byte> bytes(tensor.shape[0] * crumb::dtype_bits(tensor.dtype) / 8);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
    file.write(tensor.name, bytes);
    crumb::widen_to_float(tensor.dtype, bytes, expected.emplace_back(tensor.shape[0]));
  }
  file.commit();

  const crumb::TensorSource source = crumb::TensorSource::open(path);
  for (size_t i = 0; i < tensors.size(); ++i) {
    CAPTURE(tensors[i].name);
    const crumb::SourceTensor* tensor = source.find(tensors[i].name);
    REQUIRE(tensor);
    const std::vector<float>& values = expected[i];
    const auto stream = source.stream(*tensor);
    for (int walk = 0; walk < 20; ++walk) {
      const uint64_t most = 1 + engine() % (values.size() + 2);
      uint64_t seen = 0;
      for (bool ended = false; !ended && (walk == 19 || engine() % 8 != 0);) {
        const uint64_t count = 1 + engine() % most;
        const std::span<const float> piece = stream->next(count);
        REQUIRE(piece.size() == std::min<uint64_t>(count, values.size() - seen));
        const auto same_bits = [](float x, float y) {
          return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
        };
        CHECK(std::ranges::equal(piece, std::span(values).subspan(seen, piece.size()), same_bits));
        seen += piece.size();
        ended = piece.empty();
      }
      if (walk == 19) CHECK(seen == values.size());
      stream->rewind();
    }
  }
}
