#include "cli/quantize/quantize_graph.h"

#include <iostream>

#include "cli/flags/flag_group.h"
#include "cli/flags/number_checks.h"
#include "cli/flags/opset_flag.h"
#include "cli/flags/shape_flags.h"
#include "cli/flags/torchscript_flags.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/quantize/quantize_graph_report.h"
#include "jobs/quantize_json.h"

namespace crumb::cli {
namespace {

/// Whether the flags say nothing of weights but a scheme's name. Not so for GGUF's schemes, whose blocks are
/// those of its tools.
bool is_of_scheme(const QuantizeGraph& requested) {
  const RecipeFlags& flags = requested.recipe;
  return !requested.chosen && flags.weights.empty() && flags.recipe.empty() &&
         !flags.scheme.starts_with("gguf:");
}

jobs::QuantizeRequest request_of(const QuantizeGraph& requested) {
  jobs::QuantizeRequest request{.input = requested.input,
                                .output = requested.output,
                                .recipe = {},
                                .as = jobs::QuantizeRequest::As::kNetwork,
                                .data = requested.flags.data,
                                .batch_axes = requested.flags.batch_axes,
                                .tokens = requested.flags.tokens,
                                .pairs = requested.flags.pairs,
                                .device = requested.flags.device,
                                .opset = requested.flags.opset,
                                .shapes = read_shapes(requested.flags.shapes),
                                .arguments = requested.flags.arguments,
                                .keeps_io_types = requested.flags.float16_io,
                                .float32_io = requested.flags.float32_io,
                                .pads_groups = is_of_scheme(requested),
                                .threads = requested.threads,
                                .memory = requested.memory,
                                .dry_run = requested.dry_run,
                                .resume = requested.resume,
                                .read_files = {},
                                .report = requested.report};
  if (!requested.flags.to.empty()) {
    request.form = exporting::form_named(requested.flags.to);
    if (std::filesystem::path(requested.output).extension() == ".crumb")
      throw usage_error("--to is for ONNX files, found the packed file " + quote_text(requested.output));
  }
  if (!requested.flags.profile.empty())
    request.profile = exporting::qonnx_profile_named(requested.flags.profile);
  if (!requested.recipe.recipe.empty()) request.read_files.emplace_back(requested.recipe.recipe);
  RecipeFlags flags = requested.recipe;
  use_profile(requested.flags.profile, flags);
  request.recipe = requested.chosen ? *requested.chosen : recipe_of(flags);
  request.checks_profile = !flags.base.empty();
  // A file that names its stages, as those that --target writes do, is complete: samples move no quantizers.
  request.is_whole =
      requested.chosen || (!flags.recipe.empty() && flags.stages.empty() && !request.recipe.stages.empty());
  return request;
}

}  // namespace

void add_graph_flags(CLI::App& verb, GraphFlags& flags) {
  const auto several = [](CLI::Option* option) { option->expected(1)->allow_extra_args(false)->take_all(); };
  several(verb.add_option("--data", flags.data,
                          "Of a graph: samples that give activations their ranges: [NAME=]X.npy, or a folder "
                          "of them; of a language model also a text, or texts or conversations (.jsonl)")
              ->type_name("DATA")
              ->group(kSampleFlags));
  several(verb.add_option("--batch-axis", flags.batch_axes, kBatchAxisHelp)
              ->type_name("NAME=AXIS")
              ->group(kSampleFlags));
  verb.add_option("--tokens", flags.tokens, "Of a text as --data: its first N tokens (all)")
      ->type_name("TOKENS")
      ->group(kSampleFlags)
      ->check(at_least(1));
  verb.add_flag("--pairs", flags.pairs, kPairsHelp)->group(kSampleFlags);
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
  add_several(verb, "--set-argument", flags.arguments, kArgumentHelp, "NAME=VALUE")->group(kSampleFlags);
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

void quantize_graph(const QuantizeGraph& requested) {
  if (requested.output.empty() && !requested.dry_run)
    throw usage_error("quantize needs -o FILE, the graph to write (.onnx or .crumb), or --dry-run");
  const jobs::QuantizeRequest request = request_of(requested);
  const jobs::QuantizeReport report = jobs::quantize(request, terminal());
  if (!requested.json) return print(report);
  Json json = jobs::json_of(report);
  if (requested.chosen) {
    json["recipe"] = to_yaml(report.recipe);
    json["assignment"] = requested.assignment;
  }
  print_json(json);
}

}  // namespace crumb::cli
