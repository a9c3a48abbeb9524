// crumb export and crumb convert: a quantized network as a file for other tools.
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/files/new_folder.h"
#include "base/files/output_file.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/within.h"
#include "cli/dtype_flag.h"
#include "cli/export_adapter.h"
#include "cli/export_folder.h"
#include "cli/export_gguf.h"
#include "cli/export_project.h"
#include "cli/flag_group.h"
#include "cli/notes.h"
#include "cli/opset_flag.h"
#include "cli/output.h"
#include "cli/shape_flags.h"
#include "cli/verb.h"
#include "export/hls4ml/config.h"
#include "export/write.h"
#include "graph/adapters.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/engines/graph_inputs.h"
#include "jobs/language/adapter_files.h"
#include "jobs/packed_files.h"
#include "jobs/shape_notes.h"
#include "models/checkpoint_graph.h"
#include "models/read_graph.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

using exporting::Form;
using exporting::kNativeOpset;

struct ExportOptions {
  std::string input, output, accumulators, to, shard, dtype, adapter, profile = "qonnx";
  std::vector<std::string> shapes, ranges;
  ProjectFlags project;
  std::int64_t opset = 0;
  bool weights_as_float = false, native_types = false, allow_arithmetic = false, integer_view = false;
  bool allow_approximate = false, without_adapters = false;
  bool json = false;
};

void refuse_flags_of_other_forms(const ExportOptions& options, Form form) {
  const auto only = [&](bool given, const char* flag, Form of) {
    if (given && form != of) {
      throw usage_error(std::string(flag) + " is for --to " + std::string(name_of(of)) + ", found --to " +
                        options.to);
    }
  };
  only(options.weights_as_float, "--weights-as-float", Form::kQcdq);
  only(options.native_types, "--native-types", Form::kQcdq);
  only(options.allow_arithmetic, "--allow-arithmetic", Form::kQcdq);
  only(options.integer_view, "--integer-view", Form::kQonnx);
  only(options.allow_approximate, "--allow-approximate", Form::kQonnx);
  only(!options.accumulators.empty(), "--accumulator-config", Form::kQonnx);
  only(options.profile != "qonnx", "--profile", Form::kQonnx);
  refuse_flags_of_other_projects(options.project, options.to);
}

void print_report(const ExportOptions& options, const exporting::WriteReport& report) {
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
void write_accumulators(const ExportOptions& options, const graph::Graph& source, OutputFile& file,
                        std::vector<std::string>& notes) {
  const graph::Graph written = graph::resolve_shapes(graph::without_claims(graph::read_onnx(options.output)));
  const auto types = exporting::hls4ml::types_of(written, ranges_in_file(options.ranges, source, written));
  for (const std::string& fault : types.inexact)
    notes.push_back("hls4ml would not compute the same numbers: " + fault);
  const Json layers = exporting::hls4ml::config_of(types).at("LayerName");
  file.append(Json{{"hls4ml", {{"LayerName", layers}}}}.dump(2) + "\n");
  file.commit();
}

/// The network; notes of what a checkpoint holds beside it.
graph::Graph read_network(const ExportOptions& options, std::vector<std::string>& notes) {
  if (!models::is_checkpoint(options.input)) return models::read_graph(options.input);
  const TensorSource source = TensorSource::open(options.input);
  if (source.crumb() && graph::holds_graph(source.crumb()->header()))
    return models::read_graph(options.input);
  if (source.checkpoint()) refuse_overwriting_inputs(source.checkpoint()->input_paths(), options.output);
  models::CheckpointGraph read = models::graph_of_checkpoint(source, quote_text(options.input));
  if (!read.unused.empty()) notes.push_back(jobs::text_of_unused(read.unused));
  return std::move(read.graph);
}

/// What a model's file takes along: its configuration, its tokenizer.
std::map<std::string, std::string> files_beside(const std::string& input) {
  if (!graph::is_crumb_file(input) && !models::is_checkpoint(input)) return {};
  return jobs::packed_files(TensorSource::open(input));
}

/// Whether a flag is given that only a form of exporting::Form takes; --allow-approximate aside.
bool has_flags_of_forms(const ExportOptions& options) {
  return options.weights_as_float || options.native_types || options.allow_arithmetic ||
         options.integer_view || options.without_adapters || !options.accumulators.empty() ||
         options.profile != "qonnx";
}

/// Other tools' files of whole models have matrices and nothing beside them.
void refuse_adapters(const std::string& input) {
  if (const auto tensor = jobs::adapter_tensor_in(input))
    throw usage_error(quote_text(input) + " has an adapter beside its matrices (" + quote_text(*tensor) +
                      "): crumb merge puts it into them, or into a folder in floats; --to adapter writes "
                      "it by itself, and --to packed --without-adapters the network beside it");
}

void export_folder(const ExportOptions& options) {
  refuse_adapters(options.input);
  if (has_flags_of_forms(options) || !options.shapes.empty() || !options.ranges.empty() ||
      options.opset > 0 || (options.allow_approximate && options.to == kHuggingFaceFolder)) {
    throw usage_error("--to " + options.to + " takes --shard and --json" +
                      (options.to == kHuggingFaceFolder ? "" : ", and --allow-approximate"));
  }
  refuse_flags_of_other_projects(options.project, options.to);
  write_export_folder({.input = options.input,
                       .output = options.output,
                       .to = options.to,
                       .shard = options.shard,
                       .dtype = options.dtype,
                       .allow_approximate = options.allow_approximate,
                       .json = options.json});
}

void export_gguf(const ExportOptions& options) {
  if (has_flags_of_forms(options) || options.allow_approximate || !options.shapes.empty() ||
      !options.ranges.empty() || options.opset > 0 || !options.shard.empty())
    throw usage_error("--to " + options.to + " takes --json alone");
  refuse_flags_of_other_projects(options.project, options.to);
  refuse_adapters(options.input);
  write_export_gguf(options.input, options.output, options.json);
}

void export_adapter(const ExportOptions& options) {
  if (has_flags_of_forms(options) || options.allow_approximate || !options.shapes.empty() ||
      !options.ranges.empty() || options.opset > 0 || !options.shard.empty())
    throw usage_error("--to " + options.to + " takes --name and --json");
  refuse_flags_of_other_projects(options.project, options.to);
  write_export_adapter(options.input, options.output, options.adapter, options.json);
}

/// Without --to: the names of the files say what is meant.
void convert_between_files(const ExportOptions& options) {
  refuse_adapters(options.input);
  if (!is_between_gguf_and_packed(options.input, options.output))
    throw usage_error(
        "--to is missing: without it convert goes from .gguf to .crumb and from .crumb to .gguf, found " +
        quote_text(options.input) + " and " + quote_text(options.output));
  if (has_flags_of_forms(options) || options.allow_approximate || !options.shapes.empty() ||
      !options.ranges.empty() || options.opset > 0)
    throw usage_error("between GGUF and packed files convert takes --json alone");
  convert_gguf(options.input, options.output, options.json);
}

void export_project(const ExportOptions& options) {
  if (has_flags_of_forms(options) || options.allow_approximate) {
    throw usage_error("--to " + options.to +
                      " takes --shape, --input-range, --opset and the flags of a project");
  }
  refuse_flags_of_other_projects(options.project, options.to);
  refuse_overwriting_inputs({options.input, options.project.data}, options.output);
  claim_new_folder(options.output);
  std::vector<std::string> notes;
  ProjectReport report;
  try {
    const ProjectRequest request{.graph = read_network(options, notes),
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

void export_verb(const ExportOptions& options) {
  if (!options.dtype.empty() && options.to != kHuggingFaceFolder)
    throw usage_error("--dtype is for --to " + std::string(kHuggingFaceFolder) +
                      (options.to.empty() ? "" : ", found --to " + options.to));
  if (options.to.empty()) return convert_between_files(options);
  if (!options.adapter.empty() && options.to != kAdapterForm)
    throw usage_error("--name is for --to " + std::string(kAdapterForm) + ", found --to " + options.to);
  if (is_folder_form(options.to)) return export_folder(options);
  if (options.to == kGgufForm) return export_gguf(options);
  if (options.to == kAdapterForm) return export_adapter(options);
  if (!options.shard.empty())
    throw usage_error("--shard is for --to " + std::string(kHuggingFaceFolder) + " and --to " +
                      std::string(kCompressedTensors) + ", found --to " + options.to);
  if (options.to == kHls4mlProject || options.to == kFinnProject) return export_project(options);
  const Form form = exporting::form_named(options.to);
  if (!options.ranges.empty() && options.accumulators.empty())
    throw usage_error("--input-range is for --accumulator-config, --to " + std::string(kHls4mlProject) +
                      " and --to " + std::string(kFinnProject));
  refuse_flags_of_other_forms(options, form);
  refuse_overwriting_inputs({options.input}, options.output);
  if (form == Form::kPacked && options.opset > 0)
    throw usage_error("--opset is for ONNX files, found --to packed");
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
  claim_output(options.output);
  std::optional<OutputFile> accumulators;  // opened before the work, so that it does not fail behind it
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
  graph::Graph graph = read_network(options, notes);
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
      .allow_arithmetic = options.allow_arithmetic,
      .files = is_packed ? files_beside(options.input) : std::map<std::string, std::string>(),
      .native_types = options.native_types};
  try {
    exporting::WriteReport report = exporting::write(graph, form, options.output, write);
    report.notes.insert(report.notes.begin(), notes.begin(), notes.end());
    if (accumulators) write_accumulators(options, graph, *accumulators, report.notes);
    print_report(options, report);
  } catch (const Error& error) {
    throw within(quote_text(options.input), error);
  }
}

CLI::App* add(CLI::App& app, const char* name, const char* what,
              const std::shared_ptr<ExportOptions>& options) {
  CLI::App* verb = app.add_subcommand(name, what);
  verb->add_option(
          "--to", options->to,
          "qonnx, qcdq (QuantizeLinear, Clip, DequantizeLinear), float, or packed (.crumb, which libcrumb.so "
          "runs); export: gguf (llama.cpp), hf (a Hugging Face folder of floats), compressed-tensors (one of "
          "codes), adapter (one in the file, by itself: a PEFT folder or a .gguf), hls4ml-project, "
          "finn-project")
      ->type_name(
          std::string_view(name) == "export"
              ? "qonnx|qcdq|float|packed|gguf|hf|compressed-tensors|adapter|hls4ml-project|finn-project"
              : "qonnx|qcdq|float|packed")
      ->group(kOutputFlags)
      ->required(std::string_view(name) == "export");
  verb->add_option("--profile", options->profile, "qonnx: whose rules are kept (qonnx, finn, hls4ml)")
      ->type_name("qonnx|finn|hls4ml")
      ->group(kOutputFlags);
  add_opset_flag(*verb, options->opset, "ONNX's operator set (13, or the least that will do)");
  verb->add_option("--shape", options->shapes, kShapeHelp)->type_name("NAME=SIZES")->group(kOutputFlags);
  verb->add_flag("--integer-view", options->integer_view,
                 "qonnx: quantizers of scale 1, and the scales as Div and Mul beside them")
      ->group("How the file is written");
  verb->add_flag(
          "--allow-approximate", options->allow_approximate,
          "qonnx: write also what the profile's tool computes nearly the same (hls4ml: scales that are no "
          "powers of two), and say so; compressed-tensors: nvfp4")
      ->group("How the file is written");
  verb->add_option("--accumulator-config", options->accumulators,
                   "qonnx: write the types that each layer needs, as hls4ml's configuration (JSON)")
      ->type_name("FILE")
      ->group("How the file is written");
  verb->add_option("--input-range", options->ranges,
                   "NAME=lo:hi, the whole numbers of an input that nothing quantizes first")
      ->type_name("NAME=LO:HI")
      ->group("How the file is written");
  verb->add_flag(
          "--weights-as-float", options->weights_as_float,
          "qcdq: weights as float32 behind a QuantizeLinear, which qonnx's converter reads without loss")
      ->group("How the file is written");
  verb->add_flag("--native-types", options->native_types,
                 "qcdq, operator set 21 and later: int4, uint4, ... as element types")
      ->group("How the file is written");
  verb->add_flag("--allow-arithmetic", options->allow_arithmetic,
                 "qcdq: float arithmetic for quantizers that QuantizeLinear cannot say")
      ->group("How the file is written");
  verb->add_flag("--json", options->json, "Print JSON")->group(kOutputFlags);
  verb->callback([options] { export_verb(*options); });
  return verb;
}

}  // namespace

void add_export(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* verb =
      add(app, "export", "Write a quantized network for other tools (QONNX, QCDQ, float ONNX)", options);
  verb->add_option(
          "model", options->input,
          "The network: a graph (.onnx, .crumb), or a checkpoint of a known architecture (.crumb, folder)")
      ->type_name("MODEL")
      ->required();
  verb->add_option("-o,--output", options->output, "The file to write (.onnx, .crumb), or a folder")
      ->type_name("FILE|FOLDER")
      ->group(kOutputFlags)
      ->required();
  verb->add_option("--shard", options->shard,
                   "hf, compressed-tensors: tensor files of at most this size (2GB, 500MiB; a tensor is "
                   "never cut), else 5GB")
      ->type_name("SIZE")
      ->group(kOutputFlags);
  add_dtype_flag(*verb, options->dtype);
  verb->add_option("--name", options->adapter, "adapter: which one, where the file has several")
      ->type_name("NAME")
      ->group("How the file is written");
  verb->add_flag("--without-adapters", options->without_adapters,
                 "qonnx, qcdq, float, packed: leave out the low-rank adapters that the file has")
      ->group("How the file is written");
  add_project_flags(*verb, options->project);
  verb->footer(
      "The file is read back before it gets its name: every quantizer's integers must be those that were "
      "meant.\n\n"
      "Example:\n  crumb export net.crumb -o net.onnx --to qonnx --profile finn --shape image=1x3x32x32");
}

void add_convert(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* verb =
      add(app, "convert",
          "Rewrite an ONNX file between QONNX, QCDQ and float, or GGUF as packed file and back", options);
  verb->add_option("input", options->input, "The file to read (.onnx, .gguf, .crumb)")
      ->type_name("FILE")
      ->required();
  verb->add_option("output", options->output, "The file to write (.onnx, .crumb, .gguf)")
      ->type_name("FILE")
      ->required();
  verb->footer(
      "Between GGUF and packed files, which need no --to, codes and scales stay as they are.\n\n"
      "Examples:\n  crumb convert TFC_2W2A.onnx tfc_qcdq.onnx --to qcdq\n"
      "  crumb convert SmolLM2-135M-Instruct.Q4_1.gguf smollm2.crumb\n"
      "  crumb convert smollm2.crumb smollm2.gguf");
}

}  // namespace crumb::cli
