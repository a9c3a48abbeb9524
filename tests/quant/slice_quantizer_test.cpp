// A tensor quantized slice by slice is the tensor quantized whole, bit for bit, whatever the slices; and what the
// sink is shown on the way decodes to the same values.
#include "quant/slices/slice_quantizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/dtype.h"
#include "tests/quant/quantized_oracle.h"
#include "tests/support/capture_copy.h"
#include "tests/support/testing.h"

using crumb::QuantizedTensor;
using crumb::QuantizedView;
using crumb::QuantSpec;
using crumb::testing::elements;
using crumb::testing::mixed_values;
using crumb::testing::same_bits;
using crumb::testing::Shape;

namespace {

/// A stream that gives away only what it promises: each piece in memory of its own, gone with the next call.
class ShortLived final : public crumb::ValueStream {
 public:
  explicit ShortLived(std::span<const float> all) : all_(all) {}
  std::span<const float> next(uint64_t count) override {
    const auto piece = all_.subspan(position_, std::min<uint64_t>(count, all_.size() - position_));
    position_ += piece.size();
    piece_ = std::vector<float>(piece.begin(), piece.end());
    most_ = std::max<uint64_t>(most_, piece.size());
    return piece_;
  }
  void rewind() override {
    position_ = 0;
    piece_ = {};
  }
  uint64_t most() const { return most_; }

 private:
  std::span<const float> all_;
  std::vector<float> piece_;
  uint64_t position_ = 0, most_ = 0;
};

/// What differs between slices of about `wish` values and the whole; empty when nothing does.
std::string difference(const QuantSpec& spec, const std::vector<float>& x, const Shape& shape,
                       uint64_t requested, int threads) {
  const QuantizedTensor whole = crumb::quantize(spec, x, shape, {.threads = 1, .name = "w"});
  const crumb::SliceSize size = crumb::slice_size(spec, shape, requested);
  if (!x.empty() && (size.values == 0 || size.unit == 0 || size.values > x.size() ||
                     (size.values < x.size() && size.values % size.unit != 0)))
    return "slices of " + std::to_string(size.values) + " in units of " + std::to_string(size.unit);
  if (size.values > std::max(requested, size.unit)) return "slices larger than asked for";
  crumb::CodeBytes codes;
  std::vector<float> seen, decoded;
  std::string fault;
  const auto sink = [&](std::span<const float> values, const QuantizedView& slice) {
    codes.insert(codes.end(), slice.codes.begin(), slice.codes.end());
    seen.insert(seen.end(), values.begin(), values.end());
    std::vector<float> part(values.size());
    crumb::dequantize(slice, part, threads);
    decoded.insert(decoded.end(), part.begin(), part.end());
    if (slice.codes.size() != slice.layout.codes_bytes || slice.scales.size() != slice.layout.scales_bytes ||
        slice.zeros.size() != slice.layout.zeros_bytes)
      fault = "a slice's parts have other sizes than its layout";
  };
  ShortLived stream(x);
  QuantizedTensor cut = crumb::quantize_slices(spec, shape, stream, size.values, sink, {.threads = threads});
  if (!fault.empty()) return fault;
  if (stream.most() > size.values) return "more was asked for than a slice";
  if (!same_bits(seen, x)) return "the sink was not shown the values";
  if (codes != whole.codes) return "codes differ";
  if (cut.scales != whole.scales) return "scales differ";
  if (cut.zeros != whole.zeros) return "zero points differ";
  if (cut.codebook != whole.codebook) return "codebooks differ";
  if (!same_bits(cut.tensor_scales, whole.tensor_scales)) return "tensor scales differ";
  if (cut.saturated_scales != whole.saturated_scales) return "saturated scales are counted otherwise";
  if (cut.spec != whole.spec || cut.shape != whole.shape) return "spec or shape differ";
  std::vector<float> expected(x.size());
  crumb::dequantize(whole.view(), expected, 1);
  return same_bits(decoded, expected) ? "" : "slices decode to other values than the whole";
}

const std::vector<Shape> kShapes = {{},     {0},      {1},       {5},          {1000},    {4099},
                                    {1, 1}, {1, 333}, {333, 1},  {17, 40},     {64, 96},  {7, 0},
                                    {0, 4}, {50, 33}, {3, 5, 7}, {9, 2, 8, 3}, {129, 64}, {31, 100}};

std::vector<std::string> specs() {
  std::vector<std::string> specs;
  const std::string formats[] = {
      "int4",    "int8", "int3", "uint4:zero=min", "uint5:zero=int", "uint2:zero=float", "int2h", "binary",
      "ternary", "nf4",  "e2m1", "e4m3",           "palette3",       "palette8",         "uint1"};
  const std::string blocks[] = {"tensor",       "channel",        "group=32:pad",
                                "group=10:pad", "block=4x16:pad", "block=16x3:pad"};
  const std::string options[] = {"",
                                 ":search=mse",
                                 ":search=percentile=97",
                                 ":search=lsq",
                                 ":search=hqo",
                                 ":round=stochastic=7",
                                 ":scale=e4m3",
                                 ":round=floor:scale=e8m0"};
  for (const std::string& format : formats) {
    const std::string head = format.substr(0, format.find(':'));
    const std::string tail = format.substr(head.size());
    for (const std::string& block : blocks) {
      for (const std::string& option : options) {
        const std::string text = head + ":" + block + tail + option;
        try {
          QuantSpec::parse(text);
          specs.push_back(text);
        } catch (const crumb::Error&) {  // options that this format does not have
        }
      }
    }
  }
  for (const char* text :
       {"mxfp4:pad", "nvfp4:pad", "mxfp8_e4m3:pad", "nvfp4:search=mse:pad", "mxint8:pad"}) {
    try {
      QuantSpec::parse(text);
      specs.emplace_back(text);
    } catch (const crumb::Error&) {  // a name that is not there
    }
  }
  return specs;
}

}  // namespace

TEST_CASE("slices give the codes of the whole") {
  const std::vector<std::string> all = specs();
  REQUIRE(all.size() > 300);
  const bool slow = crumb::testing::slow();
  size_t number = 0, checked = 0;
  for (const std::string& text : all) {
    const QuantSpec spec = QuantSpec::parse(text);
    for (const Shape& shape : kShapes) {
      ++number;
      const std::vector<float> x = mixed_values(elements(shape), number);
      const bool long_search = spec.search == crumb::Search::kHqo || spec.search == crumb::Search::kMse;
      if (!slow && number % (long_search ? 17 : 3) != 0) continue;
      for (const uint64_t requested : {uint64_t{1}, uint64_t{100}, uint64_t{1500}, uint64_t{1} << 30}) {
        if (!slow && requested == 100 && number % 2 != 0) continue;
        const int threads = 1 + static_cast<int>(number % 3);
        const std::string fault = difference(spec, x, shape, requested, threads);
        if (!fault.empty())
          FAIL_CHECK(text << " on " << crumb::shape_text(shape) << " by " << requested << ": " << fault);
        ++checked;
      }
    }
  }
  CHECK(checked > 3000);
}

TEST_CASE("slices of a large tensor that is one block, or one row") {
  // Beyond the sizes at which searches change their ways: 2^16 for percentiles, 2^20 for codebooks.
  const struct {
    const char* spec;
    Shape shape;
  } cases[] = {
      {"int8:tensor:search=percentile=99.9", {300, 500}},
      {"uint8:tensor:search=percentile=99.9:zero=int", {200001}},
      {"palette4:tensor", {1100, 1001}},
      {"palette2:group=100", {1100, 1000}},
      {"int4:tensor:search=mse", {1, 100003}},
      {"int4:tensor:search=mse", {300, 333}},
      {"int3:group=128:pad", {1, 100003}},
      {"nvfp4:pad", {1, 100003}},
  };
  for (const auto& [text, shape] : cases) {
    const std::vector<float> x = mixed_values(elements(shape), 5);
    for (const uint64_t requested : {uint64_t{5000}, uint64_t{70000}}) {
      CAPTURE_COPY(text);
      CAPTURE(requested);
      CHECK(difference(QuantSpec::parse(text), x, shape, requested, 2) == "");
    }
  }
}

TEST_CASE("a value that is not finite is named whatever slice it lies in") {
  const Shape shape = {40, 64};
  for (const char* text :
       {"int4:group=32", "int8:tensor", "int8:tensor:search=mse", "palette3", "nvfp4", "int8"}) {
    const QuantSpec spec = QuantSpec::parse(text);
    for (const uint64_t place : {uint64_t{0}, uint64_t{1300}, uint64_t{2559}}) {
      std::vector<float> x = mixed_values(elements(shape), 3);
      for (float& v : x) v = std::isfinite(v) ? v : 0;
      x[place] = std::numeric_limits<float>::quiet_NaN();
      ShortLived stream(x);
      try {
        crumb::quantize_slices(spec, shape, stream, 320, {}, {.name = "layer.weight"});
        FAIL("nothing was thrown");
      } catch (const crumb::Error& error) {
        CHECK(crumb::testing::says(error.what(), {"layer.weight", "holds 1 values", "NaN"}));
        CHECK(crumb::testing::says(error.what(), {("index " + std::to_string(place) + " of").c_str()}));
      }
    }
  }
}

TEST_CASE("working bytes: what searches and zero points hold beside what every slice does") {
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{64, 96}, {7, 5}, {1, 4096}}) {
    const uint64_t all = shape[0] * shape[1];
    for (const uint64_t slice : {all, all / 2}) {
      const auto bytes = [&](const std::string& spec) {
        return crumb::slice_working_bytes(QuantSpec::parse(spec), shape, slice);
      };
      CAPTURE(all);
      CAPTURE(slice);
      CHECK(bytes("int4:channel:search=hqo") - bytes("int4:channel") == 8 * shape[1]);
      CHECK(bytes("int4:tensor:search=hqo") - bytes("int4:tensor") == 8 * all);
      CHECK(bytes("int4:group=32:pad:search=hqo") - bytes("int4:group=32:pad") ==
            8 * std::min<uint64_t>(32, all));
      CHECK(bytes("int4:channel:search=lsq") == bytes("int4:channel"));
      CHECK(bytes("int4:channel") > slice + 4 * shape[0]);
      // A zero point of four bits in the file, and two bytes for it while it is packed.
      CHECK(bytes("int4:channel:zero=int") - bytes("int4:channel") == (shape[0] * 4 + 7) / 8 + 2 * shape[0]);
      CHECK(bytes("palette4:tensor") > bytes("int4:tensor") + 4 * slice);
    }
  }
}

TEST_CASE("an exception of the sink reaches the caller") {
  const std::vector<float> x = mixed_values(6400, 1);
  crumb::SpanStream stream(x);
  int calls = 0;
  const auto sink = [&](std::span<const float>, const QuantizedView&) {
    if (++calls == 3) throw crumb::Error("enough");
  };
  CHECK_THROWS_WITH(
      crumb::quantize_slices(QuantSpec::parse("int4:group=32"), Shape{100, 64}, stream, 640, sink), "enough");
  CHECK(calls == 3);
}
