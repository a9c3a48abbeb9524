// Quantizing as a program asks for it: the same file whoever watches, jobs that end without an output, and jobs one after the
// other in one process.
#include "jobs/quantize.h"

#include <doctest/doctest.h>

#include <fstream>

#include "base/files/interrupt.h"
#include "graph/onnx/array_files.h"
#include "graph/onnx/write.h"
#include "tests/graph/quantize/build_graph.h"
#include "tests/support/testing.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using testing::content;

struct Place {
  testing::TempDir folder;
  fs::path network = folder.path() / "net.onnx", samples = folder.path() / "x.npy",
           output = folder.path() / "net.crumb";

  Place() {
    graph::testing::GraphBuilder build({16, 12});
    build.weight("a", {12, 24}).weight("b", {24, 6});
    build.node("MatMul", {"x", "a"}, "h").node("Relu", {"h"}, "r").node("MatMul", {"r", "b"}, "y");
    graph::write_onnx(build.done(), network);
    build.weight("samples", {16, 12});
    graph::write_array(samples, build.graph.initializers.at("samples"));
  }
  QuantizeRequest request(const char* recipe, bool has_samples) const {
    QuantizeRequest request{.input = network.string(),
                            .output = output.string(),
                            .recipe = parse_recipe(recipe, "the test"),
                            .data = {},
                            .device = {},
                            .shapes = {},
                            .read_files = {}};
    if (has_samples) request.data = {samples.string()};
    return request;
  }
};

struct Counting final : Observer {
  std::size_t calls = 0, last = 0;  ///< where the count is `last`, the call ends the job
  bool is_by_flag = false;
  void count() {
    if (++calls != last) return;
    if (!is_by_flag) throw Interrupted();
    interrupt_requested() = true;
  }
  void note(const std::string&) override { count(); }
  void warning(const std::string&) override { count(); }
  void progress(const Progress& now) override {
    CHECK(now.done <= now.all);
    CHECK((now.all_bytes == 0 || now.bytes <= now.all_bytes));
    count();
  }
};

TEST_CASE("jobs: who watches, and how many threads run, change nothing of the file") {
  const Place place;
  for (const bool is_network : {false, true}) {
    QuantizeRequest request = place.request(
        is_network ? "weights: int4:channel\nactivations: uint8:tensor\n" : "weights: int4:group=2\n",
        is_network);
    request.as = is_network ? QuantizeRequest::As::kWhatIsAsked : QuantizeRequest::As::kTensors;
    Observer silent;
    const QuantizeReport first = quantize(request, silent);
    const std::string bytes = content(place.output);
    CHECK(first.is_network == is_network);
    CHECK(first.output_bytes == bytes.size());
    CHECK(first.tensors.size() == 2);
    CHECK(first.comparison.has_value() == is_network);
    CHECK(first.plan.edges.size() == (is_network ? 2 : 0));
    for (int threads = 1; threads <= 3; ++threads) {
      request.threads = threads;
      Counting watching;
      const QuantizeReport again = quantize(request, watching);
      CHECK(watching.calls > 0);
      CHECK(content(place.output) == bytes);
      CHECK(again.bits_per_weight == first.bits_per_weight);
    }
    request.dry_run = true;
    fs::remove(place.output);
    const QuantizeReport foreseen = quantize(request, silent);
    CHECK(foreseen.foreseen);
    CHECK(foreseen.bits_per_weight == first.bits_per_weight);
    CHECK(!fs::exists(place.output));
  }
}

TEST_CASE("jobs: an observer ends a job at any of its calls, and what lay there stays") {
  const Place place;
  for (const bool is_network : {false, true}) {
    QuantizeRequest request = place.request(
        is_network ? "weights: int4:channel\nactivations: uint8:tensor\n" : "weights: int8\n", is_network);
    request.as = is_network ? QuantizeRequest::As::kNetwork : QuantizeRequest::As::kTensors;
    Counting all;
    (void)quantize(request, all);
    const std::string before = "what lay there";
    int stopped = 0;
    for (std::size_t at = 1; at <= all.calls; ++at) {
      for (const bool is_by_flag : {false, true}) {
        std::ofstream(place.output, std::ios::binary) << before;
        Counting stopping;
        stopping.last = at;
        stopping.is_by_flag = is_by_flag;
        bool was_stopped = false;
        try {
          (void)quantize(request, stopping);
        } catch (const Interrupted&) {
          was_stopped = true;
        }
        interrupt_requested() = false;
        // What is said behind the writing comes too late for it.
        if (content(place.output) == before) CHECK(was_stopped);
        stopped += was_stopped && content(place.output) == before;
        CHECK(!fs::exists(place.output.string() + ".partial"));
      }
    }
    CHECK(stopped > 0);
  }
}

TEST_CASE("jobs: an output may be the next job's input, never its own") {
  const Place place;
  Observer silent;
  QuantizeRequest request = place.request("weights: int8\n", false);
  request.output = (place.folder.path() / "one.onnx").string();
  (void)quantize(request, silent);
  const std::string one = content(request.output);
  request.input = request.output;  // a network that is quantized already has nothing to be quantized
  request.output = place.network.string();
  (void)quantize(request, silent);
  CHECK(content(request.input) == one);

  request = place.request("weights: int8\nactivations: int8\n", true);
  for (const fs::path& input : {place.network, place.samples}) {
    const std::string before = content(input);
    request.output = input.string();
    CHECK_THROWS_AS((void)quantize(request, silent), Error);
    CHECK(content(input) == before);
  }
  request.output = (place.folder.path() / "q.onnx").string();
  request.read_files = {place.folder.path() / "q.onnx"};
  std::ofstream(request.output) << "a recipe";
  CHECK_THROWS_AS((void)quantize(request, silent), Error);
  CHECK(content(request.output) == "a recipe");
}

}  // namespace
}  // namespace crumb::jobs
