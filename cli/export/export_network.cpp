#include "cli/export/export_network.h"

#include <filesystem>
#include <iostream>
#include <optional>

#include "base/files/new_folder.h"
#include "base/files/output_file.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/within.h"
#include "cli/export/export_project.h"
#include "cli/flags/shape_flags.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "export/hls4ml/config.h"
#include "export/write.h"
#include "graph/adapters.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/engines/graph_inputs.h"
#include "jobs/packed_files.h"
#include "jobs/shape_notes.h"
#include "models/checkpoint_graph.h"
#include "models/read_graph.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

using exporting::Form;
using exporting::kNativeOpset;

void print_exported(const ExportFlags& options, const exporting::WriteReport& report) {
  if (options.json) {
    return print_json({{"output", options.output},
                       {"to", options.to},
                       {"opset", report.opset},
                       {"bytes", std::filesystem::file_size(options.output)},
                       {"weight_quantizers", report.weights},
                       {"activation_quantizers", report.activations},
                       {"notes", report.notes}});
  }
  for (const std::string& note : report.notes) std::cerr << "note: " << printable(note) << "\n";
  std::cout << options.output << "  " << options.to << ", operator set " << report.opset << ", ";
  if (exporting::form_named(options.to) != Form::kFloat) {
    std::cout << report.weights << " quantizers of weights, " << report.activations << " of activations, ";
  }
  std::cout << megabytes(std::filesystem::file_size(options.output))
            << "; read back, all numbers are the same\n";
}

/// From the file that was written, not from what was meant. What has no exact type is a note.
void write_accumulators(const ExportFlags& options, const graph::Graph& source, OutputFile& file,
                        std::vector<std::string>& notes) {
  const graph::Graph written = graph::resolve_shapes(graph::without_claims(graph::read_onnx(options.output)));
  const auto types = exporting::hls4ml::types_of(written, ranges_in_file(options.ranges, source, written));
  for (const std::string& fault : types.inexact)
    notes.push_back("hls4ml would not compute the same numbers: " + fault);
  const Json layers = exporting::hls4ml::config_of(types).at("LayerName");
  file.append(Json{{"hls4ml", {{"LayerName", layers}}}}.dump(2) + "\n");
  file.commit();
}

/// Returns the files that go into a model's file: its configuration, its tokenizer.
std::map<std::string, std::string> files_beside(const std::string& input) {
  if (!graph::is_crumb_file(input) && !models::is_checkpoint(input)) return {};
  return jobs::packed_files(TensorSource::open(input));
}

/// The network; notes of what a checkpoint holds beside it.
graph::Graph read_exported_network(const ExportFlags& options, std::vector<std::string>& notes) {
  if (!models::is_checkpoint(options.input))
    return jobs::read_graph_or_archive(options.input, example_of(options.archive, options.shapes),
                                       terminal());
  const TensorSource source = TensorSource::open(options.input);
  if (source.crumb() && graph::holds_graph(source.crumb()->header()))
    return models::read_graph(options.input);
  if (source.checkpoint()) refuse_overwriting_inputs(source.checkpoint()->input_paths(), options.output);
  models::CheckpointGraph read = models::graph_of_checkpoint(source, quote_text(options.input));
  if (!read.unused.empty()) notes.push_back(jobs::text_of_unused(read.unused));
  return std::move(read.graph);
}

}  // namespace

void write_export_network(const ExportFlags& options) {
  const Form form = exporting::form_named(options.to);
  if (!options.ranges.empty() && options.accumulators.empty())
    throw usage_error("--input-range is for --accumulator-config, --to " + std::string(kHls4mlProject) +
                      " and " + std::string(kFinnProject));
  refuse_overwriting_inputs({options.input}, options.output);
  const bool is_packed = form == Form::kPacked;
  if (const std::string ending = is_packed ? ".crumb" : ".onnx";
      std::filesystem::path(options.output).extension() != ending) {
    throw usage_error("the output " + quote_text(options.output) + ": the network is written as " +
                      (is_packed ? "a packed file" : "ONNX") + ", give a name that ends in " + ending);
  }
  if (options.native_types && options.opset > 0 && options.opset < kNativeOpset) {
    throw usage_error("--native-types needs operator set " + std::to_string(kNativeOpset) +
                      " or later, found --opset " + std::to_string(options.opset));
  }
  const auto weights_as = options.weights_as.empty() ? exporting::WeightsAs::kQcdq
                                                     : exporting::weights_as_named(options.weights_as);
  claim_output(options.output);
  std::optional<OutputFile> accumulators;  // opened before the work, so that it does not fail after it
  if (!options.accumulators.empty()) {
    refuse_overwriting_inputs({options.input}, options.accumulators);
    std::error_code ignored;
    if (std::filesystem::weakly_canonical(options.accumulators, ignored) ==
        std::filesystem::weakly_canonical(options.output, ignored)) {
      throw usage_error("--accumulator-config and the output are the same file, " +
                        quote_text(options.output));
    }
    accumulators.emplace(options.accumulators);
  }
  std::vector<std::string> notes;
  graph::Graph graph = read_exported_network(options, notes);
  if (options.without_adapters) graph = graph::without_adapters(std::move(graph));
  if (is_packed) graph = jobs::for_runtime(std::move(graph));
  if (std::string note = jobs::note_of_shapes(graph); !note.empty()) notes.push_back(std::move(note));
  if (std::string note = jobs::note_of_foreign_operators(graph); !note.empty())
    notes.push_back(std::move(note));
  const exporting::WriteOptions write{
      .profile = exporting::qonnx_profile_named(options.profile),
      .opset = options.opset,
      .shapes = read_shapes(options.shapes),
      .allow_approximate = options.allow_approximate,
      .integer_view = options.integer_view,
      .weights_as_float = options.weights_as_float,
      .weights_as = weights_as,
      .allow_arithmetic = options.allow_arithmetic,
      .files = is_packed ? files_beside(options.input) : std::map<std::string, std::string>(),
      .native_types = options.native_types};
  try {
    exporting::WriteReport report = exporting::write(graph, form, options.output, write);
    report.notes.insert(report.notes.begin(), notes.begin(), notes.end());
    if (accumulators) write_accumulators(options, graph, *accumulators, report.notes);
    print_exported(options, report);
  } catch (const Error& error) {
    throw within(quote_text(options.input), error);
  }
}

void write_export_project(const ExportFlags& options) {
  refuse_overwriting_inputs({options.input, options.project.data}, options.output);
  claim_new_folder(options.output);
  std::vector<std::string> notes;
  ProjectReport report;
  try {
    const ProjectRequest request{.graph = read_exported_network(options, notes),
                                 .folder = options.output,
                                 .shapes = options.shapes,
                                 .ranges = options.ranges,
                                 .opset = options.opset,
                                 .flags = options.project};
    report = options.to == kFinnProject ? write_finn_project(request) : write_hls4ml_project(request);
  } catch (const Error& error) {
    throw within(quote_text(options.input), error);
  }
  report.notes.insert(report.notes.begin(), notes.begin(), notes.end());
  if (options.json) {
    return print_json({{"output", options.output},
                       {"to", options.to},
                       {"layers", report.layers},
                       {"samples", report.samples},
                       {"notes", report.notes}});
  }
  for (const std::string& note : report.notes) std::cerr << "note: " << printable(note) << "\n";
  std::cout << options.output << "  " << options.to << ", " << report.layers << " layers with accumulators, "
            << report.samples << " samples to compare\n"
            << "next: python " << options.output << "/build.py\n";
}

}  // namespace crumb::cli
