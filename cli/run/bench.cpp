#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/seconds.h"
#include "base/text/fixed.h"
#include "base/text/nearest_name.h"
#include "base/threads/parallel.h"
#include "base/within.h"
#include "cli/flags/fast_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/shape_flags.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/verb.h"
#include "cli/output.h"
#include "graph/engine.h"
#include "graph/engine_device.h"
#include "jobs/engines/graph_inputs.h"
#include "jobs/engines/open_engine.h"
#include "models/read_graph.h"
#include "runtime/lower/domain.h"
#include "runtime/meter.h"
#include "runtime/model.h"

namespace crumb::cli {
namespace {

using graph::Graph;
using graph::Tensor;

struct BenchFlags {
  std::string model, against;
  std::vector<std::string> inputs, shapes;
  std::int64_t batch = 1;
  int threads = 0;
  double seconds = 2;
  bool json = false, fast = false;
};

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// Returns the sizes of the graph's symbols that the given shapes imply.
std::map<std::string, std::int64_t> symbols_in(const Graph& graph, const Shapes& shapes) {
  std::map<std::string, std::int64_t> sizes;
  for (const auto& [name, shape] : shapes) {
    const auto stated = graph.shape_of(name);
    for (std::size_t i = 0; stated && stated->size() == shape.size() && i < shape.size(); ++i) {
      if (!(*stated)[i].symbol.empty()) sizes.emplace((*stated)[i].symbol, shape[i]);
    }
  }
  return sizes;
}

/// The shape of an input that is drawn: what the graph leaves open is as the options say.
std::vector<std::int64_t> drawn_shape(const Graph& graph, const std::string& name, const BenchFlags& options,
                                      const Shapes& shapes) {
  if (const auto given = shapes.find(name); given != shapes.end()) return given->second;
  const std::string requested = "; give --shape " + name + "=... or --input " + name + "=FILE.npy";
  const auto stated = graph.shape_of(name);
  if (!stated) throw usage_error("input " + quote_text(name) + ": its shape is not known" + requested);
  const auto symbols = symbols_in(graph, shapes);
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < stated->size(); ++i) {
    const graph::Dim& dim = (*stated)[i];
    const auto symbol = symbols.find(dim.symbol);
    if (!dim.known() && symbol != symbols.end()) {
      shape.push_back(symbol->second);
      continue;
    }
    if (!dim.known() && i > 0)
      throw usage_error("input " + quote_text(name) + ": its shape is " + graph::text_of(*stated) +
                        requested);
    if (i == 0 && dim.known() && options.batch != 1 && dim.size != options.batch)
      throw usage_error("--batch " + std::to_string(options.batch) + ": input " + quote_text(name) +
                        " takes " + std::to_string(dim.size));
    shape.push_back(dim.known() ? dim.size : options.batch);
  }
  return shape;
}

std::vector<Tensor> drawn_inputs(const Graph& graph, const BenchFlags& options) {
  const auto shapes = read_shapes(options.shapes);
  for (const auto& [name, shape] : shapes) {
    if (std::ranges::find(graph.inputs, name) == graph.inputs.end())
      throw usage_error("--shape: " + unknown_name("input", name, graph.inputs));
  }
  std::vector<Tensor> inputs;
  for (const std::string& name : graph.inputs)
    inputs.push_back(jobs::drawn_input(graph, name, drawn_shape(graph, name, options, shapes), "--input"));
  return inputs;
}

struct Times {
  std::vector<double> seconds;  ///< one a run, sorted
  double at(double share) const {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(seconds.size())));
    return seconds[std::min(std::max<std::size_t>(rank, 1), seconds.size()) - 1];
  }
};

/// Runs for this long, at least five times, after one run that does not count.
template <class Run>
Times timed(double seconds, const Run& run) {
  run();
  Times times;
  for (const double end = now_seconds() + seconds; times.seconds.size() < 5 || now_seconds() < end;) {
    const double start = now_seconds();
    run();
    times.seconds.push_back(now_seconds() - start);
  }
  std::ranges::sort(times.seconds);
  return times;
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return fixed(1e6 * seconds, 1) + " us";
  return seconds < 1 ? fixed(1e3 * seconds, 2) + " ms" : fixed(seconds, 2) + " s";
}

Json json_of(const Times& times, std::int64_t batch) {
  return {{"runs", times.seconds.size()},
          {"median_seconds", times.at(0.5)},
          {"least_seconds", times.seconds.front()},
          {"p90_seconds", times.at(0.9)},
          {"p99_seconds", times.at(0.99)},
          {"samples_per_second", static_cast<double>(batch) / times.at(0.5)}};
}

struct StepTime {
  std::string name, op, registers;  ///< registers: those of integer products, how wide and why
  double seconds = 0;
};

/// Returns means over some runs, in the order of the steps.
std::vector<StepTime> step_times(const runtime::Model& model, const std::vector<runtime::Array>& inputs,
                                 runtime::RunOptions options, std::size_t runs) {
  std::vector<StepTime> steps;
  for (std::size_t i = 0; i < runs; ++i) {
    std::size_t at = 0;
    options.timer = [&](const graph::Node& node, double seconds) {
      if (at == steps.size()) {
        const bool lowered = node.domain == runtime::kRuntimeDomain;
        steps.push_back({node.name, lowered ? "integer " + node.op : node.op,
                         lowered ? node.text_or("registers", "") : "", 0});
      }
      steps[at++].seconds += seconds / static_cast<double>(runs);
    };
    model.run(inputs, options);
  }
  return steps;
}

void bench_verb(const BenchFlags& options) {
  if (options.batch < 1)
    throw usage_error("--batch " + std::to_string(options.batch) + ": expected 1 or more");
  if (!(options.seconds > 0)) throw usage_error("--seconds: expected more than 0");
  const Graph graph = models::open_graph(options.model);
  const std::vector<Tensor> inputs = options.inputs.empty()
                                         ? drawn_inputs(graph, options)
                                         : jobs::read_inputs(graph, options.inputs, "--input");
  const std::int64_t batch = inputs.empty() || inputs[0].shape().empty() ? 1 : inputs[0].shape()[0];
  const double start = now_seconds();
  std::unique_ptr<const runtime::Model> model;
  try {
    model = std::make_unique<const runtime::Model>(jobs::for_runtime(graph));
  } catch (const Error& error) {
    throw within_file(quote_text(options.model), error);
  }
  const double ready = now_seconds() - start;
  std::vector<runtime::Array> arrays;
  for (const Tensor& input : inputs) arrays.push_back(runtime::Array::of(input));
  const int threads = options.threads == 0 ? default_threads() : options.threads;
  runtime::Arena arena;
  const runtime::RunOptions run{.threads = threads, .promise = promise_of(options.fast), .arena = &arena};
  const auto meter = std::make_shared<runtime::Meter>(runtime::Limits());
  Times own;
  {
    const runtime::MeterScope scope(meter);
    model->run(arrays, run);
  }
  own = timed(options.seconds, [&] { model->run(arrays, run); });
  const std::size_t sampled = std::clamp<std::size_t>(static_cast<std::size_t>(0.5 / own.at(0.5)), 1, 200);
  const std::vector<StepTime> steps = step_times(*model, arrays, run, sampled);
  std::optional<Times> other;
  if (!options.against.empty()) {
    jobs::open_engine_device().use("cpu", threads);
    const auto executable = jobs::open_engine().prepare(jobs::for_libtorch(graph));
    other = timed(options.seconds, [&] { executable->run(inputs); });
  }
  double all = 0;
  for (const StepTime& step : steps) all += step.seconds;
  if (options.json) {
    Json json{{"model", options.model},
              {"threads", threads},
              {"batch", batch},
              {"ready_seconds", ready},
              {"runtime", json_of(own, batch)},
              {"peak_memory", meter->peak()},
              {"arena", arena.bytes()},
              {"work", meter->work()}};
    json["steps"] = Json::array();
    for (const StepTime& step : steps) {
      Json of_step{{"node", step.name}, {"op", step.op}, {"mean_seconds", step.seconds}};
      if (!step.registers.empty()) of_step["registers"] = step.registers;
      json["steps"].push_back(std::move(of_step));
    }
    if (other) json["libtorch"] = json_of(*other, batch);
    return print_json(json);
  }
  std::cout << options.model << ": " << count_text(static_cast<std::uint64_t>(threads), "thread")
            << ", batch " << batch << ", " << count_text(own.seconds.size(), "run") << ", ready in "
            << duration(ready) << "\n";
  std::vector<std::vector<std::string>> rows{{"", "median", "least", "90 %", "99 %", "samples/s"}};
  const auto row = [&](const char* name, const Times& times) {
    rows.push_back({name, duration(times.at(0.5)), duration(times.seconds.front()), duration(times.at(0.9)),
                    duration(times.at(0.99)), fixed(static_cast<double>(batch) / times.at(0.5), 0)});
  };
  row("runtime", own);
  if (other) row("libtorch", *other);
  print_table(rows);
  if (other) std::cout << "libtorch takes " << fixed(other->at(0.5) / own.at(0.5), 2) << " times as long\n";
  std::cout << "values take " << short_bytes(meter->peak()) << " at most at a time, their arena "
            << short_bytes(arena.bytes()) << "\n\n";
  rows = {{"step", "operator", "time", "share", "registers"}};
  for (const StepTime& step : steps)
    rows.push_back({step.name, step.op, duration(step.seconds), fixed(100 * step.seconds / all, 1) + " %",
                    step.registers});
  print_table(rows);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchFlags>();
  CLI::App* verb =
      app.add_subcommand("bench", "How long a graph takes on the runtime, and each of its steps");
  verb->add_option("model", options->model, "The graph (.onnx, .crumb)")->type_name("FILE")->required();
  verb->add_option("--input", options->inputs, "[NAME=]FILE.npy, once for each input (drawn numbers)")
      ->type_name("[NAME=]FILE")
      ->group(kInputFlags);
  CLI::Option* const inputs = verb->get_option("--input");
  verb->add_option("--batch", options->batch, "Samples of drawn inputs (1)")
      ->type_name("SAMPLES")
      ->group(kInputFlags)
      ->excludes(inputs);
  verb->add_option("--shape", options->shapes,
                   "NAME=8x128, the shape of a drawn input; others that share its open sizes follow")
      ->type_name("NAME=SIZES")
      ->group(kInputFlags)
      ->excludes(inputs);
  add_threads_flag(*verb, options->threads, "Threads (those the machine has)");
  verb->add_option("--seconds", options->seconds, "How long to run (2)")
      ->type_name("SECONDS")
      ->group(kRunningFlags);
  verb->add_option("--against", options->against, "Time this, too (none)")
      ->group(kRunningFlags)
      ->check(CLI::IsMember({"libtorch"}));
  add_fast_flag(*verb, options->fast);
  verb->add_flag("--json", options->json, "Print one JSON object")->group(kOutputFlags);
  verb->footer("Example:\n  crumb bench examples/digits/digits_cnn.crumb --threads 1 --against libtorch");
  verb->callback([options] { bench_verb(*options); });
}

}  // namespace crumb::cli
