// crumb-bench graph: executing graphs, against qonnx's executor, onnxruntime (float graphs as they are,
// quantized ones as QCDQ) and the same network written with LibTorch's operators, in turns, with as many
// threads, all on the same processors; of onnxruntime's time, what its call from Python takes is left out.
// crumb-bench runtime: the same of the runtime, against Crumb's engine on LibTorch as well; with --made of
// networks that bench/make_networks.py makes, against their floats on onnxruntime, too, and small ones
// against qonnx.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/files/text.h"
#include "bench/bench.h"
#include "bench/graph_job.h"
#include "bench/graph_peer.h"
#include "bench/temporary_folder.h"
#include "bench/torch_job.h"
#include "cli/flags/shape_flags.h"
#include "cli/output.h"
#include "graph/onnx/read.h"
#include "jobs/engines/graph_inputs.h"
#include "runtime/model.h"

namespace crumb::bench {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::Tensor;

constexpr double kTurn = 0.02;                   // seconds that the runs of a turn take, at least
constexpr std::chrono::milliseconds kPause(10);  // so that nobody's threads still spin
constexpr int kMostRuns = 2000;

// The files of ../shared/onnx that are timed.
constexpr const char* kShared[] = {
    "TFC_1W1A",
    "TFC_1W2A",
    "TFC_2W2A",
    "espcn_subpixel_quant",
    "espcn_nn_resize_quant",
    "mnist_conv_float",
    "espcn_subpixel_float",
    "espcn_nn_resize_float",
    "sdp_float",
};

struct Contender {
  std::string name;
  std::string absent;  ///< why it is not timed
  Tensor output;
  std::function<double(int)> run;  ///< seconds of so many runs
};

/// Drawn inputs; `requests`: NAME=SIZES for those whose sizes are open, which are 1 otherwise.
std::vector<Tensor> inputs_of(const Graph& graph, const std::vector<std::string>& requests) {
  const auto shapes = cli::read_shapes(requests);
  for (const auto& [name, sizes] : shapes) {
    if (std::ranges::find(graph.inputs, name) == graph.inputs.end())
      throw usage_error("--shape: there is no input " + quote_text(name));
  }
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same at every run
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<Tensor> inputs;
  for (const std::string& name : graph.inputs) {
    const auto shape = graph.shape_of(name);
    if (!shape) throw Error("input " + quote_text(name) + " has no shape");
    std::vector<std::int64_t> sizes;
    std::int64_t count = 1;
    for (const graph::Dim& dim : *shape) sizes.push_back(dim.known() ? dim.size : 1);
    if (shapes.contains(name)) sizes = shapes.at(name);
    for (const std::int64_t size : sizes) count *= size;
    if (graph.find(name)->type != graph::ElementType::kFloat) {
      inputs.push_back(jobs::drawn_input(graph, name, sizes, "--input"));
      continue;
    }
    std::vector<float> values(static_cast<std::size_t>(count));
    std::ranges::generate(values, [&] { return uniform(random); });
    inputs.push_back(Tensor::floats(sizes, values));
  }
  return inputs;
}

struct MadeNetwork {
  std::string name, scheme;
  bool has_weights_alone() const { return scheme.ends_with("a16"); }  ///< in codes: there is `fast` for it
  bool is_small() const { return name.starts_with("digits"); }
};

enum class Ours : std::uint8_t { kLibTorch, kRuntime };

Contender in_process(const std::string& name, const std::shared_ptr<GraphJob>& job, int threads) {
  Contender contender{name, job ? "" : "nobody wrote it", {}, {}};
  if (!job) return contender;
  set_graph_threads(threads);
  contender.output = job->run();
  contender.run = [job, threads](int times) {
    set_graph_threads(threads);
    const double start = now_seconds();
    for (int i = 0; i < times; ++i) job->run();
    return now_seconds() - start;
  };
  return contender;
}

/// On the runtime, its inputs made once and its values in an arena, as sessions of libcrumb.so have them.
Contender on_runtime(const std::string& name, const Graph& graph, const std::vector<Tensor>& inputs,
                     int threads, runtime::Promise promise = runtime::Promise::kExact) {
  struct Job {
    explicit Job(Graph network) : model(std::move(network)) {}
    runtime::Model model;
    std::vector<runtime::Array> inputs;
    runtime::Arena arena;
  };
  const auto job = std::make_shared<Job>(jobs::for_runtime(graph));
  for (const Tensor& input : inputs) job->inputs.push_back(runtime::Array::of(input));
  const auto run_once = [job, threads, promise] {
    return job->model.run(job->inputs, {.threads = threads, .promise = promise, .arena = &job->arena});
  };
  return {name, "", run_once()[0].tensor(), [run_once](int times) {
            const double start = now_seconds();
            for (int i = 0; i < times; ++i) run_once();
            return now_seconds() - start;
          }};
}

Contender in_python(const std::string& name, const std::shared_ptr<GraphPeer>& peer) {
  if (!peer->absent().empty()) return {name, peer->absent(), {}, {}};
  return {name, "", peer->output(), [peer](int times) { return peer->run(times); }};
}

/// "3 of 10, by 0.01 of the largest": what differs by more than float32's sums do.
std::string difference(const Tensor& ours, const Tensor& theirs) {
  const std::vector<float> a = ours.to_floats(), b = theirs.to_floats();
  if (a.size() != b.size()) return "other sizes";
  double largest = 0, most = 0;
  for (const float value : b) largest = std::max<double>(largest, std::fabs(value));
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::fabs(static_cast<double>(a[i]) - b[i]);
    count += !(off <= 1e-5 * largest);
    most = std::max(most, off);
  }
  if (count == 0) return "none";
  return std::to_string(count) + " of " + std::to_string(a.size()) + ", by " +
         fixed(100 * most / largest, 2) + " %";
}

/// As many runs as a turn needs, from the time of one.
int runs_of_turn(const Contender& contender) {
  contender.run(1);
  const double once = std::max(contender.run(1), 1e-7);
  return std::clamp(static_cast<int>(std::ceil(kTurn / once)), 1, kMostRuns);
}

bool is_quantized(const Graph& graph) { return std::ranges::any_of(graph.nodes, graph::is_quantizer); }

class GraphBench {
 public:
  GraphBench(const Options& options, Ours ours)
      : options_(options),
        ours_(ours),
        table_(options, {"model", "threads", "against", "ours best ms", "ours median ms", "best ms",
                         "median ms", "times as fast", "outputs that differ"}),
        python_(python_of(options)) {}

  const fs::path& folder() const { return folder_.path(); }
  const std::string& python() const { return python_; }

  /// A network of bench/make_networks.py as one scheme's integers, against its floats on the runtime and on
  /// onnxruntime, too.
  void add_made(const MadeNetwork& network, int threads) {
    const std::string quantized = network.name + "_" + network.scheme;
    const fs::path floats = folder() / (network.name + ".onnx"), model = folder() / (quantized + ".onnx"),
                   qcdq = folder() / (quantized + "_qcdq.onnx");
    const Graph graph = graph::read_onnx(model);
    const std::vector<Tensor> inputs = inputs_of(graph, options_.input_shapes);
    std::vector<Contender> others;
    const auto python = [&](const std::string& what, const std::string& kind, const fs::path& path) {
      others.push_back(
          in_python(what, std::make_shared<GraphPeer>(python_, kind, path, threads, inputs, folder_.path())));
    };
    python("onnxruntime, float", "onnxruntime", floats);
    python("onnxruntime, QCDQ", "onnxruntime", qcdq);
    others.push_back(on_runtime("crumb, float", graph::read_onnx(floats), inputs, threads));
    if (network.is_small()) python("qonnx", "qonnx", model);
    others.push_back(in_process("crumb on LibTorch", make_graph_job(graph, inputs), threads));
    const std::string name = network.name + ", " + network.scheme;
    time(name, threads, on_runtime("crumb", graph, inputs, threads), others);
    if (network.has_weights_alone()) {
      time(name + ", fast", threads,
           on_runtime("crumb, fast", graph, inputs, threads, runtime::Promise::kFast), others);
    }
  }

  void add(const fs::path& model, int threads) {
    const Graph graph = graph::read_onnx(model);
    const std::vector<Tensor> inputs = inputs_of(graph, options_.input_shapes);
    const bool is_runtime = ours_ == Ours::kRuntime;
    std::shared_ptr<GraphJob> on_libtorch = make_graph_job(graph, inputs);
    Contender ours;
    try {
      ours = is_runtime ? on_runtime("crumb", graph, inputs, threads)
                        : in_process("crumb", on_libtorch, threads);
    } catch (const Error& error) {
      std::fprintf(stderr, "skipped: %s: %s\n", model.c_str(), error.what());
      return;
    }
    std::vector<Contender> others;
    if (is_runtime) others.push_back(in_process("crumb on LibTorch", on_libtorch, threads));
    const auto python = [&](const std::string& name, const std::string& kind) {
      others.push_back(in_python(
          name, std::make_shared<GraphPeer>(python_, kind, model, threads, inputs, folder_.path())));
    };
    if (is_quantized(graph)) {
      python("qonnx", "qonnx");
      python("onnxruntime, QCDQ", "qcdq");
    } else {
      python("onnxruntime", "onnxruntime");
    }
    if (!is_runtime)
      others.push_back(in_process("LibTorch", make_torch_graph_job(graph, inputs, true), threads));
    if (!is_runtime && is_quantized(graph)) {
      others.push_back(in_process("LibTorch, not quantizing activations",
                                  make_torch_graph_job(graph, inputs, false), threads));
    }
    time(model.stem().string(), threads, ours, others);
  }

  void print() const { table_.print(); }

 private:
  void time(const std::string& model, int threads, const Contender& ours,
            const std::vector<Contender>& others) {
    std::vector<std::function<double()>> works;
    const auto work = [&](const Contender& contender) {
      if (!contender.run) return std::function<double()>();
      return std::function<double()>([&contender, runs = runs_of_turn(contender)] {
        std::this_thread::sleep_for(kPause);
        return contender.run(runs) / runs;
      });
    };
    works.push_back(work(ours));
    for (const Contender& other : others) works.push_back(work(other));
    const std::vector<Timing> timings = self_timed_in_turns(options_.repeats, works);
    for (std::size_t i = 0; i < others.size(); ++i) {
      const Timing &own = timings[0], &their = timings[i + 1];
      const bool there = others[i].absent.empty();
      table_.add({model, std::to_string(threads), others[i].name, milliseconds(own.best),
                  milliseconds(own.median), milliseconds(their.best), milliseconds(their.median),
                  times_as_fast(their, own, 2),
                  there ? difference(ours.output, others[i].output) : "skipped: " + others[i].absent});
    }
  }

  const Options& options_;
  Ours ours_;
  Table table_;
  std::string python_;
  TemporaryFolder folder_;
};

std::vector<fs::path> models_of(const fs::path& input) {
  if (!fs::exists(input)) throw usage_error("graph: there is no " + quote_text(input.string()));
  if (!fs::is_directory(input)) return {input};
  std::vector<fs::path> models, absent;
  for (const char* name : kShared) {
    const fs::path path = input / (std::string(name) + ".onnx");
    fs::exists(path) ? models.push_back(path) : absent.push_back(path);
  }
  if (!models.empty()) {
    for (const fs::path& path : absent) std::fprintf(stderr, "skipped: there is no %s\n", path.c_str());
    return models;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(input)) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  }
  std::ranges::sort(models);
  return models;
}

/// What bench/make_networks.py has made in a folder.
std::vector<MadeNetwork> make_networks(const Options& options, const std::string& python,
                                       const fs::path& folder) {
  const fs::path crumb = crumb_beside(options);
  run({python, CRUMB_SOURCE_DIR "/bench/make_networks.py", crumb.string(), folder.string()});
  std::vector<MadeNetwork> networks;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    for (const std::string scheme : {"w8a8", "w4a4", "w4a16"}) {
      if (name.ends_with("_" + scheme))
        networks.push_back({name.substr(0, name.size() - scheme.size() - 1), scheme});
    }
  }
  std::ranges::sort(networks, {}, [](const MadeNetwork& network) {
    return std::pair(network.name, network.has_weights_alone() ? "" : network.scheme);
  });
  return networks;
}

void bench_graphs(const Options& options, Ours ours) {
  GraphBench bench(options, ours);
  if (options.made) {
    const std::vector<MadeNetwork> networks = make_networks(options, bench.python(), bench.folder());
    for (const int threads : options.threads) {
      pin_to(threads);
      for (const MadeNetwork& network : networks) bench.add_made(network, threads);
    }
    return bench.print();
  }
  const std::vector<fs::path> models = models_of(
      options.input.empty() ? fs::path(CRUMB_SOURCE_DIR "/../shared/onnx") : fs::path(options.input));
  for (const int threads : options.threads) {
    pin_to(threads);
    for (const fs::path& model : models) bench.add(model, threads);
  }
  bench.print();
}

}  // namespace

void graph_bench(const Options& options) {
  if (!has_torch()) throw Error("graph: this crumb-bench was built without LibTorch, and executes no graphs");
  bench_graphs(options, Ours::kLibTorch);
}

void runtime_bench(const Options& options) { bench_graphs(options, Ours::kRuntime); }

}  // namespace crumb::bench
