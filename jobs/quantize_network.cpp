#include <filesystem>
#include <memory>

#include "base/files/process_memory.h"
#include "base/files/text.h"
#include "export/check_for_profile.h"
#include "graph/onnx/write.h"
#include "graph/passes/to_float32.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/layer_files_of.h"
#include "jobs/needed_memory.h"
#include "jobs/network_quantization.h"
#include "jobs/network_report.h"
#include "jobs/quantize_parts.h"
#include "jobs/quantize_warnings.h"
#include "quant/checkpoint/checkpoint_plan.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using exporting::Form;
using exporting::Profile;
using graph::Graph;

bool is_packed(const std::string& output) { return fs::path(output).extension() == ".crumb"; }

/// Checks what can be known of the output before any work.
void check_output_of(const QuantizeRequest& request, const Observer& observer) {
  const std::string& output = request.output;
  if (output.empty() && !request.dry_run)
    throw usage_error("quantize needs an output, the graph to write (.onnx or .crumb), or a dry run");
  if (!output.empty() && !is_packed(output) && fs::path(output).extension() != ".onnx")
    throw usage_error(observer.spelled("output") + " " + quote_text(output) +
                      ": a quantized graph is written as .onnx or .crumb");
  if (request.form != Form::kQonnx && request.form != Form::kQcdq)
    throw usage_error(observer.spelled("form") + " " + std::string(name_of(request.form)) +
                      ": a quantized graph is written as qonnx or qcdq; crumb export folds it");
  if (request.profile != Profile::kQonnx && request.form != Form::kQonnx)
    throw usage_error(observer.spelled("profile") + " is for QONNX and packed files, found " +
                      std::string(name_of(request.form)));
  if (output.empty() || is_packed(output)) return;
  if (request.recipe.zstd > 0) throw usage_error("zstd compresses packed files, found " + quote_text(output));
  if (request.recipe.layout != CodeLayout::kRows)
    throw usage_error("a layout is for the codes of packed files, found " + quote_text(output));
}

graph::PlanOptions placement_of(const QuantizeRequest& request, const Recipe& recipe) {
  graph::PlanOptions options = plan_options_of(request.profile, recipe);
  if (request.is_whole) options.placement = graph::Placement::kEverywhere;
  return options;
}

NetworkSource open_source(const QuantizeRequest& request, Notes& notes) {
  const std::string field = graph_field_of(request.recipe);
  NetworkSource source = open_network(
      request.input, field.empty() ? "a flag for graphs is given" : "the recipe has " + field, notes,
      {.inputs = request.data,
       .inputs_field = notes.observer().spelled("data"),
       .shapes = request.shapes,
       .arguments = request.arguments,
       .batch_axes = request.batch_axes});
  const bool is_for_hardware = request.profile != Profile::kQonnx;
  if (request.keeps_io_types && is_for_hardware)
    throw usage_error(notes.observer().spelled("keeps_io_types") + ": " +
                      std::string(exporting::name_of(request.profile)) +
                      " takes inputs and outputs in float32 alone");
  if (request.float32_io || is_for_hardware)
    source.graph = graph::to_float32(std::move(source.graph), graph::Ends::kFloat32);
  if (request.output.empty()) return source;
  std::vector<fs::path> inputs = inputs_of(request);
  std::ranges::copy(source.paths, std::back_inserter(inputs));
  refuse_overwriting_inputs(inputs, request.output);
  return source;
}

void write_output(const QuantizeRequest& request, const NetworkSource& source, const Graph& quantized,
                  const NetworkQuantization& network, Notes& notes) {
  if (is_packed(request.output))
    return write_packed_network(source, quantized, network.recipe(), request.output, network.changed_files());
  const exporting::WriteReport report = exporting::write(
      quantized, request.form, request.output,
      {.profile = request.profile, .opset = request.opset, .shapes = request.shapes, .files = {}});
  for (const std::string& note : report.notes) notes.say(note);
}

/// A large ONNX file stores its weights in a file next to it.
std::uint64_t bytes_of_output(const fs::path& output) {
  std::error_code unknown;
  std::uint64_t bytes = fs::file_size(output);
  const auto beside = fs::file_size(output.parent_path() / graph::data_file_of(output), unknown);
  return !is_packed(output) && !unknown ? bytes + beside : bytes;
}

/// Returns the least bytes that are written: in QONNX each weight as a float, in QCDQ as a byte.
std::uint64_t bytes_written(const Graph& graph, Form form) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : graph.initializers)
    bytes += form == Form::kQcdq ? static_cast<std::uint64_t>(tensor.size()) : tensor.byte_count();
  return bytes;
}

void quantize_into(const QuantizeRequest& request, const NetworkSource& source, NetworkQuantization& network,
                   QuantizeReport& report, Notes& notes) {
  const std::unique_ptr<ptq::LayerFiles> layer_files =
      layer_files_of(request, network.recipe(), source.checkpoint(), network.setting(), notes.observer());
  const Graph quantized = network.run(layer_files.get());
  network.measure_costs();
  report.plan = network.plan();
  report.stages = network.stages();
  report.biases = network.biases();
  if (request.checks_profile) exporting::check_for_profile(quantized, std::string(name_of(request.profile)));
  report.tensors = reports_of(network.prepared(), report.plan, &quantized);
  report.comparison = network.compare(quantized);
  if (request.data.empty() && request.recipe.stages.empty() && network.rounds_weights())
    notes.say("each weight is rounded by itself; with samples (" + notes.observer().spelled("data") +
              ") they take gptq wherever a layer loses less: PaddleOCR's recogniser has 44 dB by it at "
              "W8A16, and 26 dB without");
  if (layer_files) layer_files->unlock();
  write_output(request, source, quantized, network, notes);
  if (layer_files) layer_files->finish();
  report.output_bytes = bytes_of_output(request.output);
  report.peak_bytes = peak_resident_bytes();
}

}  // namespace

QuantizeReport quantize_network(const QuantizeRequest& request, Observer& observer) {
  check_output_of(request, observer);
  refuse_training_fields(request.recipe);
  Recipe recipe = request.recipe;
  // Profiles of hardware keep the codes of rounding, which others can compute again.
  const bool rounds_usually = count_shrinking(recipe.stages) == recipe.stages.size() &&
                              !request.data.empty() && request.profile == Profile::kQonnx;
  if (rounds_usually) std::ranges::copy(usual_rounding(), std::back_inserter(recipe.stages));
  refuse_stage_fields(request, recipe, observer);
  Notes notes(observer);
  const NetworkSource source = open_source(request, notes);
  NetworkQuantization network(source, recipe,
                              {.data = request.data,
                               .batch_axes = request.batch_axes,
                               .tokens = request.tokens,
                               .pairs = request.pairs,
                               .device = request.device,
                               .threads = request.threads,
                               .memory = request.memory,
                               .rolls_back = true,
                               .pads_groups = request.pads_groups,
                               .shares_scales = request.profile == Profile::kQonnx,
                               .usual_rounding = rounds_usually,
                               .plan = placement_of(request, recipe)},
                              observer);
  QuantizeReport report{.input = request.input,
                        .output = request.output,
                        .is_network = true,
                        .foreseen = request.dry_run,
                        .tensors = {},
                        .input_bytes = source.bytes(),
                        .skipped = {},
                        .dequantized = {},
                        .notes = {},
                        .recipe = {},
                        .plan = {},
                        .stages = {},
                        .biases = {},
                        .comparison = {}};
  if (source.checkpoint()) {
    report.skipped = source.checkpoint()->skipped();
    report.dequantized = source.checkpoint()->dequantized();
    note_reading(*source.checkpoint(), observer);
  }
  if (request.dry_run) {
    report.plan = network.plan();
    report.tensors = reports_of(network.prepared(), report.plan, nullptr);
  } else {
    if (!is_packed(request.output))
      graph::expect_room(request.output, bytes_written(network.prepared(), request.form));
    expect_memory(request.input, network.prepared(), network.plan(), observer);
    quantize_into(request, source, network, report, notes);
  }
  report.bits_per_weight = bits_a_weight(report.tensors);
  report.recipe = network.recipe();
  for (const std::string& note : report.plan.notes) notes.say(note);
  for (const std::string& warning : warnings_of(report, network.prepared(), observer)) notes.warn(warning);
  report.notes = notes.all();
  return report;
}

}  // namespace crumb::jobs
