// crumb run: computes a graph's outputs for inputs from files.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "base/files/counted.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/within.h"
#include "cli/flags/fast_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/torchscript_flags.h"
#include "cli/flags/verb.h"
#include "cli/inspect/verify_accumulator.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/run/not_finite.h"
#include "cli/run/run_accumulator.h"
#include "cli/run/runtime_registers.h"
#include "graph/batches.h"
#include "graph/onnx/array_files.h"
#include "graph/onnx/infer_shapes.h"
#include "jobs/engines/graph_inputs.h"
#include "jobs/engines/open_engine.h"
#include "jobs/engines/prepare_graph.h"
#include "jobs/engines/torchscript_file.h"
#include "jobs/shape_notes.h"
#include "models/read_graph.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "runtime/operator.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::Tensor;

constexpr std::int64_t kLargeBatch = 64, kPiece = 256;

struct RunFlags {
  std::string model, output, output_dir, device = "cpu", engine = "auto";
  std::vector<std::string> inputs, batch_axes, arguments;
  bool all_tensors = false, json = false, operators = false, fast = false, strict = false;
  int threads = 0;
  RunAccumulatorFlags accumulator;
};

/// Every file that is read: none may be written.
std::vector<fs::path> input_files(const RunFlags& options) {
  std::vector<fs::path> files{options.model};
  for (const std::string& requested : options.inputs) {
    files.emplace_back(requested);
    files.emplace_back(requested.substr(requested.find('=') + 1));
  }
  return files;
}

/// Returns the path of each value in --output-dir, in the order of the names.
std::vector<std::pair<std::string, fs::path>> files_of(std::vector<std::string> names,
                                                       const RunFlags& options) {
  std::ranges::sort(names);
  std::set<std::string> taken;
  std::vector<std::pair<std::string, fs::path>> files;
  for (std::string& name : names) {
    std::string file = graph::file_name_of(name);
    while (!taken.insert(file).second) file += '_';
    files.emplace_back(std::move(name), fs::path(options.output_dir) / (file + ".npy"));
  }
  return files;
}

void write_outputs(const Graph& graph, const std::map<std::string, Tensor>& made, const RunFlags& options) {
  const std::vector<fs::path> inputs = input_files(options);
  const auto report = [&](const std::string& name, const fs::path& path) {
    refuse_overwriting_inputs(inputs, path);
    graph::write_array(path, made.at(name));
    std::cout << path.string() << "  " << name << "  " << graph::name_of(made.at(name).type()) << " "
              << graph::text_of(made.at(name).shape()) << "\n";
  };
  if (!options.output.empty()) return report(graph.outputs[0], options.output);
  std::error_code error;
  fs::create_directories(options.output_dir, error);
  if (error) throw Error("cannot make the folder " + quote_text(options.output_dir) + ": " + error.message());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : made) names.push_back(name);
  for (const auto& [name, path] : files_of(names, options)) report(name, path);
}

/// What only LibTorch's engine does.
bool needs_libtorch(const RunFlags& options) {
  return options.device != "cpu" || jobs::is_torchscript(options.model);
}

void check_engine(const RunFlags& options) {
  if (options.fast && (options.engine == "libtorch" || needs_libtorch(options) || options.all_tensors))
    throw usage_error(
        "--fast is for Crumb's own kernels (--engine runtime), and --all-tensors shows what others make");
  if (options.engine != "runtime" || !needs_libtorch(options)) return;
  if (jobs::is_torchscript(options.model))
    throw usage_error("--engine runtime: " + quote_text(options.model) +
                      " is a TorchScript archive, which LibTorch reads");
  throw usage_error("--device needs --engine libtorch");
}

/// Prepares the runtime, which multiplies by codes.
std::unique_ptr<graph::Executable> prepare_runtime(const Graph& graph,
                                                   const analysis::AccumulatorSimulation* simulation,
                                                   const RunFlags& options) {
  if (simulation) return RuntimeRegisters(options.threads).prepare(jobs::for_registers(graph), *simulation);
  return jobs::prepare_on_runtime(graph, options.threads, promise_of(options.fast));
}

/// Prepares LibTorch, which multiplies by the codes' values.
std::unique_ptr<graph::Executable> prepare_libtorch(Graph graph,
                                                    const analysis::AccumulatorSimulation* simulation,
                                                    const RunFlags& options) {
  if (!simulation) return jobs::prepare_on_libtorch(std::move(graph), options.device, options.threads);
  jobs::open_engine_device().use(options.device, options.threads);
  return jobs::open_register_engine().prepare(jobs::for_libtorch(std::move(graph)), *simulation);
}

std::unique_ptr<graph::Executable> prepare(const Graph& graph,
                                           const analysis::AccumulatorSimulation* simulation,
                                           const RunFlags& options) {
  // Every value that a node makes is there in floats.
  const bool may_choose = options.engine == "auto" && !needs_libtorch(options) && !options.all_tensors;
  if (options.fast) return prepare_runtime(graph, simulation, options);
  try {
    if (!may_choose && options.engine != "runtime") return prepare_libtorch(graph, simulation, options);
    try {
      return prepare_runtime(graph, simulation, options);
    } catch (const Error& error) {
      if (!may_choose) throw;
      Notes().say("executed on LibTorch: " + std::string(error.what()));
    }
    return prepare_libtorch(graph, simulation, options);
  } catch (const Error& error) {
    throw within(quote_text(options.model), error);
  }
}

struct Loaded {
  Graph graph;
  std::vector<Tensor> inputs;
  std::optional<analysis::AccumulatorSimulation> simulation;
};

/// Returns the most samples at a time that divide the total: samples that fill up a piece would count as
/// sums.
std::int64_t even_piece(std::int64_t total) {
  std::int64_t piece = std::min(total, kPiece);
  while (piece > 1 && total % piece != 0) --piece;
  return piece;
}

analysis::AccumulatorSimulation simulated(const Graph& graph, const RunFlags& options) {
  try {
    return simulate_accumulators(graph, options.accumulator);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) throw;
    throw within(quote_text(options.model), error);
  }
}

/// The graph and its inputs. A TorchScript archive becomes a graph for these inputs.
Loaded load(const RunFlags& options) {
  if (!jobs::is_torchscript(options.model)) {
    if (!options.arguments.empty())
      throw usage_error("--set-argument is for TorchScript archives, and " + quote_text(options.model) +
                        " is none");
    const bool simulates = !options.accumulator.bits.empty();
    Graph graph = simulates ? models::read_graph(options.model) : models::open_graph(options.model);
    Notes notes;
    jobs::note_shapes(graph, notes);
    if (simulates) graph = in_qonnx(graph);
    std::vector<Tensor> inputs = jobs::read_inputs(graph, options.inputs, "--input");
    std::map<std::string, std::vector<std::int64_t>> sizes;
    for (std::size_t i = 0; i < inputs.size(); ++i) sizes[graph.inputs[i]] = inputs[i].shape();
    for (const std::string& note : jobs::notes_of_symbols(graph, sizes)) notes.say(note);
    std::optional<analysis::AccumulatorSimulation> simulation;
    if (simulates) simulation = simulated(graph, options);
    return {graph::infer_shapes(std::move(graph)), std::move(inputs), std::move(simulation)};
  }
  if (!options.accumulator.bits.empty())
    throw usage_error("--accumulator: " + quote_text(options.model) +
                      " is a TorchScript archive, whose weights are no integers");
  jobs::TorchScriptGraph read = jobs::read_torchscript(options.model,
                                                       {.inputs = options.inputs,
                                                        .inputs_field = "--input",
                                                        .arguments = options.arguments,
                                                        .batch_axes = options.batch_axes,
                                                        .narrows = false},
                                                       terminal());
  return {std::move(read.graph), std::move(read.inputs), {}};
}

/// Prints the operators that the runtime has, sorted, one a line; QONNX's with their domain.
void print_operators() {
  std::set<std::string> names;
  for (const runtime::OperatorRow& row : runtime::all_operators())
    names.insert((row.domain.empty() ? "" : std::string(row.domain) + "::") + std::string(row.op));
  for (const std::string& name : names) std::cout << name << "\n";
}

void run_verb(const RunFlags& options) {
  if (options.operators) return print_operators();
  if (options.model.empty())
    throw usage_error("give the graph to run, and --input FILE for each of its inputs");
  if (options.output.empty() == options.output_dir.empty()) {
    throw usage_error("give either --output FILE.npy or --output-dir FOLDER");
  }
  const RunAccumulatorFlags& registers = options.accumulator;
  const bool more = !registers.overflow.empty() || !registers.ranges.empty() || registers.constrained_only;
  if (registers.bits.empty() && more)
    throw usage_error("--overflow, --constrained-only and --input-range are for --accumulator BITS");
  if (options.output.empty()) check_output_folder(options.output_dir);
  if (!options.output.empty()) {
    refuse_overwriting_inputs(input_files(options), options.output);
    claim_output(options.output);
  }
  check_engine(options);
  const Loaded loaded = load(options);
  const Graph& graph = loaded.graph;
  const std::vector<Tensor>& inputs = loaded.inputs;
  if (!options.output.empty() && (graph.outputs.size() != 1 || options.all_tensors)) {
    throw usage_error(options.all_tensors ? "--all-tensors writes many files: give --output-dir FOLDER"
                                          : "the graph has " + count_text(graph.outputs.size(), "output") +
                                                ": give --output-dir FOLDER");
  }
  if (options.output.empty())
    for (const auto& [name, path] : files_of(graph.outputs, options))
      refuse_overwriting_inputs(input_files(options), path);
  const graph::BatchAxes axes = graph::parse_batch_axes(graph, options.batch_axes, "--batch-axis");
  graph::BatchPlan plan = graph::plan_batch(graph, inputs, kPiece, axes);
  if (loaded.simulation && !plan.whole())
    plan = graph::plan_batch(graph, inputs, even_piece(plan.total), axes);
  const analysis::AccumulatorSimulation* simulation = loaded.simulation ? &*loaded.simulation : nullptr;
  const auto executable = prepare(graph, simulation, options);
  std::optional<Progress> progress;
  graph::BatchOptions batch{.all_values = options.all_tensors};
  if (!plan.whole() && plan.total > kLargeBatch) {
    progress.emplace("running", "samples", static_cast<std::size_t>(plan.total), 0);
    batch.progress = [&](std::int64_t done) { progress->update(static_cast<std::size_t>(done), 0); };
  }
  graph::NotFiniteWatch watch(options.strict);
  const graph::NotFiniteScope scope(&watch);
  const auto made = graph::run_batch(graph, *executable, inputs, plan, batch);
  progress.reset();
  Notes notes;
  note_not_finite(watch.first(&graph), notes);
  if (simulation) note_overflows(*simulation);
  write_outputs(graph, made, options);
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunFlags>();
  CLI::App* verb =
      app.add_subcommand("run", "Execute an ONNX, QONNX, QCDQ or TorchScript graph on inputs from files");
  verb->add_option("model", options->model, "The graph (.onnx, .crumb), or a TorchScript archive (.pt)")
      ->type_name("FILE");
  verb->add_option("--input", options->inputs,
                   "[NAME=]FILE.npy, once for each input; .pb holds a TensorProto")
      ->type_name("[NAME=]FILE")
      ->group(kInputFlags);
  add_several(*verb, "--batch-axis", options->batch_axes, kBatchAxisHelp, "NAME=AXIS")->group(kInputFlags);
  add_several(*verb, "--set-argument", options->arguments, kArgumentHelp, "NAME=VALUE")->group(kInputFlags);
  verb->add_option("--output", options->output, "The output of a graph that has one (.npy)")
      ->type_name("FILE")
      ->group(kOutputFlags);
  verb->add_option("--output-dir", options->output_dir, "A folder for all outputs, NAME.npy each")
      ->type_name("FOLDER")
      ->group(kOutputFlags);
  verb->add_flag("--all-tensors", options->all_tensors, "Write what every node makes, too")
      ->group(kOutputFlags);
  verb->add_option("--engine", options->engine,
                   "runtime: Crumb's own kernels, in integers where they can, the same bits on every "
                   "machine; libtorch; or auto: "
                   "the runtime where it has every operator (auto)")
      ->group(kRunningFlags)
      ->check(CLI::IsMember({"auto", "runtime", "libtorch"}));
  add_fast_flag(*verb, options->fast);
  add_strict_flag(*verb, options->strict);
  verb->add_flag("--operators", options->operators,
                 "Print the operators that the runtime has, and do nothing else")
      ->group(kOutputFlags);
  verb->add_option("--device", options->device, "Where it runs: cpu, cuda or cuda:1 (cpu)")
      ->type_name("DEVICE")
      ->group(kRunningFlags);
  verb->add_option("--threads", options->threads, "Threads (those the machine has)")
      ->type_name("THREADS")
      ->group(kRunningFlags);
  add_accumulator_flags(*verb, options->accumulator);
  verb->footer(
      "A graph whose batch is fixed runs any batch, in pieces.\n\nExamples:\n"
      "  crumb run TFC_2W2A.onnx --input digits.npy --output scores.npy\n"
      "  crumb run digits.onnx --accumulator 8 --overflow wrap --input digits.npy --output scores.npy");
  verb->callback([options] { run_verb(*options); });
}

}  // namespace crumb::cli
