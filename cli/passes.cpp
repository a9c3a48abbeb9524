// crumb passes: what rewrites graphs, and doing it.
#include "graph/passes/passes.h"

#include <filesystem>
#include <iostream>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "cli/notes.h"
#include "cli/open_engine.h"
#include "cli/output.h"
#include "cli/shape_notes.h"
#include "cli/verb.h"
#include "graph/facts/lift_quantized.h"
#include "graph/onnx/write.h"
#include "graph/packed/crumb_graph.h"
#include "graph/qonnx/quantized_constants.h"
#include "models/read_graph.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

using graph::Pass;

struct PassesOptions {
  std::string file, output;
  std::vector<std::string> names;
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

/// As a packed file, where the output is called so, with quantizers of constants as codes.
void write_graph(graph::Graph graph, const std::filesystem::path& output) {
  if (output.extension() != ".crumb") return graph::write_onnx(graph, output);
  graph::write_crumb_graph(graph::lift_quantized(std::move(graph)), output);
}

void passes_verb(const PassesOptions& options) {
  if (options.file.empty()) return list(options.json);
  if (options.output.empty() || options.names.empty()) {
    throw usage_error("give --output OUT.onnx and the passes: crumb passes IN.onnx -o OUT.onnx tidy");
  }
  refuse_overwriting_inputs({options.file}, options.output);
  const auto passes = chosen(options.names);
  graph::Graph graph = graph::lower_or_fold_quantized(models::read_graph(options.file));
  Notes notes;
  note_shapes(graph, notes);
  Json rows = Json::array();
  for (const Pass* pass : passes) {
    const std::size_t before = graph.nodes.size();
    graph = pass->run(std::move(graph), pass->needs_engine ? &open_engine() : nullptr);
    rows.push_back({{"name", pass->name}, {"nodes_before", before}, {"nodes_after", graph.nodes.size()}});
    if (!options.json)
      std::cout << pass->name << ": " << before << " -> " << graph.nodes.size() << " nodes\n";
  }
  write_graph(std::move(graph), options.output);
  if (options.json)
    print_json({{"output", options.output}, {"passes", std::move(rows)}, {"notes", notes.all()}});
}

}  // namespace

void add_passes(CLI::App& app) {
  auto options = std::make_shared<PassesOptions>();
  CLI::App* verb = app.add_subcommand("passes", "List what rewrites graphs, or rewrite one");
  verb->add_option("file", options->file, "The graph (.onnx or .crumb); without one, all passes are listed");
  verb->add_option("passes", options->names, "Passes, applied in this order");
  verb->add_option("-o,--output", options->output, "The new graph (.onnx; .crumb packs it)");
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->footer(
      "Passes change how a graph is written and not what it computes.\n\nExamples:\n"
      "  crumb passes net.onnx -o clean.onnx remove-identities fold-batch-norm readable-names\n"
      "  crumb passes TFC_2W2A.onnx -o tfc.crumb tidy");
  verb->callback([options] { passes_verb(*options); });
}

}  // namespace crumb::cli
