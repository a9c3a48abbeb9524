// Networks of the kind that decoders are.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/onnx/infer_shapes.h"
#include "ptq/stages.h"
#include "quant/quant_spec.h"
#include "tests/graph/node_builder.h"
#include "tests/ptq/layers.h"

namespace crumb::ptq::test {

/// A drawn network, its constants to become codes.
struct Drawn {
  Setting setting;
  std::int64_t width = 0;
  bool is_tied = false;  ///< its embeddings are its head
};

/// A table of embeddings, layers with norms before their matrices, some with biases, gates and products, and a head.
class StreamNetwork {
 public:
  explicit StreamNetwork(std::mt19937& random, std::string spec = "int4:channel")
      : random_(random), spec_(std::move(spec)) {}

  Drawn draw() {
    made_.width = std::vector<std::int64_t>{4, 6, 7, 8, 12, 20, 36}[random_() % 7];
    made_.is_tied = flip();
    const std::string table = build_.constant("table", drawn_tensor(random_, {11, made_.width}));
    planned(table, 0);
    std::string x = build_.node("Gather", {table, ids()});
    if (flip()) x = build_.node("Mul", {x, build_.constant("embedding_scale", graph::Tensor::scalar(2.5F))});
    for (unsigned i = 0; i < 1 + random_() % 3; ++i) x = build_.node("Add", {x, branch(norm(x))});
    if (flip()) x = build_.node("Identity", {x});
    x = norm(x);
    if (made_.is_tied) {
      const std::string rows = build_.node(
          "Reshape",
          {x, build_.constant("rows", graph::Tensor::ints({2}, std::vector<std::int64_t>{-1, made_.width}))});
      x = build_.node("Gemm", {rows, table}, {{"transB", std::int64_t{1}}});
    } else {
      x = linear(x, made_.width, 11);
    }
    build_.graph.outputs = {x};
    build_.graph.opsets[""] = 24;
    made_.setting.graph = graph::infer_shapes(build_.graph);
    return std::move(made_);
  }

 private:
  bool flip() { return random_() % 2 == 0; }

  std::string ids() {
    const std::string name = build_.input("ids", {2, 3});
    build_.graph.values.at(name).type = graph::ElementType::kInt64;
    return name;
  }

  std::string named(const char* requested, const std::vector<std::int64_t>& shape) {
    return build_.constant(requested + std::to_string(next_++), drawn_tensor(random_, shape));
  }

  void planned(const std::string& name, std::size_t axis) {
    made_.setting.plan.constants.push_back({.value = name,
                                            .node = "node of " + name,
                                            .axes = axis,
                                            .spec = QuantSpec::parse(spec_),
                                            .kept_because = "",
                                            .rounded = {}});
  }

  std::string norm(const std::string& x) {
    const std::string gain =
        flip() ? named("gain", {made_.width})
               : build_.constant(
                     "ones" + std::to_string(next_++),
                     graph::Tensor::floats({made_.width},
                                           std::vector<float>(static_cast<std::size_t>(made_.width), 1.0F)));
    const std::string y = build_.node("RMSNormalization", {x, gain}, {{"axis", std::int64_t{-1}}});
    build_.graph.nodes.back().version = 23;
    return y;
  }

  std::string linear(const std::string& x, std::int64_t in, std::int64_t out) {
    const std::string weight = named("w", {in, out});
    planned(weight, 1);
    std::string y = build_.node("MatMul", {x, weight});
    if (flip()) y = build_.node("Add", {y, named("b", {out})});
    return y;
  }

  std::string branch(const std::string& x) {
    const std::int64_t inner = std::vector<std::int64_t>{5, 8, 16}[random_() % 3];
    const std::string gate = build_.node("Sigmoid", {linear(x, made_.width, inner)});
    const std::string y = build_.node("Mul", {gate, linear(x, made_.width, inner)});
    return linear(y, inner, made_.width);
  }

  std::mt19937& random_;
  std::string spec_;
  graph::NodeBuilder build_;
  Drawn made_;
  int next_ = 0;
};

}  // namespace crumb::ptq::test
