#include "cli/quantize_graph.h"

#include <filesystem>
#include <iostream>

#include "base/files/text.h"
#include "cli/calibration_samples.h"
#include "cli/notes.h"
#include "cli/open_engine.h"
#include "cli/opset_flag.h"
#include "cli/output.h"
#include "cli/packed_files.h"
#include "cli/quantize_graph_report.h"
#include "cli/shape_flags.h"
#include "cli/shape_notes.h"
#include "export/check_for_profile.h"
#include "export/write.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "graph/quantize/apply.h"
#include "graph/quantize/compare.h"
#include "models/checkpoint_graph.h"
#include "models/unfolded_gains.h"
#include "models/weight_source.h"
#include "ptq/stages.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/checkpoint/run_plan.h"
#include "quant/tensor_source.h"
#include "runtime/engine.h"
#include "runtime/session.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
using exporting::Form;
using exporting::Profile;
using graph::Graph;
using graph::QuantPlan;

bool is_packed(const std::string& output) { return fs::path(output).extension() == ".crumb"; }

/// What the flags say of the output, checked before any work.
struct Target {
  Form form = Form::kQonnx;
  exporting::WriteOptions options;
};

Target target_of(const QuantizeGraph& wish) {
  const GraphFlags& flags = wish.flags;
  if (wish.output.empty() && !wish.dry_run) {
    throw usage_error("quantize needs -o FILE, the graph to write (.onnx or .crumb), or --dry-run");
  }
  if (!wish.output.empty() && !is_packed(wish.output) && fs::path(wish.output).extension() != ".onnx") {
    throw usage_error("-o " + quote_text(wish.output) + ": a quantized graph is written as .onnx or .crumb");
  }
  Target target;
  if (!flags.to.empty()) target.form = exporting::form_named(flags.to);
  if (!flags.profile.empty()) target.options.profile = exporting::qonnx_profile_named(flags.profile);
  if (target.form == Form::kFloat) {
    throw usage_error("--to float: a quantized graph is written as qonnx or qcdq; crumb export folds it");
  }
  if (!flags.profile.empty() && target.form != Form::kQonnx) {
    throw usage_error("--profile is for QONNX and packed files, found " +
                      std::string(exporting::name_of(target.form)));
  }
  if (!flags.to.empty() && is_packed(wish.output)) {
    throw usage_error("--to is for ONNX files, found the packed file " + quote_text(wish.output));
  }
  target.options.opset = flags.opset;
  target.options.shapes = read_shapes(flags.shapes);
  return target;
}

/// What samples run on.
struct Engines {
  const graph::Engine* engine = nullptr;  ///< null without samples
  bool is_runtime = false;
};

bool may_quantize_activations(const Recipe& recipe) {
  return recipe.activations || (recipe.inputs && *recipe.inputs) ||
         std::ranges::any_of(recipe.rules,
                             [](const Rule& rule) { return rule.activations && *rule.activations; });
}

/// The runtime, whose numbers are the same on every machine, where it has the operators; LibTorch where scales of activations
/// are to be found or a device is named. LibTorch on one thread: convolutions on several add up in another order, and scales
/// must not depend on that.
Engines engine_for(const QuantizeGraph& wish, const Recipe& recipe, const Graph& graph,
                   const runtime::Engine& runtime) {
  if (wish.flags.data.empty()) return {};
  const bool is_known =
      std::ranges::all_of(graph.nodes, [&](const graph::Node& node) { return runtime.knows(node); });
  if (is_known && wish.flags.device.empty() && !may_quantize_activations(recipe))
    return {.engine = &runtime, .is_runtime = true};
  graph::Engine& engine = open_engine();
  open_engine_device().use(wish.flags.device.empty() ? "cpu" : wish.flags.device, 1);
  return {.engine = &engine, .is_runtime = false};
}

constexpr std::size_t kComparedBatches = 8;  // where nothing but weights is quantized

graph::Batches first_batches(graph::Batches all, std::size_t count) {
  return [all = std::move(all), count](const auto& batch) {
    std::size_t seen = 0;
    all([&](const std::vector<graph::Tensor>& inputs) {
      if (seen++ < count) batch(inputs);
    });
  };
}

/// What is quantized.
struct Source {
  std::optional<TensorSource> tensors;  ///< of a checkpoint
  Graph graph;
  std::vector<fs::path> paths;  ///< that are read

  const Checkpoint* checkpoint() const { return tensors ? tensors->checkpoint() : nullptr; }
};

/// `why`: what asks for a network, where that is a checkpoint's.
Source open_source(const std::string& input, const std::string& why, Notes& notes) {
  if (!models::is_checkpoint(input)) {
    Source source{.tensors = {}, .graph = graph::read_onnx(input), .paths = {input}};
    note_shapes(source.graph, notes);
    return source;
  }
  Source source{.tensors = TensorSource::open(input), .graph = {}, .paths = {}};
  source.paths = source.checkpoint()->input_paths();
  note_folder(*source.checkpoint(), notes);
  try {
    source.graph = models::graph_of_checkpoint(*source.tensors, quote_text(input)).graph;
  } catch (const Error& error) {
    throw usage_error(std::string(error.what()) + "; " + why + ", which is said of a network");
  }
  return source;
}

/// Keys and values that a decoder keeps are no results.
void leave_out_caches(const Graph& graph, graph::GraphComparison& comparison) {
  const std::vector<runtime::Tie> ties = runtime::find_ties(graph);
  std::erase_if(comparison.outputs, [&](const graph::OutputAgreement& output) {
    return std::ranges::find(ties, output.output, &runtime::Tie::present) != ties.end();
  });
}

void refuse_without_data(const QuantizeGraph& wish, const QuantPlan& plan) {
  if (!plan.needs_calibration() || !wish.flags.data.empty() || wish.dry_run) return;
  throw usage_error(
      "scales of activations need calibration data: give --data X.npy (axis 0 is the samples) or a "
      "folder of .npy files, or of a language model a text; " +
      std::to_string(plan.edges.size()) + " edges are to be quantized, the first is " +
      quote_text(plan.edges[0].value));
}

void write_output(const QuantizeGraph& wish, const Target& target, const Source& source,
                  const Graph& quantized, const Recipe& recipe, Notes& notes) {
  if (is_packed(wish.output)) {
    const bool is_checkpoint = source.checkpoint() != nullptr;
    return graph::write_crumb_graph(is_checkpoint ? models::with_weights_of_gains(quantized) : quantized,
                                    wish.output,
                                    {.zstd_level = recipe.zstd,
                                     .layout = recipe.layout,
                                     .as_checkpoint = is_checkpoint,
                                     .files = is_checkpoint ? packed_files(*source.checkpoint(), recipe)
                                                            : std::map<std::string, std::string>()});
  }
  const exporting::WriteReport report = exporting::write(quantized, target.form, wish.output, target.options);
  for (const std::string& note : report.notes) notes.say(note);
}

}  // namespace

void add_graph_flags(CLI::App& verb, GraphFlags& flags) {
  const auto several = [](CLI::Option* option) { option->expected(1)->allow_extra_args(false)->take_all(); };
  several(verb.add_option("--data", flags.data,
                          "Of a graph: samples that give activations their ranges: [NAME=]X.npy, or a folder "
                          "of them; of a "
                          "language model also a text")
              ->type_name("DATA"));
  verb.add_option("--tokens", flags.tokens, "Of a text as --data: its first N tokens (all)")
      ->check(CLI::PositiveNumber);
  verb.add_option("--to", flags.to, "Of a graph: qonnx or qcdq (qonnx)")->type_name("FORM");
  verb.add_option(
      "--profile", flags.profile,
      "Of a graph: what shall take it: qonnx, finn or hls4ml (qonnx). hls4ml has a recipe of its own");
  add_opset_flag(verb, flags.opset,
                 "Of a graph: the operator set of the file (13, or the least that will do)");
  several(
      verb.add_option("--shape", flags.shapes, "Of a graph: NAME=1x128, the shape of an input in the file")
          ->type_name("SHAPE"));
  verb.add_option("--device", flags.device, "Of a graph: where samples run: cpu or cuda (cpu)");
  verb.add_flag("--tensors-only", flags.tensors_only,
                "Take an .onnx for a checkpoint: its tensors, no operators");
}

void quantize_graph(const QuantizeGraph& wish) {
  const double start = now_seconds();
  const Target target = target_of(wish);
  RecipeFlags flags = wish.recipe;
  use_profile(wish.flags.profile, flags);
  const Recipe recipe = wish.chosen ? *wish.chosen : recipe_of(flags);
  refuse_training_fields(recipe);
  if (recipe.zstd > 0 && !is_packed(wish.output) && !wish.output.empty()) {
    throw usage_error("zstd compresses packed files, found " + quote_text(wish.output));
  }
  if (recipe.layout != CodeLayout::kRows && !is_packed(wish.output) && !wish.output.empty()) {
    throw usage_error("a layout is for the codes of packed files, found " + quote_text(wish.output));
  }
  Notes notes;
  const std::string field = graph_field_of(recipe);
  const Source source = open_source(
      wish.input, field.empty() ? "a flag for graphs is given" : "the recipe has " + field, notes);
  std::vector<fs::path> inputs = source.paths;
  if (!wish.recipe.recipe.empty()) inputs.emplace_back(wish.recipe.recipe);
  for (const std::string& data : wish.flags.data) {
    inputs.emplace_back(data);
    inputs.emplace_back(data.substr(data.find('=') + 1));
  }
  if (!wish.output.empty()) refuse_overwriting_inputs(inputs, wish.output);

  const runtime::Engine runtime_engine(wish.threads);
  const auto [engine, is_runtime] = engine_for(wish, recipe, source.graph, runtime_engine);
  ptq::Setting setting{
      .graph = graph::prepare(source.graph, recipe, engine), .plan = {}, .threads = wish.threads};
  const graph::PlanOptions how{.unsigned_after_relu_only = target.options.profile == Profile::kFinn};
  GraphReport report{.input = wish.input, .output = wish.output, .foreseen = wish.dry_run};
  setting.plan = graph::plan_quantizers(setting.graph, recipe, how);
  refuse_without_data(wish, setting.plan);
  std::optional<CalibrationSamples> samples;
  if (!wish.dry_run) {
    if (engine) {
      samples.emplace(wish.flags.data, wish.flags.tokens, source.tensors ? &*source.tensors : nullptr,
                      source.graph, setting.graph);
      setting.engine = engine;
      setting.samples = samples->batches();
    }
    std::optional<Progress> progress;
    setting.progress = [&](std::size_t done, std::size_t all) {
      if (!progress) progress.emplace("rounding", "layers", all, 0);
      progress->update(done, 0);
    };
    report.stages = ptq::run_stages(recipe.stages, setting);
  }
  const Graph& prepared = setting.graph;
  report.plan = std::move(setting.plan);
  if (wish.dry_run) {
    describe_constants(prepared, report);
  } else {
    if (engine) {
      graph::calibrate(prepared, *engine, samples->batches(), report.plan);
    }
    const Graph quantized = graph::apply(prepared, report.plan, {.threads = wish.threads});
    if (!flags.base.empty()) exporting::check_for_profile(quantized, wish.flags.profile);
    describe_constants(prepared, report, &quantized);
    // Of a language model's weights crumb perplexity --baseline says more, and takes less memory.
    if (engine && !(samples->is_text() && report.plan.edges.empty())) {
      report.comparison =
          graph::compare(graph::infer_shapes(source.graph), quantized, report.plan, *engine,
                         report.plan.edges.empty() ? first_batches(samples->batches(), kComparedBatches)
                                                   : samples->batches(),
                         {.takes_codes = is_runtime});
      leave_out_caches(source.graph, *report.comparison);
    }
    write_output(wish, target, source, quantized, recipe, notes);
    report.seconds = now_seconds() - start;
  }
  for (const std::string& note : report.plan.notes) notes.say(note);
  report.notes = notes.all();
  wish.json ? print_json(json_of(report)) : print(report);
}

}  // namespace crumb::cli
