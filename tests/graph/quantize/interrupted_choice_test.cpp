// Choosing quantizers runs a network many times: it ends at the next run once a person asked to stop.
#include <doctest/doctest.h>

#include <random>

#include "base/files/interrupt.h"
#include "graph/quantize/apply.h"
#include "graph/quantize/choose_by_samples.h"
#include "graph/quantize/compare.h"
#include "runtime/engine.h"
#include "tests/graph/quantize/build_graph.h"

namespace crumb::graph {
namespace {

/// Runs of all networks that an engine prepares. A person asks to stop during the run of number `stop`, from 1.
struct CountedRuns {
  std::size_t done = 0, stop = 0;
};

class CountedExecutable : public Executable {
 public:
  CountedExecutable(std::unique_ptr<Executable> own, CountedRuns& runs) : own_(std::move(own)), runs_(runs) {}
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const Watch& watch) const override {
    if (++runs_.done == runs_.stop) interrupt_requested() = true;
    return own_->run(inputs, watch);
  }

 private:
  std::unique_ptr<Executable> own_;
  CountedRuns& runs_;
};

class CountingEngine : public Engine {
 public:
  explicit CountingEngine(CountedRuns& runs) : runs_(runs) {}
  std::unique_ptr<Executable> prepare(Graph graph) const override {
    return std::make_unique<CountedExecutable>(own_.prepare(std::move(graph)), runs_);
  }
  bool knows(const Node& node) const override { return own_.knows(node); }

 private:
  const runtime::Engine own_{1};
  CountedRuns& runs_;
};

Graph three_products() {
  testing::GraphBuilder b({4, 6});
  std::string value = "x";
  for (const std::string name : {"0", "1", "2"}) {
    b.weight("w" + name, {6, 6})
        .node("MatMul", {value, "w" + name}, "m" + name)
        .node("Relu", {"m" + name}, "r" + name)
        .node("Add", {"r" + name, value}, "a" + name);
    value = "a" + name;
  }
  b.node("Neg", {value}, "y");
  return b.done();
}

void choose_and_compare(CountedRuns& runs) {
  const Graph network = three_products();
  const CountingEngine engine(runs);
  const Batches batches = [](const auto& batch) {
    std::mt19937 values(5);
    std::normal_distribution<float> normal;
    for (int k = 0; k < 3; ++k) {
      check_interrupt();
      std::vector<float> numbers(24);
      for (float& number : numbers) number = normal(values);
      batch({Tensor::floats({4, 6}, numbers)});
    }
  };
  PlanOptions options{.placement = Placement::kWhereIntegersGoOn};
  QuantPlan plan = choose_by_samples(network, parse_recipe("weights: int8\nactivations: uint8\n", "r.yaml"),
                                     options, engine, batches);
  measure_costs(network, engine, batches, plan);
  (void)compare(network, apply(network, plan), plan, engine, batches, {.takes_codes = true});
}

TEST_CASE("choosing and comparing end within one more step, whichever run a person stops them in") {
  CountedRuns whole;
  choose_and_compare(whole);
  REQUIRE(whole.done > 15);
  std::size_t stopped = 0;
  for (std::size_t stop = 1; stop <= whole.done; ++stop) {
    CAPTURE(stop);
    CountedRuns runs{.stop = stop};
    try {
      choose_and_compare(runs);
    } catch (const Interrupted&) {
      ++stopped;
    }
    interrupt_requested() = false;
    CHECK(runs.done <= stop + 1);  // comparing runs two networks on the same samples
  }
  CHECK(stopped >= whole.done - 2);  // the last comparison may end
}

}  // namespace
}  // namespace crumb::graph
