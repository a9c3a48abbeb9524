// Packed files that are whole: what was written is read, byte for byte; nothing depends on the data but the
// data.
#include "formats/crumb_file/crumb_file.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/files/interrupt.h"
#include "formats/number/block_format.h"
#include "tests/formats/crumb_file/samples.h"
#include "tests/support/sanitized.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::normal_values;
using testing::TempDir;
using testing::verdict;
using testing::Wanted;
using testing::write_sample;

std::vector<std::string> every_spec() {
  std::vector<std::string> specs;
  for (const NumberFormat& format : number_formats()) {
    if (format.scale_only) continue;
    const std::string name(format.name);
    specs.insert(specs.end(), {name + ":tensor", name + ":channel:scale=bf16", name + ":group=5:pad",
                               name + ":block=2x3:pad:scale=e4m3", name + ":group=4:pad:scale=e8m0"});
    if (format.has_zero_point())
      specs.insert(specs.end(), {name + ":group=6:pad:zero=int", name + ":zero=float"});
    if (format.has_range())
      specs.insert(specs.end(), {name + ":range=full", name + ":range=narrow:zero=int"});
  }
  for (const BlockFormat& format : kBlockFormats) specs.push_back(std::string(format.name) + ":pad");
  return specs;
}

const std::vector<std::vector<uint64_t>> kShapes = {{3, 13}, {2, 3, 2, 2}, {7}, {}, {0, 5}, {4, 0}, {1, 1}};

TEST_CASE("packed file: every number format comes back byte for byte, compressed or not") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (const int level : {0, 1, 19}) {
    std::vector<QuantizedTensor> tensors;
    CrumbHeader plan;
    for (const std::string& line : every_spec()) {
      if (level == 19 && tensors.size() > 100) break;  // slow, and the same
      if (level == 1 && testing::kSanitized && tensors.size() > 500) break;
      const QuantSpec spec = QuantSpec::parse(line);
      for (const auto& shape : kShapes) {
        tensors.push_back(quantize(spec, testing::normal_values(testing::elements(shape), tensors.size()),
                                   shape, {.threads = 1}));
        plan.tensors.push_back(plan_encoded("t" + std::to_string(tensors.size()), DType::kBF16, shape,
                                            tensors.back().spec, tensors.back().encoding));
      }
    }
    CrumbWriter writer(path, plan, level);
    for (const QuantizedTensor& tensor : tensors) write_encoded(writer, tensor);
    const uint64_t size = writer.finish();
    CHECK(size == std::filesystem::file_size(path));
    CHECK(verdict(path) == "");

    const CrumbFile file = CrumbFile::open(path).take();
    REQUIRE(file.header().tensors.size() == tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      CAPTURE(tensors[i].spec);
      const PackedTensor& packed = file.header().tensors[i];
      CHECK(packed.name == "t" + std::to_string(i + 1));
      CHECK(packed.dtype == DType::kBF16);
      CHECK(packed.shape == tensors[i].shape);
      CHECK(packed.spec == tensors[i].spec);
      CHECK(*packed.encoding == tensors[i].encoding);
      const LoadedTensor loaded = LoadedTensor::load(file, packed).take();
      const QuantizedView& view = loaded.view();
      CHECK(std::ranges::equal(view.codes, tensors[i].codes));
      CHECK(std::ranges::equal(view.scales, tensors[i].scales));
      CHECK(std::ranges::equal(view.zeros, tensors[i].zeros));
      CHECK(std::ranges::equal(view.codebook, tensors[i].codebook));
      CHECK(std::ranges::equal(view.tensor_scales, tensors[i].tensor_scales));
    }
  }
}

const std::vector<Wanted> kWanted = {{"a.weight", {5, 24}, "int4:group=8"},
                                     {"b.weight", {4, 16}, "nvfp4"},
                                     {"c.weight", {3, 9}, "palette3"},
                                     {"d.weight", {2, 7}, "uint3:zero=int"},
                                     {"bias", {9}, ""}};

TEST_CASE("packed file: the header's length depends on names, shapes and specs only") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const size_t length = testing::header_of(write_sample(path, kWanted)).size();
  CHECK(testing::header_of(write_sample(path, kWanted, 0, 99, std::string(1000000, ' '))).size() == length);
  CHECK(testing::header_of(write_sample(path, kWanted, 1)).size() == length);
  CHECK(testing::header_of(write_sample(path, kWanted, 19, 5, "")).size() == length);
  CHECK(verdict(path) == "");
}

TEST_CASE("packed file: the same content gives the same bytes") {
  const TempDir folder;
  for (const int level : {0, 3}) {
    const std::string once = write_sample(folder.path() / "once.crumb", kWanted, level);
    CHECK(write_sample(folder.path() / "again.crumb", kWanted, level) == once);
    CHECK(write_sample(folder.path() / "other.crumb", kWanted, level, 77) != once);
  }
}

TEST_CASE("packed file: names of any kind, in any number, and none at all") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const std::vector<std::string> names = {"plain",
                                          "with \"quotes\" \\ and\nlines",
                                          "größe.重み.🍞",
                                          std::string(1, '\0'),
                                          std::string(20000, 'x'),
                                          "file config.json",
                                          "config.json",
                                          "'",
                                          "\x7f"};
  std::vector<Wanted> wanted;
  wanted.reserve(names.size());
  for (const std::string& name : names) wanted.push_back({name, {2, 3}, wanted.size() % 2 ? "int8" : ""});
  write_sample(path, wanted);
  CHECK(verdict(path) == "");
  const CrumbFile file = CrumbFile::open(path).take();
  for (const std::string& name : names) {
    REQUIRE(file.find(name) != nullptr);
    CHECK(file.find(name)->name == name);
  }
  CHECK(file.find("absent") == nullptr);
  CHECK(file.find_file("config.json") != nullptr);
  CHECK(file.find_file("absent") == nullptr);

  write_sample(path, {});
  CHECK(verdict(path) == "");
  write_sample(path, {{"empty", {0}, ""}, {"also", {3, 0, 2}, "int4"}}, 0, 1, "");
  CHECK(verdict(path) == "");
}

TEST_CASE("packed file: contents across the slices in which they are checked") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  // Rows of 3 bits that end inside a byte, longer than what is looked at at once; blobs over 1 MiB.
  for (const int level : {0, 1}) {
    write_sample(
        path,
        {{"w", {3, 1000003}, "int3:group=7:pad:zero=int"}, {"v", {70001, 5}, "uint5:channel:zero=float"}},
        level);
    CHECK(verdict(path) == "");
  }
}

TEST_CASE("packed file: the writer refuses what was not planned, and then leaves no file") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const auto plan = [] {
    CrumbHeader header;
    header.tensors.push_back(plan_encoded("w", DType::kF32, {2, 4}, "int8:channel",
                                          QuantSpec::parse("int8").encoding(std::vector<uint64_t>{2, 4})));
    return header;
  };
  const std::vector<std::byte> eight(8), nine(9);
  {
    CrumbWriter writer(path, plan());
    CHECK_THROWS_AS(writer.write(nine), Error);
  }
  {
    CrumbWriter writer(path, plan());
    writer.write(eight);
    CHECK_THROWS_AS(writer.finish(), Error);
  }
  {
    CrumbWriter writer(path, plan());
    writer.write(eight);
    writer.write(eight);
    CHECK_THROWS_AS(writer.write(eight), Error);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("packed file: checking one stops when a person asks") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  write_sample(path, kWanted);
  const CrumbFile file = CrumbFile::open(path).take();
  interrupt_requested() = true;
  CHECK_THROWS_AS((void)check_packed_file(file), Interrupted);
  interrupt_requested() = false;
  CHECK(check_packed_file(file).ok());
}

}  // namespace
}  // namespace crumb
