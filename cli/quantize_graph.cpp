#include "cli/quantize_graph.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include "base/files/text.h"
#include "cli/flag_group.h"
#include "cli/layer_files_of.h"
#include "cli/needed_memory.h"
#include "cli/notes.h"
#include "cli/number_checks.h"
#include "cli/opset_flag.h"
#include "cli/output.h"
#include "cli/quantize_graph_report.h"
#include "cli/quantize_network.h"
#include "cli/quantize_warnings.h"
#include "cli/shape_flags.h"
#include "export/check_for_profile.h"
#include "export/write.h"
#include "graph/onnx/write.h"
#include "graph/passes/to_float32.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
using exporting::Form;
using exporting::Profile;
using graph::Graph;

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

/// Whether nobody said of weights more than the name of a scheme; GGUF's blocks are those of its tools.
bool is_of_scheme(const QuantizeGraph& wish) {
  const RecipeFlags& flags = wish.recipe;
  return !wish.chosen && flags.weights.empty() && flags.recipe.empty() && !flags.scheme.starts_with("gguf:");
}

/// A recipe that a search chose is for what the search placed.
graph::PlanOptions everywhere(const std::string& profile, const Recipe& recipe) {
  graph::PlanOptions options = plan_options_of(profile, recipe);
  options.placement = graph::Placement::kEverywhere;
  return options;
}

void write_output(const QuantizeGraph& wish, const Target& target, const NetworkSource& source,
                  const Graph& quantized, const Recipe& recipe, Notes& notes) {
  if (is_packed(wish.output)) return write_packed_network(source, quantized, recipe, wish.output);
  const exporting::WriteReport report = exporting::write(quantized, target.form, wish.output, target.options);
  for (const std::string& note : report.notes) notes.say(note);
}

/// A large ONNX file's weights lie beside it (graph/onnx/write.h).
std::uint64_t bytes_of_output(const std::string& output) {
  std::error_code unknown;
  std::uint64_t bytes = fs::file_size(output);
  if (const auto beside = fs::file_size(output + ".data", unknown); !is_packed(output) && !unknown)
    bytes += beside;
  return bytes;
}

/// At least: of QONNX every weight as a float, of QCDQ a byte of each.
std::uint64_t bytes_written(const Graph& graph, Form form) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : graph.initializers)
    bytes += form == Form::kQcdq ? static_cast<std::uint64_t>(tensor.size()) : tensor.byte_count();
  return bytes;
}

}  // namespace

void add_graph_flags(CLI::App& verb, GraphFlags& flags) {
  const auto several = [](CLI::Option* option) { option->expected(1)->allow_extra_args(false)->take_all(); };
  several(verb.add_option("--data", flags.data,
                          "Of a graph: samples that give activations their ranges: [NAME=]X.npy, or a folder "
                          "of them; of a language model also a text, or texts or conversations (.jsonl)")
              ->type_name("DATA")
              ->group(kSampleFlags));
  verb.add_option("--tokens", flags.tokens, "Of a text as --data: its first N tokens (all)")
      ->type_name("TOKENS")
      ->group(kSampleFlags)
      ->check(at_least(1));
  verb.add_option("--to", flags.to, "Of a graph: qonnx or qcdq (qonnx)")
      ->type_name("qonnx|qcdq")
      ->group(kOutputFlags);
  verb.add_option("--profile", flags.profile,
                  "Of a graph: what shall take it; hls4ml has a recipe of its own (qonnx)")
      ->type_name("qonnx|finn|hls4ml")
      ->group(kOutputFlags);
  add_opset_flag(verb, flags.opset,
                 "Of a graph: the operator set of the file (13, or the least that will do)");
  several(
      verb.add_option("--shape", flags.shapes, "Of a graph: NAME=1x128, the shape of an input in the file")
          ->type_name("NAME=SIZES")
          ->group(kOutputFlags));
  verb.add_option("--device", flags.device, "Of a graph: where samples run: cpu or cuda (cpu)")
      ->type_name("DEVICE")
      ->group(kRunningFlags);
  CLI::Option* kept = verb.add_flag("--float16-io", flags.float16_io,
                                    "Of a graph in float16, bfloat16 or float64: its inputs and outputs keep "
                                    "their types (the default, but for FINN and hls4ml)")
                          ->group(kOutputFlags);
  verb.add_flag("--float32-io", flags.float32_io, "Of such a graph: inputs and outputs in float32")
      ->group(kOutputFlags)
      ->excludes(kept);
  verb.add_flag("--tensors-only", flags.tensors_only,
                "Take an .onnx for a checkpoint: its tensors, no operators")
      ->group(kInputFlags);
}

void quantize_graph(const QuantizeGraph& wish) {
  const double start = now_seconds();
  const Target target = target_of(wish);
  RecipeFlags flags = wish.recipe;
  use_profile(wish.flags.profile, flags);
  Recipe asked = wish.chosen ? *wish.chosen : recipe_of(flags);
  refuse_training_fields(asked);
  // A file that names its stages, as those that --target writes do, says all: samples move no quantizers.
  const bool is_whole =
      wish.chosen || (!flags.recipe.empty() && flags.stages.empty() && !asked.stages.empty());
  // Profiles of hardware keep the codes of rounding, which others can compute again.
  const bool rounds_usually =
      asked.stages.empty() && !wish.flags.data.empty() && target.options.profile == Profile::kQonnx;
  if (rounds_usually) asked.stages = usual_rounding();
  const Recipe& recipe = asked;
  refuse_stage_flags(wish, recipe);
  if (recipe.zstd > 0 && !is_packed(wish.output) && !wish.output.empty()) {
    throw usage_error("zstd compresses packed files, found " + quote_text(wish.output));
  }
  if (recipe.layout != CodeLayout::kRows && !is_packed(wish.output) && !wish.output.empty()) {
    throw usage_error("a layout is for the codes of packed files, found " + quote_text(wish.output));
  }
  Notes notes;
  const std::string field = graph_field_of(recipe);
  NetworkSource source = open_network(
      wish.input, field.empty() ? "a flag for graphs is given" : "the recipe has " + field, notes);
  const bool is_for_hardware = target.options.profile != Profile::kQonnx;
  if (wish.flags.float16_io && is_for_hardware)
    throw usage_error("--float16-io: " + std::string(exporting::name_of(target.options.profile)) +
                      " takes inputs and outputs in float32 alone");
  if (wish.flags.float32_io || is_for_hardware)
    source.graph = graph::to_float32(std::move(source.graph), graph::Ends::kFloat32);
  std::vector<fs::path> inputs = source.paths;
  if (!wish.recipe.recipe.empty()) inputs.emplace_back(wish.recipe.recipe);
  for (const std::string& data : wish.flags.data) {
    inputs.emplace_back(data);
    inputs.emplace_back(data.substr(data.find('=') + 1));
  }
  if (!wish.output.empty()) refuse_overwriting_inputs(inputs, wish.output);

  NetworkQuantization network(source, recipe,
                              {.data = wish.flags.data,
                               .tokens = wish.flags.tokens,
                               .device = wish.flags.device,
                               .threads = wish.threads,
                               .memory = wish.memory,
                               .rolls_back = true,
                               .pads_groups = is_of_scheme(wish),
                               .shares_scales = target.options.profile == Profile::kQonnx,
                               .usual_rounding = rounds_usually,
                               .plan = is_whole ? everywhere(wish.flags.profile, recipe)
                                                : plan_options_of(wish.flags.profile, recipe)});
  if (!wish.output.empty() && !is_packed(wish.output) && !wish.dry_run)
    graph::expect_room(wish.output, bytes_written(network.prepared(), target.form));
  if (!wish.dry_run) expect_memory(wish.input, network.prepared(), network.plan());
  GraphReport report{.input = wish.input, .output = wish.output, .foreseen = wish.dry_run};
  report.input_bytes = source.bytes();
  if (source.checkpoint()) report.skipped = source.checkpoint()->skipped();
  std::unique_ptr<ptq::LayerFiles> layer_files;
  if (wish.dry_run) {
    report.plan = network.plan();
    describe_constants(network.prepared(), report);
  } else {
    layer_files = layer_files_of(wish, network.recipe(), source.checkpoint(), network.setting());
    const Graph quantized = network.run(layer_files.get());
    network.measure_costs();
    report.plan = network.plan();
    report.stages = network.stages();
    report.biases = network.biases();
    if (!flags.base.empty()) exporting::check_for_profile(quantized, wish.flags.profile);
    describe_constants(network.prepared(), report, &quantized);
    report.comparison = network.compare(quantized);
    if (wish.flags.data.empty() && recipe.stages.empty() && network.rounds_weights())
      notes.say(
          "each weight is rounded by itself; with samples (--data) they take gptq wherever a layer loses "
          "less: "
          "PaddleOCR's recogniser has 44 dB by it at W8A16, and 26 dB without");
    if (layer_files) layer_files->unlock();
    write_output(wish, target, source, quantized, network.recipe(), notes);
    if (layer_files) layer_files->finish();
    report.output_bytes = bytes_of_output(wish.output);
    report.seconds = now_seconds() - start;
  }
  for (const std::string& note : report.plan.notes) notes.say(note);
  for (const std::string& warning : warnings_of(report, network.prepared())) notes.warn(warning);
  report.notes = notes.all();
  if (!wish.json) return print(report);
  Json json = json_of(report);
  if (wish.chosen) {
    json["recipe"] = to_yaml(recipe);
    json["assignment"] = wish.assignment;
  }
  print_json(json);
}

}  // namespace crumb::cli
