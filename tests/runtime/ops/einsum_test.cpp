// Einsum against its definition: a sum over every place of every label.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "runtime/model.h"
#include "tests/support/samples.h"

using crumb::runtime::Array;
using crumb::runtime::Ints;

namespace {

struct Case {
  const char* equation;
  const char* plain;  ///< the same with every axis named, sizes of 1 that broadcast in capitals
  std::vector<Ints> shapes;
};

Array drawn(const Ints& shape, std::uint64_t seed) {
  Array made(crumb::graph::ElementType::kFloat, shape);
  const auto values = crumb::testing::normal_values(made.size(), seed);
  std::copy(values.begin(), values.end(), made.writable<float>().begin());
  return made;
}

std::vector<Array> run(const std::string& equation, const std::vector<Array>& inputs) {
  crumb::graph::Graph graph;
  crumb::graph::Node node{.name = "sum",
                          .op = "Einsum",
                          .domain = "",
                          .version = 12,
                          .inputs = {},
                          .outputs = {"y"},
                          .attributes = {{"equation", equation}}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    graph.inputs.push_back("x" + std::to_string(i));
    node.inputs.push_back(graph.inputs.back());
  }
  graph.outputs = {"y"};
  graph.nodes = {node};
  return crumb::runtime::Model(graph).run(inputs, {.threads = 2});
}

/// By the equation with every axis named.
std::vector<double> expected(const std::string& plain, const std::vector<Array>& inputs, Ints& shape) {
  const std::size_t arrow = plain.find("->"), comma = plain.find(',');
  std::vector<std::string> words{plain.substr(0, std::min(arrow, comma))};
  if (comma != std::string::npos) words.push_back(plain.substr(comma + 1, arrow - comma - 1));
  const std::string output = plain.substr(arrow + 2);
  std::map<char, std::int64_t> sizes, place;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::size_t axis = 0; axis < words[i].size(); ++axis)
      sizes[words[i][axis]] = inputs[i].shape()[axis];
  }
  const auto at = [&](const std::string& word, const Ints& own) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < word.size(); ++axis) offset = offset * own[axis] + place[word[axis]];
    return static_cast<std::size_t>(offset);
  };
  shape.clear();
  std::int64_t count = 1, all = 1;
  for (const char label : output) shape.push_back(sizes[label]), count *= sizes[label];
  for (const auto& [label, size] : sizes) all *= size;
  std::vector<double> sums(static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < all; ++n) {
    std::int64_t rest = n;
    for (const auto& [label, size] : sizes) place[label] = rest % size, rest /= size;
    double product = 1;
    for (std::size_t i = 0; i < words.size(); ++i)
      product *= static_cast<double>(inputs[i].values<float>()[at(words[i], inputs[i].shape())]);
    sums[at(output, shape)] += product;
  }
  return sums;
}

}  // namespace

TEST_CASE("einsum: every form is the sum that it says") {
  const std::vector<Case> cases = {
      {"ij,jk->ik", "ij,jk->ik", {{3, 4}, {4, 5}}},
      {"ij,jk", "ij,jk->ik", {{3, 4}, {4, 5}}},
      {"b i d , b j d -> b i j", "bid,bjd->bij", {{2, 3, 17}, {2, 5, 17}}},
      {"bhqk,bkhd->bqhd", "bhqk,bkhd->bqhd", {{2, 3, 4, 5}, {2, 5, 3, 6}}},
      {"i,j->ji", "i,j->ji", {{3}, {4}}},
      {"i,i", "i,i->", {{40}, {40}}},
      {"ij->ji", "ij->ji", {{3, 4}}},
      {"ba", "ba->ab", {{3, 4}}},
      {"ij->i", "ij->i", {{3, 40}}},
      {"ii->i", "ii->i", {{4, 4}}},
      {"bii->b", "bii->b", {{2, 4, 4}}},
      {"...ij,...jk->...ik", "abij,abjk->abik", {{2, 3, 4, 5}, {2, 3, 5, 2}}},
      {"...ij,jk->...ik", "abij,jk->abik", {{2, 3, 4, 5}, {5, 2}}},
      {"...ij,...jk", "abij,Bbjk->abik", {{2, 3, 4, 5}, {1, 3, 5, 2}}},
      {"bij,j->i", "bij,j->i", {{3, 4, 5}, {5}}},
      {"abc,cd->dab", "abc,cd->dab", {{2, 3, 4}, {4, 5}}},
      {"ij,jk->ik", "ij,jk->ik", {{3, 0}, {0, 5}}},
      {"ij,jk->ik", "ij,jk->ik", {{0, 2}, {2, 5}}},
  };
  for (const Case& one : cases) {
    CAPTURE(std::string(one.equation));
    std::vector<Array> inputs;
    for (const Ints& shape : one.shapes) inputs.push_back(drawn(shape, inputs.size() + 3));
    Ints shape;
    const auto sums = expected(one.plain, inputs, shape);
    const Array made = run(one.equation, inputs)[0];
    REQUIRE(made.shape() == shape);
    for (std::size_t i = 0; i < sums.size(); ++i)
      REQUIRE(std::fabs(static_cast<double>(made.values<float>()[i]) - sums[i]) < 1e-4);
  }
}

TEST_CASE("einsum: what is none is refused") {
  const auto refusal = [](const std::string& equation, const std::vector<Ints>& shapes) -> std::string {
    std::vector<Array> inputs;
    for (const Ints& shape : shapes) inputs.push_back(drawn(shape, 1));
    try {
      run(equation, inputs);
      return "";
    } catch (const crumb::Error& error) {
      return error.what();
    }
  };
  using crumb::testing::says;
  CHECK(says(refusal("ij,jk,kl->il", {{1, 1}, {1, 1}, {1, 1}}), {"3 operands"}));
  CHECK(says(refusal("ij,jk->ik", {{1, 1}}), {"2 operands"}));
  CHECK(says(refusal("i1->i", {{1, 1}}), {"is none"}));
  CHECK(says(refusal("ij,jk->il", {{3, 4}, {4, 5}}), {"in no input"}));
  CHECK(says(refusal("ij,jk->ii", {{3, 4}, {4, 5}}), {"one twice"}));
  CHECK(says(refusal("ij,jk->ik", {{3, 4}, {5, 5}}), {"do not agree"}));
  CHECK(says(refusal("ijk->i", {{3, 4}}), {"is not ijk"}));
  CHECK(says(refusal("...ijk->i", {{3, 4}}), {"is not ...ijk"}));
}
