// crumb export and crumb convert: write a quantized network as a file for other tools.
#include "base/files/text.h"
#include "cli/export/export_adapter.h"
#include "cli/export/export_flags.h"
#include "cli/export/export_folder.h"
#include "cli/export/export_gguf.h"
#include "cli/export/export_network.h"
#include "cli/export/export_project.h"
#include "cli/flags/dtype_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/opset_flag.h"
#include "cli/flags/shape_flags.h"
#include "cli/flags/verb.h"
#include "jobs/language/adapter_files.h"

namespace crumb::cli {
namespace {

/// Other tools' files of whole models hold matrices and no adapters.
void refuse_adapters(const std::string& input) {
  if (const auto tensor = jobs::adapter_tensor_in(input))
    throw usage_error(quote_text(input) + " has an adapter beside its matrices (" + quote_text(*tensor) +
                      "): crumb merge puts it into them, or into a folder in floats; --to adapter writes "
                      "it by itself, and --to packed --without-adapters the network beside it");
}

void write_folder(const ExportFlags& options) {
  refuse_adapters(options.input);
  write_export_folder({.input = options.input,
                       .output = options.output,
                       .to = options.to,
                       .shard = options.shard,
                       .dtype = options.dtype,
                       .allow_approximate = options.allow_approximate,
                       .json = options.json});
}

void write_gguf(const ExportFlags& options) {
  refuse_adapters(options.input);
  write_export_gguf(options.input, options.output, options.json);
}

void write_adapter(const ExportFlags& options) {
  write_export_adapter(options.input, options.output, options.adapter, options.json);
}

using namespace export_flag;

constexpr std::uint32_t kOfNetworks = kShape | kWithoutAdapters | kArchive,
                        kOfProjects = kShape | kInputRange | kOpset | kProject;

/// The forms of --to: a new form is a row here, and its writer.
constexpr ExportForm kForms[] = {
    {"qonnx",
     kOfNetworks | kOpset | kProfile | kIntegerView | kAllowApproximate | kAccumulatorConfig | kInputRange,
     write_export_network},
    {"qcdq", kOfNetworks | kOpset | kWeightsAsFloat | kWeightsAs | kNativeTypes | kAllowArithmetic,
     write_export_network},
    {"float", kOfNetworks | kOpset, write_export_network},
    {"packed", kOfNetworks, write_export_network},
    {kGgufForm, 0, write_gguf},
    {kHuggingFaceFolder, kShard | kDtype, write_folder},
    {kCompressedTensors, kShard | kAllowApproximate, write_folder},
    {kAdapterForm, kName, write_adapter},
    {kHls4mlProject, kOfProjects | kHls4ml, write_export_project},
    {kFinnProject, kOfProjects | kFinn, write_export_project},
};

/// Without --to: the names of the files say what is meant.
void convert_between_files(const ExportFlags& options) {
  refuse_adapters(options.input);
  if (!is_between_gguf_and_packed(options.input, options.output))
    throw usage_error(
        "--to is missing: without it convert goes from .gguf to .crumb and from .crumb to .gguf, found " +
        quote_text(options.input) + " and " + quote_text(options.output));
  if (has_export_flags(options))
    throw usage_error("between GGUF and packed files convert takes --json alone");
  convert_gguf(options.input, options.output, options.json);
}

void export_verb(const ExportFlags& options) {
  if (options.to.empty()) return convert_between_files(options);
  const ExportForm& form = find_export_form(kForms, options.to);
  refuse_flags_of_other_forms(options, form, kForms);
  form.write(options);
}

/// Returns "qonnx|qcdq|...": all forms, or those of a single network in a file.
std::string names_of_forms(bool all) {
  std::string text;
  for (const ExportForm& form : kForms)
    if (all || form.write == write_export_network) text += (text.empty() ? "" : "|") + std::string(form.name);
  return text;
}

CLI::App* add(CLI::App& app, const char* name, const char* what,
              const std::shared_ptr<ExportFlags>& options) {
  CLI::App* verb = app.add_subcommand(name, what);
  verb->add_option(
          "--to", options->to,
          "qonnx, qcdq (QuantizeLinear, Clip, DequantizeLinear), float, or packed (.crumb, which libcrumb.so "
          "runs); export: gguf (llama.cpp), hf (a Hugging Face folder of floats), compressed-tensors (one of "
          "codes), adapter (one in the file, by itself: a PEFT folder or a .gguf), hls4ml-project, "
          "finn-project")
      ->type_name(names_of_forms(std::string_view(name) == "export"))
      ->group(kOutputFlags)
      ->required(std::string_view(name) == "export");
  verb->add_option("--profile", options->profile, "qonnx: whose rules are kept (qonnx, finn, hls4ml)")
      ->type_name("qonnx|finn|hls4ml")
      ->group(kOutputFlags);
  add_opset_flag(*verb, options->opset, "ONNX's operator set (13, or the least that will do)");
  verb->add_option("--shape", options->shapes, kShapeHelp)->type_name("NAME=SIZES")->group(kOutputFlags);
  add_torchscript_flags(*verb, options->archive, kInputFlags);
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
  verb->add_option(
          "--weights-as", options->weights_as,
          "qcdq: packed weights of MatMuls as onnxruntime's product of packed weights, 2, 4 or 8 bits "
          "in groups of 16 or more (MatMulNBits), instead of integers (qcdq)")
      ->type_name("MatMulNBits|qcdq")
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
  auto options = std::make_shared<ExportFlags>();
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
  auto options = std::make_shared<ExportFlags>();
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
