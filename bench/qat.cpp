// crumb-bench qat: training steps with hooks over the float step, and fused fake quantization against the same written
// in LibTorch's operators and against LibTorch's own fused operators, in turns, with as many threads.
#include "base/error.h"
#include "bench/bench.h"
#include "bench/graph_job.h"
#include "bench/qat_job.h"
#include "bench/torch_job.h"
#include "cli/output.h"

namespace crumb::bench {
namespace {

// What has to travel whoever computes it: x and y; x, dy and dx.
constexpr double kForwardBytes = 8, kBackwardBytes = 12;

class QatBench {
 public:
  explicit QatBench(const Options& options)
      : options_(options),
        table_(options, {"case", "what", "threads", "against", "ours best ms", "ours median ms", "best ms",
                         "median ms", "times the float step", "ours GB/s", "GB/s", "times as fast"}) {}

  void add_steps(const std::string& network, int threads) {
    std::vector<TrainingStep> steps = make_training_steps(network, options_.spec);
    // The second of two: the first meets the heap as another network's step left it.
    std::vector<std::function<double()>> works;
    for (const TrainingStep& step : steps) {
      works.emplace_back([&step] {
        step.run();
        const double start = now_seconds();
        step.run();
        return now_seconds() - start;
      });
    }
    const std::vector<Timing> timings = self_timed_in_turns(options_.repeats, works);
    for (std::size_t i = 1; i < steps.size(); ++i) {
      table_.add({network, "step, " + steps[i].hooks, std::to_string(threads), steps[0].hooks,
                  milliseconds(timings[i].best), milliseconds(timings[i].median),
                  milliseconds(timings[0].best), milliseconds(timings[0].median),
                  times_as_fast(timings[i], timings[0], 3), "-", "-", "-"});
    }
  }

  void add_operators(int threads) {
    for (const OperatorCase& one : make_operator_cases(options_.spec)) {
      std::vector<std::function<double()>> works;
      const auto add = [&](OperatorJob& job) {
        works.emplace_back([&job] { return job.forward(); });
        works.emplace_back([&job] { return job.backward(); });
      };
      add(*one.fused);
      for (const OperatorCase::Peer& peer : one.peers) add(*peer.job);
      const std::vector<Timing> timings = self_timed_in_turns(options_.repeats, works);
      const auto sum = [](const Timing& a, const Timing& b) {
        return Timing{a.best + b.best, a.median + b.median};
      };
      for (std::size_t i = 0; i < one.peers.size(); ++i) {
        const std::string& peer = one.peers[i].name;
        const Timing &forward = timings[2 * i + 2], &backward = timings[2 * i + 3];
        add_operator(one, peer, "forward", threads, kForwardBytes, timings[0], forward);
        add_operator(one, peer, "backward", threads, kBackwardBytes, timings[1], backward);
        add_operator(one, peer, "both", threads, kForwardBytes + kBackwardBytes, sum(timings[0], timings[1]),
                     sum(forward, backward));
      }
    }
  }

  void print() const { table_.print(); }

 private:
  void add_operator(const OperatorCase& one, const std::string& peer, const char* what, int threads,
                    double bytes, const Timing& ours, const Timing& theirs) {
    const double gigabytes = bytes * static_cast<double>(one.values) / 1e9;
    table_.add({one.name + " " + one.shape, what, std::to_string(threads), peer, milliseconds(ours.best),
                milliseconds(ours.median), milliseconds(theirs.best), milliseconds(theirs.median), "-",
                speed(gigabytes, ours.median), speed(gigabytes, theirs.median),
                times_as_fast(theirs, ours, 2)});
  }

  const Options& options_;
  Table table_;
};

}  // namespace

void qat_bench(const Options& options) {
  if (!has_torch()) throw Error("qat: this crumb-bench was built without LibTorch, and does not train");
  QatBench bench(options);
  for (const int threads : options.threads) {
    set_graph_threads(threads);
    for (const std::string& network : qat_networks()) bench.add_steps(network, threads);
    bench.add_operators(threads);
  }
  bench.print();
}

}  // namespace crumb::bench
