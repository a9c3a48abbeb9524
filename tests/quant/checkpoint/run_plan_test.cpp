// What a run is foreseen to hold in memory, and how tensors are cut, for checkpoints of any size: nothing is read.
#include "quant/checkpoint/run_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/crumb_file/writer.h"
#include "formats/safetensors/safetensors.h"
#include "quant/slices/slice_quantizer.h"
#include "tests/support/testing.h"

using crumb::DType;
using crumb::PlannedTensor;
using crumb::QuantSpec;
using crumb::Recipe;
using crumb::RunPlan;
using crumb::TensorEntry;

namespace {

constexpr uint64_t kMega = 1'000'000, kBase = 8000 * kMega;  // more than the tests themselves ever held
constexpr uint64_t kWidestSlice = uint64_t{1} << 20, kNarrowestSlice = uint64_t{1} << 16;

/// A checkpoint on the disk, of which a plan takes the configuration and the other files: there are none.
class Tiny {
 public:
  Tiny() {
    crumb::SafetensorsWriter file(folder_.path() / "model.safetensors", {{"t", DType::kBool, {1}}});
    file.write("t", std::vector<std::byte>(1));
    file.commit();
  }
  const std::filesystem::path& folder() const { return folder_.path(); }
  crumb::Checkpoint open() const {
    return crumb::Checkpoint::open(folder_.path() / "model.safetensors").take();
  }

 private:
  crumb::testing::TempDir folder_;
};

struct Drawn {
  std::vector<TensorEntry> entries;
  std::vector<PlannedTensor> plan;
};

Drawn drawn(std::mt19937& engine) {
  const DType types[] = {DType::kF32, DType::kF32, DType::kF16,   DType::kBF16,
                         DType::kF64, DType::kF4,  DType::kF6E2M3};
  const char* specs[] = {
      "int4:channel",        "int8:tensor", "int4:group=32:pad",    "int3:group=64:pad:zero=int",
      "nf4:group=64:pad",    "mxfp4:pad",   "palette4:tensor",      "int8:channel:search=mse",
      "int4:block=8x32:pad", "e4m3:tensor", "palette2:group=16:pad"};
  Drawn made;
  const size_t count = 1 + engine() % 4;
  for (size_t i = 0; i < count; ++i) {
    TensorEntry entry;
    entry.name = "t" + std::to_string(i);
    entry.dtype = types[engine() % std::size(types)];
    const uint64_t rows = engine() % 6 == 0 ? 0 : 1 + engine() % (engine() % 2 ? 9000 : 5);
    entry.shape = {rows, 8 * (1 + engine() % (engine() % 2 ? 700 : 3))};
    entry.bytes = entry.shape[0] * entry.shape[1] * crumb::dtype_bits(entry.dtype) / 8;
    made.entries.push_back(entry);
  }
  for (const TensorEntry& entry : made.entries) {
    PlannedTensor planned{.entry = &entry, .spec = {}};
    if (engine() % 4 != 0) planned.spec = QuantSpec::parse(specs[engine() % std::size(specs)]);
    made.plan.push_back(planned);
  }
  return made;
}

/// The sum of what run_plan.h says is held, from the plan's own slices.
uint64_t peak_of(const Drawn& drawn, const RunPlan& run, int zstd, int threads) {
  uint64_t most_read = 0, quantizing = 0, part = 0, before = 0;
  for (size_t i = 0; i < drawn.plan.size(); ++i) {
    const TensorEntry& entry = drawn.entries[i];
    const crumb::SpecOrKeep& spec = drawn.plan[i].spec;
    most_read = std::max(most_read, run.jobs[i].slice_bytes);
    const uint64_t values = run.slices[i];
    uint64_t own = before;
    before = 0;
    if (spec) {
      own += values + (entry.dtype == DType::kF32 ? 0 : 4 * values) +
             slice_working_bytes(*spec, entry.shape, values);
      const auto layout = crumb::encoded_layout(spec->encoding(entry.shape), entry.shape).take();
      before = layout.total_bytes() - layout.codes_bytes;
    }
    quantizing = std::max(quantizing, own);
    for (const auto& blob : run.header.tensors[i].parts) part = std::max(part, blob ? blob->raw : 0);
  }
  const uint64_t waiting = std::max<uint64_t>(2 * most_read, 65536);
  CHECK(run.most_waiting == waiting);
  return kBase + 20 * kMega + static_cast<uint64_t>(threads) * kMega +
         2 * crumb::write_crumb_header(run.header).size() + 2000 * drawn.plan.size() + 2 * waiting +
         2 * most_read + quantizing + (zstd > 0 ? part : 0) + crumb::zstd_working_bytes(zstd);
}

}  // namespace

TEST_CASE("run plans: slices are whole units and whole bytes, and memory is the sum of what is held") {
  const Tiny tiny;
  const crumb::Checkpoint checkpoint = tiny.open();
  std::mt19937 engine(11);
  for (int round = 0; round < 400; ++round) {
    const Drawn made = drawn(engine);
    const int zstd = engine() % 2 ? 3 : 0, threads = 1 + static_cast<int>(engine() % 5);
    const bool roomy = engine() % 2;
    const RunPlan run =
        crumb::plan_run(checkpoint, made.plan, {.zstd = zstd}, roomy ? 100 * kBase : 0, threads, kBase);
    const uint64_t requested = roomy ? kWidestSlice : kNarrowestSlice;
    for (size_t i = 0; i < made.plan.size(); ++i) {
      const TensorEntry& entry = made.entries[i];
      const uint64_t bits = crumb::dtype_bits(entry.dtype), all = entry.shape[0] * entry.shape[1];
      CAPTURE(entry.shape[0]);
      CAPTURE(entry.shape[1]);
      CAPTURE(bits);
      const uint64_t bytes = run.jobs[i].slice_bytes;
      CHECK(run.jobs[i].entry == &entry);
      if (!made.plan[i].spec) {
        CHECK(run.slices[i] == 0);
        CHECK(bytes == std::min(requested * 4 / 24 * 24, entry.bytes));
        continue;
      }
      const QuantSpec& spec = *made.plan[i].spec;
      CAPTURE(spec.to_string());
      const crumb::SliceSize size = crumb::slice_size(spec, entry.shape, requested);
      const uint64_t values = run.slices[i];
      CHECK(bytes == values * bits / 8);
      if (all == 0) {
        CHECK(values == 0);
      } else if (bits >= 8) {
        CHECK(values == size.values);
      } else {
        CHECK(values <= all);
        CHECK((values == all || (values % size.unit == 0 && values * bits % 8 == 0)));
        CHECK((values == all || values > requested - 8 * size.unit || values == 8 * size.unit));
        CHECK((values <= requested || values <= 8 * size.unit));
      }
    }
    CHECK(run.peak_memory_bytes == peak_of(made, run, zstd, threads));
  }
}

TEST_CASE(
    "run plans: the header has the architecture that a configuration names first, or else its type of "
    "model") {
  const std::pair<const char*, const char*> configurations[] = {
      {R"({"architectures": ["A", "B"], "model_type": "m"})", "A"},
      {R"({"architectures": [], "model_type": "m"})", "m"},
      {R"({"architectures": [3], "model_type": "m"})", "m"},
      {R"({"architectures": "A", "model_type": "m"})", "m"},
      {R"({"architectures": {"0": "A"}, "model_type": "m"})", "m"},
      {R"({"model_type": "m"})", "m"},
      {R"({"model_type": 3})", ""},
      {R"({"architectures": []})", ""},
      {R"({})", ""},
      {nullptr, ""},
  };
  for (const auto& [text, architecture] : configurations) {
    const Tiny tiny;
    if (text) std::ofstream(tiny.folder() / "config.json") << text;
    const crumb::Checkpoint checkpoint = crumb::Checkpoint::open(tiny.folder()).take();
    const RunPlan run = crumb::plan_run(checkpoint, {}, {}, 0, 1, kBase);
    CHECK(run.header.model == architecture);
  }
}

TEST_CASE("run plans: a memory that is too little is refused with the least, which is enough") {
  const Tiny tiny;
  const crumb::Checkpoint checkpoint = tiny.open();
  std::mt19937 engine(12);
  for (int round = 0; round < 100; ++round) {
    const Drawn made = drawn(engine);
    const auto planned = [&](uint64_t memory) {
      return crumb::plan_run(checkpoint, made.plan, {}, memory, 2, kBase);
    };
    std::string message;
    try {
      (void)planned(1);
      FAIL("not refused");
    } catch (const crumb::Error& error) {
      CHECK(error.kind() == crumb::ErrorKind::kUsage);
      message = error.what();
    }
    const size_t at = message.find("the least is ");
    REQUIRE(at != std::string::npos);
    CHECK(message.starts_with("a memory of 1 MB is too little for this run"));
    const uint64_t least = std::stoull(message.substr(at + 13)) * kMega;
    CHECK(planned(least).peak_memory_bytes <= least);
    CHECK_THROWS_WITH_AS((void)planned(least - 3 * kMega), doctest::Contains("too little"), crumb::Error);
  }
}
