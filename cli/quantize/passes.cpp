// crumb passes: lists what rewrites graphs, and does it.
#include "graph/passes/passes.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/files/counted.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/torchscript_flags.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "cli/quantize/passes_folder.h"
#include "graph/facts/lift_quantized.h"
#include "graph/onnx/write.h"
#include "graph/packed/crumb_graph.h"
#include "graph/qonnx/quantized_constants.h"
#include "jobs/engines/open_engine.h"
#include "jobs/engines/torchscript_file.h"
#include "jobs/folder_output.h"
#include "jobs/samples/calibration_data.h"
#include "jobs/shape_notes.h"
#include "models/checkpoint_graph.h"
#include "models/read_graph.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

using graph::Pass;
using graph::PassRemark;

constexpr const char* kFoldNorms = "fold-norms";

struct PassesFlags {
  std::string file, output, shard;
  std::vector<std::string> names, shapes;
  TorchScriptFlags archive;
  bool json = false;
};

void list(bool json) {
  if (json) {
    Json rows = Json::array();
    for (const Pass& pass : graph::all_passes()) {
      rows.push_back({{"name", pass.name}, {"what", pass.what}, {"needs_engine", pass.needs_engine}});
    }
    return print_json({{"passes", std::move(rows)}});
  }
  std::vector<std::vector<std::string>> rows{{"pass", "what it does"}};
  for (const Pass& pass : graph::all_passes()) {
    rows.push_back(
        {std::string(pass.name), std::string(pass.what) + (pass.needs_engine ? " (with LibTorch)" : "")});
  }
  print_table(rows);
}

std::vector<const Pass*> chosen(const std::vector<std::string>& names) {
  std::vector<const Pass*> passes;
  for (const std::string& name : names) {
    passes.push_back(graph::find_pass(name));
    if (passes.back()) continue;
    std::vector<std::string> known;
    for (const Pass& pass : graph::all_passes()) known.emplace_back(pass.name);
    throw usage_error(unknown_name("pass", name, known));
  }
  return passes;
}

/// Writes a packed file, with quantizers of constants as codes, where the output's name says so; else ONNX.
void write_graph(graph::Graph graph, const std::filesystem::path& output) {
  if (output.extension() != ".crumb") return graph::write_onnx(graph, output);
  graph::write_crumb_graph(graph::lift_quantized(std::move(graph)), output);
}

void print_remarks(const std::vector<PassRemark>& remarks) {
  std::size_t done = 0, changed = 0;
  std::vector<std::string> reasons;  // in order of first occurrence
  std::map<std::string, std::vector<std::string>> stays;
  for (const PassRemark& remark : remarks) {
    done += remark.stays.empty();
    changed += remark.changed.size();
    if (remark.stays.empty()) continue;
    if (!stays.contains(remark.stays)) reasons.push_back(remark.stays);
    stays[remark.stays].push_back(remark.node);
  }
  std::cout << "  " << done << " of " << count_text(remarks.size(), "norm") << " folded, into "
            << count_text(changed, "matrix", "matrices") << "\n";
  for (const std::string& reason : reasons) {
    const std::vector<std::string>& nodes = stays[reason];
    std::cout << "  stays: " << printable(nodes[0]);
    if (nodes.size() > 1) std::cout << " and " << count_text(nodes.size() - 1, "other");
    std::cout << ": " << printable(reason) << "\n";
  }
}

void put_remarks(Json& row, const std::vector<PassRemark>& remarks) {
  row["folded"] = Json::array();
  row["stays"] = Json::array();
  for (const PassRemark& remark : remarks) {
    if (remark.stays.empty())
      row["folded"].push_back({{"node", remark.node}, {"into", remark.changed}});
    else
      row["stays"].push_back({{"node", remark.node}, {"reason", remark.stays}});
  }
}

/// A checkpoint that becomes a checkpoint again, in a folder.
void write_checkpoint(const PassesFlags& options) {
  if (!std::ranges::all_of(options.names, [](const std::string& name) { return name == kFoldNorms; }))
    throw usage_error(quote_text(options.output) +
                      ": a folder is what fold-norms alone writes; the other passes make graphs: give -o "
                      "OUT.onnx or OUT.crumb");
  const FoldedFolder made = fold_norms_into_folder(options.file, options.output, options.shard);
  if (options.json) {
    Json row{{"name", kFoldNorms}};
    put_remarks(row, made.remarks);
    return print_json({{"output", options.output},
                       {"tensors", made.report.tensors},
                       {"files", made.report.files},
                       {"passes", Json::array({std::move(row)})}});
  }
  std::cout << kFoldNorms << "\n";
  print_remarks(made.remarks);
  std::cout << options.output << ": " << count_text(made.report.tensors, "tensor") << " in "
            << count_text(made.report.files, "file") << "\n";
}

void write_graph_of(const PassesFlags& options, const std::vector<const Pass*>& passes) {
  graph::Graph graph = graph::lower_or_fold_quantized(
      jobs::read_graph_or_archive(options.file, example_of(options.archive, options.shapes), terminal()));
  Notes notes;
  jobs::note_shapes(graph, notes);
  Json rows = Json::array();
  for (const Pass* pass : passes) {
    const std::size_t before = graph.nodes.size();
    std::vector<PassRemark> remarks;
    graph = pass->run_and_tell
                ? pass->run_and_tell(std::move(graph), &remarks)
                : pass->run(std::move(graph), pass->needs_engine ? &jobs::open_engine() : nullptr);
    rows.push_back({{"name", pass->name}, {"nodes_before", before}, {"nodes_after", graph.nodes.size()}});
    if (pass->run_and_tell) put_remarks(rows.back(), remarks);
    if (options.json) continue;
    std::cout << pass->name << ": " << before << " -> " << graph.nodes.size() << " nodes\n";
    if (pass->run_and_tell) print_remarks(remarks);
  }
  write_graph(std::move(graph), options.output);
  if (options.json)
    print_json({{"output", options.output}, {"passes", std::move(rows)}, {"notes", notes.all()}});
}

/// The file is the first word, or the last where the first names a pass and no file.
void find_file(PassesFlags& options) {
  std::error_code error;
  if (options.names.empty() || !graph::find_pass(options.file) ||
      std::filesystem::exists(options.file, error))
    return;
  options.names.insert(options.names.begin(), options.file);
  options.file = options.names.back();
  options.names.pop_back();
}

void passes_verb(PassesFlags options) {
  if (options.file.empty()) return list(options.json);
  find_file(options);
  if (options.output.empty() || options.names.empty()) {
    throw usage_error("give --output OUT.onnx and the passes: crumb passes IN.onnx -o OUT.onnx tidy");
  }
  std::vector<std::filesystem::path> inputs{options.file};
  jobs::add_sample_paths(options.archive.inputs, inputs);
  refuse_overwriting_inputs(inputs, options.output);
  if (!options.shapes.empty() && !jobs::is_torchscript(options.file))
    throw usage_error("--shape is for TorchScript archives, and " + quote_text(options.file) + " is none");
  const auto passes = chosen(options.names);
  const std::filesystem::path end = std::filesystem::path(options.output).extension();
  if (end != ".onnx" && end != ".crumb" && models::is_checkpoint(options.file)) {
    jobs::claim_folder(options.file, options.output, terminal());
    return write_checkpoint(options);
  }
  claim_output(options.output);
  if (!options.shard.empty())
    throw usage_error("--shard is for folders that fold-norms writes of a checkpoint");
  write_graph_of(options, passes);
}

}  // namespace

void add_passes(CLI::App& app) {
  auto options = std::make_shared<PassesFlags>();
  CLI::App* verb = app.add_subcommand("passes", "List what rewrites graphs, or rewrite one");
  verb->add_option("file", options->file,
                   "The graph (.onnx or .crumb), the checkpoint (folder, .gguf, .crumb) or the TorchScript "
                   "archive (.pt); "
                   "without one, all passes are listed")
      ->type_name("MODEL");
  verb->add_option("passes", options->names, "Passes, applied in this order")->type_name("PASS");
  add_torchscript_flags(*verb, options->archive, kInputFlags);
  add_several(*verb, "--shape", options->shapes,
              "Of a TorchScript archive: NAME=1x128, an input of random floats", "NAME=SIZES")
      ->group(kInputFlags);
  verb->add_option(
          "-o,--output", options->output,
          "The new graph (.onnx; .crumb packs it), or with fold-norms of a checkpoint a model folder")
      ->type_name("FILE|FOLDER")
      ->group(kOutputFlags);
  verb->add_option("--shard", options->shard,
                   "Of a folder: safetensors files of at most this size (5GB, as Hugging Face has it)")
      ->type_name("SIZE")
      ->group(kOutputFlags);
  verb->add_flag("--json", options->json, "Print one JSON object")->group(kOutputFlags);
  verb->footer(
      "Passes change how a graph is written and not what it computes.\n\nExamples:\n"
      "  crumb passes net.onnx -o clean.onnx remove-identities fold-batch-norm readable-names\n"
      "  crumb passes TFC_2W2A.onnx -o tfc.crumb tidy\n"
      "  crumb passes SmolLM2-135M-Instruct.Q4_1.gguf -o smollm2 fold-norms");
  verb->callback([options] { passes_verb(*options); });
}

}  // namespace crumb::cli
