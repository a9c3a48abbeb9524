// A model's own functions: put in place of their calls, but not for ever, and not beyond all bounds. The files are
// seeds of the fuzz target.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "graph/onnx/read.h"
#include "tests/support/testing.h"

namespace crumb::graph {
namespace {

Result<Graph> parse(const char* name) {
  std::ifstream file(testing::repo_root() / "tests/fuzz/corpus/graph" / name, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(bytes.empty());
  return parse_onnx(std::as_bytes(std::span(bytes)), ".");
}

TEST_CASE("functions are put in place of their calls") {
  const auto graph = parse("function.onnx");
  REQUIRE(graph.ok());
  CHECK(graph.value().nodes.size() == 2);
}

TEST_CASE("functions that call themselves are refused") {
  for (const char* name : {"recursion.onnx", "recursions.onnx"}) {
    const auto graph = parse(name);
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.failure().message.find("calls itself") != std::string::npos);
  }
}

TEST_CASE("functions that use values which nothing makes are refused") {
  for (const char* name : {"unmade_input.onnx", "unmade_output.onnx"}) {
    const auto graph = parse(name);
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.failure().message.find("which nothing in it makes") != std::string::npos);
  }
}

TEST_CASE("functions that double the graph again and again are refused at once") {
  const auto graph = parse("doubling.onnx");  // 2^30 nodes
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.failure().message.find("call each other so often") != std::string::npos);
}

}  // namespace
}  // namespace crumb::graph
