#include "formats/safetensors/sharded_writer.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>

#include "base/files/mapped_file.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;
using testing::says;

std::vector<TensorDescription> bytes_of(const std::vector<std::pair<std::string, std::uint64_t>>& sizes) {
  std::vector<TensorDescription> tensors;
  for (const auto& [name, size] : sizes) tensors.push_back({name, DType::kU8, {size}});
  return tensors;
}

std::vector<std::vector<std::string>> names_of(const ShardPlan& plan) {
  std::vector<std::vector<std::string>> names;
  for (const Shard& shard : plan.shards) {
    names.emplace_back();
    for (const TensorDescription& tensor : shard.tensors) names.back().push_back(tensor.name);
  }
  return names;
}

std::set<std::string> listing(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void touch(const fs::path& path) { std::ofstream(path) << "x"; }

/// Every tensor's bytes are its number, counted in tensors().
void write_all(ShardedSafetensorsWriter& writer) {
  for (std::size_t i = 0; i < writer.tensors().size(); ++i) {
    const TensorDescription& tensor = writer.tensors()[i];
    const std::vector<std::byte> bytes(tensor_byte_size(tensor.dtype, tensor.shape).value(), std::byte(i));
    writer.write(tensor.name, bytes);
  }
}

template <class Work>
std::string why(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no failure";
}

TEST_CASE("shards are filled in the order of names until the size would be passed") {
  using Names = std::vector<std::vector<std::string>>;
  const auto split = [](const std::vector<std::pair<std::string, std::uint64_t>>& sizes, std::uint64_t most) {
    return names_of(plan_shards(bytes_of(sizes), most));
  };
  CHECK(split({{"b", 4}, {"a", 4}, {"c", 4}}, 8) == Names{{"a", "b"}, {"c"}});
  CHECK(split({{"a", 4}, {"b", 5}, {"c", 4}}, 8) == Names{{"a"}, {"b"}, {"c"}});
  CHECK(split({{"a", 1}, {"b", 100}, {"c", 1}, {"d", 1}}, 8) == Names{{"a"}, {"b"}, {"c", "d"}});
  CHECK(split({{"a", 100}, {"b", 0}, {"c", 1}}, 8) == Names{{"a", "b"}, {"c"}});
  CHECK(split({{"a", 4}, {"b", 4}}, 8) == Names{{"a", "b"}});
  CHECK(split({}, 8) == Names{{}});
  const ShardPlan plan = plan_shards(bytes_of({{"a", 4}, {"b", 4}, {"c", 4}}), 4);
  CHECK(plan.tensor_bytes == 12);
  CHECK(plan.files() ==
        std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                 "model-00003-of-00003.safetensors", "model.safetensors.index.json"});
  CHECK(plan_shards(bytes_of({{"a", 4}}), 4).files() == std::vector<std::string>{"model.safetensors"});
  CHECK(says(why([] { plan_shards(bytes_of({{"a", 1}, {"a", 1}}), 4); }), {"'a'", "taken"}));
  CHECK(says(why([] { plan_shards(bytes_of({{"\xff", 1}}), 4); }), {"not UTF-8"}));
}

TEST_CASE("what is written is read back, shard by shard, with its index") {
  std::mt19937 random(4);
  for (int round = 0; round < 30; ++round) {
    const testing::TempDir dir;
    const fs::path folder = dir.path() / "model";
    std::vector<TensorDescription> tensors;
    for (unsigned i = 0; i < 1 + random() % 12; ++i)
      tensors.push_back({"t" + std::to_string(random() % 1000) + "." + std::to_string(i),
                         random() % 2 ? DType::kF32 : DType::kU8,
                         {random() % 5, random() % 5}});
    const std::uint64_t most = 1 + random() % 200;
    ShardPlan plan = plan_shards(tensors, most);
    const ShardPlan kept = plan;
    ShardedSafetensorsWriter writer(folder, std::move(plan), {{"format", "pt"}});
    write_all(writer);
    CHECK_FALSE(fs::exists(folder / kSafetensorsIndex));
    writer.commit();
    const std::vector<std::string> files = kept.files();
    REQUIRE(listing(folder) == std::set<std::string>(files.begin(), files.end()));
    std::uint64_t total = 0;
    std::map<std::string, std::string> found;
    for (const Shard& shard : kept.shards) {
      const MappedFile file = MappedFile::open(folder / shard.file).take();
      std::uint64_t size = 0;
      const SafetensorsHeader header = parse_safetensors(file.bytes()).take();
      REQUIRE(header.metadata.at("format") == "pt");
      for (const SafetensorsTensor& tensor : header.tensors) {
        size += tensor.bytes;
        found[tensor.name] = shard.file;
        const auto at = std::ranges::find(writer.tensors(), tensor.name, &TensorDescription::name);
        for (const std::byte byte : file.bytes().subspan(tensor.offset, tensor.bytes))
          REQUIRE(byte == std::byte(at - writer.tensors().begin()));
      }
      if (size > most)
        REQUIRE(std::ranges::count_if(header.tensors, [](auto& t) { return t.bytes > 0; }) == 1);
      total += size;
    }
    REQUIRE(found.size() == tensors.size());
    if (!kept.has_index()) continue;
    const auto index = nlohmann::json::parse(read_text_file(folder / kSafetensorsIndex, 1 << 20).take());
    REQUIRE(index.size() == 2);
    REQUIRE(index["metadata"]["total_size"] == total);
    REQUIRE(index["weight_map"].get<std::map<std::string, std::string>>() == found);
  }
}

TEST_CASE("a folder of other tensor files is refused and left alone") {
  for (const char* other : {"model.safetensors", "model-00001-of-00003.safetensors", "x.safetensors",
                            "other.safetensors.index.json"}) {
    const testing::TempDir dir;
    touch(dir.path() / other);
    touch(dir.path() / "config.json");
    CHECK(says(why([&] {
                 ShardedSafetensorsWriter(dir.path(), plan_shards(bytes_of({{"a", 4}, {"b", 4}}), 4));
               }),
               {other, "mixed"}));
    CHECK(listing(dir.path()) == std::set<std::string>{other, "config.json"});
  }
  const testing::TempDir dir;
  touch(dir.path() / "file");
  CHECK(says(why([&] { ShardedSafetensorsWriter(dir.path() / "file", plan_shards({}, 4)); }),
             {"it is a file"}));
  CHECK(says(why([&] { ShardedSafetensorsWriter(dir.path() / "a/b", plan_shards({}, 4)); }), {"a/b"}));
  touch(dir.path() / kSafetensorsIndex);  // of an older model in shards; one file has none
  CHECK(says(why([&] { ShardedSafetensorsWriter(dir.path(), plan_shards({}, 4)); }), {"index.json"}));
}

TEST_CASE("an interrupted run leaves no index and no files of its own; a second run at once is refused") {
  const testing::TempDir dir;
  const fs::path folder = dir.path() / "model";
  const auto plan = [] { return plan_shards(bytes_of({{"a", 4}, {"b", 4}, {"c", 4}}), 4); };
  const std::vector<std::byte> four(4);
  {
    ShardedSafetensorsWriter writer(folder, plan());
    CHECK(says(why([&] { ShardedSafetensorsWriter(folder, plan()); }), {"another run"}));
    writer.write("a", four);
    writer.write("b", four);
    CHECK(fs::exists(folder / "model-00001-of-00003.safetensors"));
    CHECK(says(why([&] { writer.write("a", four); }), {"'a'", "not expected now"}));
    CHECK(says(why([&] { writer.write("d", four); }), {"'d'", "not expected now"}));
  }
  CHECK_FALSE(fs::exists(folder));

  ShardedSafetensorsWriter whole(folder, plan());
  write_all(whole);
  whole.commit();
  REQUIRE(fs::exists(folder / kSafetensorsIndex));
  {
    ShardedSafetensorsWriter again(folder, plan());
    again.write("a", four);
    CHECK(fs::exists(folder / kSafetensorsIndex));  // nothing was replaced so far
    again.write("b", four);
    CHECK_FALSE(fs::exists(folder / kSafetensorsIndex));
    CHECK(says(why([&] { again.commit(); }), {"'c' is incomplete"}));
  }
  CHECK_FALSE(fs::exists(folder / kSafetensorsIndex));
  ShardedSafetensorsWriter last(folder, plan());
  write_all(last);
  last.commit();
  CHECK(listing(folder).size() == 4);
}

}  // namespace
}  // namespace crumb
