// What is written in two files, the network and its data, replaces both or neither.
#include <doctest/doctest.h>

#include <random>

#include "graph/onnx/read.h"
#include "graph/onnx/write.h"
#include "tests/graph/node_builder.h"
#include "tests/support/testing.h"

namespace crumb::graph {
namespace {

namespace fs = std::filesystem;
using testing::content;

Graph drawn(std::mt19937& random) {
  NodeBuilder build;
  std::vector<float> values(1024 + random() % 3000);  // 1024 elements and more go beside
  for (float& value : values) value = static_cast<float>(random() % 1000);
  const auto size = static_cast<std::int64_t>(values.size());
  const std::string x = build.input("x", {size}), w = build.constant("w", Tensor::floats({size}, values));
  build.graph.outputs = {build.node("Add", {x, w})};
  return build.graph;
}

TEST_CASE("ONNX and its data: a check that fails leaves the older two, one that passes replaces both") {
  std::mt19937 random(73);
  const testing::TempDir folder;
  const fs::path path = folder.path() / "net.onnx", data = folder.path() / "net.onnx.data";
  Graph there = drawn(random);
  write_onnx(there, path, {}, 0);
  for (int round = 0; round < 100; ++round) {
    const Graph next = drawn(random);
    const std::string before = content(path), data_before = content(data);
    const bool fails = random() % 2 == 0;
    bool is_seen = false;
    const auto check = [&](const Graph& found) {
      CHECK(found.initializers == next.initializers);  // the new file's, in its new data
      is_seen = true;
      if (fails) throw Error("it is not what was meant");
    };
    if (fails) {
      CHECK_THROWS_AS(write_onnx(next, path, check, 0), Error);
      CHECK(content(path) == before);
      CHECK(content(data) == data_before);
    } else {
      write_onnx(next, path, check, 0);
      there = next;
    }
    CHECK(is_seen);
    CHECK(read_onnx(path).initializers == there.initializers);
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++files;
    CHECK(files == 2);
  }
}

}  // namespace
}  // namespace crumb::graph
