// The values of a packed file's tensors, by pieces: whatever is asked for at a time, however often from the front.
#include "quant/packed/packed_stream.h"

#include <doctest/doctest.h>

#include <bit>
#include <random>
#include <string>
#include <vector>

#include "tests/formats/crumb_file/samples.h"
#include "tests/support/testing.h"

using crumb::CrumbFile;
using crumb::PackedTensor;
using crumb::QuantSpec;
using crumb::ValueStream;
using crumb::testing::Wanted;

namespace {

const std::vector<std::string> kStreamSpecs = {"",
                                               "int2:channel",
                                               "int3:group=5:pad:zero=float",
                                               "int4:group=32:pad",
                                               "uint4:tensor:zero=int",
                                               "uint4:group=32:pad:zero=min",
                                               "int8:block=3x4:pad",
                                               "e2m1:channel",
                                               "nf4:group=8:pad",
                                               "nvfp4:pad",
                                               "int5:channel:search=kmeans"};
const std::vector<std::vector<uint64_t>> kStreamShapes = {{1},      {7, 9},       {3, 5, 4},
                                                          {40, 33}, {2, 70, 300}, {0, 6}};

/// Every (spec that parses, shape), by names that number them.
std::vector<Wanted> all_wanted() {
  std::vector<Wanted> wanted;
  for (const std::string& text : kStreamSpecs) {
    for (const auto& shape : kStreamShapes) {
      if (!text.empty()) {
        try {
          if (QuantSpec::parse(text).misfit(shape)) continue;
        } catch (const crumb::Error&) {  // options that this format does not have
          continue;
        }
      }
      wanted.push_back({"t" + std::to_string(wanted.size()), shape, text});
    }
  }
  return wanted;
}

/// What the file was made from, decoded one weight at a time.
std::vector<float> values_of(const Wanted& wanted, uint64_t seed) {
  const std::vector<float> x = crumb::testing::normal_values(crumb::testing::elements(wanted.shape), seed);
  if (wanted.spec.empty()) return x;
  const crumb::QuantizedTensor made =
      crumb::quantize(QuantSpec::parse(wanted.spec), x, wanted.shape, {.threads = 1});
  const crumb::RowDecoder decoder(made.view());
  std::vector<float> values;
  for (uint64_t row = 0; row < decoder.rows(); ++row) {
    for (uint64_t col = 0; col < decoder.cols(); ++col) values.push_back(decoder.value_ref(row, col));
  }
  return values;
}

bool same(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(
      a, b, [](float x, float y) { return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y); });
}

}  // namespace

TEST_CASE("packed streams: pieces of any size are the tensor, from the front as often as asked") {
  const crumb::testing::TempDir dir;
  const std::vector<Wanted> wanted = all_wanted();
  REQUIRE(wanted.size() > 45);
  std::mt19937_64 engine(1);
  for (const int level : {0, 3}) {
    const auto path = dir.path() / ("sample" + std::to_string(level) + ".crumb");
    crumb::testing::write_sample(path, wanted, level);
    const CrumbFile file = CrumbFile::open(path).take();
    for (size_t i = 0; i < wanted.size(); ++i) {
      CAPTURE(wanted[i].spec);
      CAPTURE(wanted[i].shape.size());
      const std::vector<float> expected = values_of(wanted[i], 1 + i);
      const auto stream =
          crumb::open_packed_stream(file, file.header().tensors[i], dir.path(), 1 + static_cast<int>(i % 3));
      for (int walk = 0; walk < 5; ++walk) {
        // The last walk goes to the end and once beyond; the others may stop anywhere.
        const uint64_t most = walk == 0 ? uint64_t{1} << 40 : 1 + engine() % (expected.size() + 2);
        std::vector<float> seen;
        while (walk == 4 || engine() % 8 != 0) {
          const uint64_t count = 1 + engine() % most;
          const std::span<const float> piece = stream->next(count);
          CHECK(piece.size() == std::min<uint64_t>(count, expected.size() - seen.size()));
          seen.insert(seen.end(), piece.begin(), piece.end());
          if (piece.empty()) break;
        }
        CHECK(same(seen, std::span(expected).first(seen.size())));
        if (walk == 4) CHECK(seen.size() == expected.size());
        stream->rewind();
      }
    }
  }
}

TEST_CASE("packed streams: what is kept is widened") {
  const crumb::testing::TempDir dir;
  const auto path = dir.path() / "kept.crumb";
  struct Kept {
    crumb::DType dtype;
    std::string bytes;
    std::vector<float> values;
  };
  const std::vector<Kept> all = {
      {crumb::DType::kF16, std::string("\x00\x3c\x00\xc0\x01\x00", 6), {1, -2, 0x1p-24F}},
      {crumb::DType::kBF16, std::string("\x80\x3f\x00\xc0\x01\x00", 6), {1, -2, 0x1p-133F}},
      {crumb::DType::kF32, std::string("\0\0\x80\x3f\0\0\0\xc0\1\0\0\0", 12), {1, -2, 0x1p-149F}},
  };
  crumb::CrumbHeader plan;
  for (const Kept& kept : all) {
    PackedTensor tensor;
    tensor.name = "t" + std::to_string(plan.tensors.size());
    tensor.dtype = kept.dtype;
    tensor.shape = {3};
    plan.tensors.push_back(tensor);
  }
  crumb::CrumbWriter writer(path, plan);
  for (const Kept& kept : all) writer.write(crumb::testing::bytes_of(kept.bytes));
  writer.finish();
  const CrumbFile file = CrumbFile::open(path).take();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto stream = crumb::open_packed_stream(file, file.header().tensors[i], dir.path(), 1);
    CHECK(same(stream->next(2), std::span(all[i].values).first(2)));
    CHECK(same(stream->next(2), std::span(all[i].values).last(1)));
    CHECK(stream->next(2).empty());
  }
}
