// Weights of any rank: a product that takes none of that rank is refused, by name.
#include <doctest/doctest.h>

#include "analysis/accumulator/check.h"
#include "tests/analysis/accumulator/networks.h"
#include "tests/support/samples.h"

namespace crumb::analysis {
namespace {

using Ints = std::vector<std::int64_t>;

struct RankedProduct {
  const char* op;
  std::string_view domain;
  std::size_t least;  ///< rank that the weight has
  std::map<std::string, graph::Attribute> attributes = {};
};

TEST_CASE("a weight of a rank that its product does not take is an error, or a reason, and never read") {
  const RankedProduct kinds[] = {
      {"MatMul", graph::kOnnxDomain, 1},
      {"Gemm", graph::kOnnxDomain, 2},
      {"Gemm", graph::kOnnxDomain, 2, {{"transB", std::int64_t{1}}}},
      {"Conv", graph::kOnnxDomain, 3},
      {"ConvTranspose", graph::kOnnxDomain, 3},
      {"Conv", graph::kChannelsLastDomain, 3},
      {"Einsum", graph::kOnnxDomain, 2, {{"equation", std::string("ij,jk->ik")}}},
      {"LSTM", graph::kOnnxDomain, 3, {{"hidden_size", std::int64_t{2}}}},
      {"XnorPopcountMatMul", graph::kQonnxDomain, 1},
  };
  for (const RankedProduct& kind : kinds) {
    for (std::size_t rank = 0; rank < 6; ++rank) {
      for (const bool is_computed : {false, true}) {
        const std::string op = kind.op;
        if (is_computed && op != "Conv" && op != "ConvTranspose")
          continue;  // terms of others are the input's, too
        CAPTURE(op);
        CAPTURE(rank);
        CAPTURE(is_computed);
        Net net;
        const std::string w =
            is_computed ? net.quant(net.input("w", Ints(rank, 2)), graph::Tensor::scalar(0.5F), 0, 3)
                        : net.weight(Ints(rank, 2), 0.5F);
        const std::string x = net.quant(net.input("x", Ints(4, 2)), graph::Tensor::scalar(0.5F), 0, 3);
        std::vector<std::string> inputs{x, w};
        if (op == "LSTM") inputs.push_back(w);
        net.graph.outputs = {net.node(op, inputs, kind.attributes, kind.domain)};
        std::string said;
        try {
          const AccumulatorReport report = check_accumulators(net.graph, {.ranges = {}, .bits = 32});
          for (const AccumulatorRow& row : report.layers) said += row.reason;
        } catch (const Error& error) {
          said = error.what();
        }
        if (rank < kind.least) CHECK_FALSE(said.empty());
        if (rank == 4 && op == "Conv" && !is_computed) CHECK(said.empty());
      }
    }
  }
}

}  // namespace
}  // namespace crumb::analysis
