// crumb lint: whether other tools accept a file and read the same network from it.
#include "export/lint/lint.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/files/output_place.h"
#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/shape_flags.h"
#include "cli/flags/torchscript_flags.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "graph/onnx/write.h"
#include "graph/packed/crumb_graph.h"
#include "graph/qonnx/quantized_constants.h"
#include "jobs/engines/torchscript_file.h"
#include "models/checkpoint_graph.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

using exporting::Finding;
using exporting::Profile;
using exporting::Severity;

constexpr int kFound = 1;

struct LintFlags {
  std::string file, profile, fixed;
  std::vector<std::string> shapes;
  TorchScriptFlags archive;
  bool json = false, rules = false;
};

std::string profiles_of(const exporting::Rule& rule) {
  std::string names;
  for (const Profile profile : exporting::all_profiles()) {
    if (!rule.is_for(profile)) continue;
    names += (names.empty() ? "" : ", ") + std::string(exporting::name_of(profile));
  }
  return names;
}

/// Prints the rules as a Markdown table, which docs/lint.md holds.
void print_rules(const std::string& name) {
  std::optional<exporting::Profile> profile;
  if (!name.empty()) profile = exporting::profile_named(name);
  std::cout << "| rule | for | what must be so | --fix | else |\n| --- | --- | --- | --- | --- |\n";
  for (const exporting::Rule& rule : exporting::rules()) {
    if (profile && !rule.is_for(*profile)) continue;
    std::cout << "| " << rule.name << " | " << profiles_of(rule) << " | " << rule.what << " | "
              << rule.fixable << " | " << rule.remedy << " |\n";
  }
}

void print_findings(const std::vector<Finding>& findings, bool was_fixed) {
  std::size_t fixable = 0;
  for (const Finding& finding : findings) {
    fixable += finding.fixable ? 1 : 0;
    std::cout << finding.rule << "  " << quote_text(finding.node) << ": " << printable(finding.message)
              << (finding.severity == Severity::kRefused
                      ? ""
                      : "  (" + std::string(exporting::name_of(finding.severity)) + ")")
              << (finding.fixable ? "  (fixable)" : "") << "\n";
  }
  std::cout << findings.size() << (findings.size() == 1 ? " finding" : " findings");
  if (was_fixed) {
    std::cout << " left";
  } else if (fixable > 0) {
    std::cout << ", of which --fix OUT rewrites " << fixable;
  }
  std::cout << "\n";
}

void print_json_findings(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"rule", finding.rule},
                    {"node", finding.node},
                    {"message", finding.message},
                    {"severity", exporting::name_of(finding.severity)},
                    {"fixable", finding.fixable}});
  }
  print_json({{"findings", list}});
}

graph::Graph read(const std::filesystem::path& file, const LintFlags& options) {
  return graph::lower_or_fold_quantized(
      jobs::read_graph_or_archive(file.string(), example_of(options.archive, options.shapes), terminal()));
}

void lint_verb(const LintFlags& options) {
  if (options.rules) {
    if (!options.file.empty() || !options.fixed.empty() || options.json) {
      throw usage_error("--rules lists the rules; give nothing but --for with it");
    }
    return print_rules(options.profile);
  }
  if (options.file.empty()) throw usage_error("give the FILE to look at, or --rules");
  if (options.profile.empty()) throw usage_error("give --for finn, hls4ml, qonnx or onnxruntime");
  const Profile profile = exporting::profile_named(options.profile);
  std::filesystem::path file = options.file;
  const TorchScriptFlags& archive = options.archive;
  if (!(archive.inputs.empty() && archive.arguments.empty() && options.shapes.empty()) &&
      !jobs::is_torchscript(file))
    throw usage_error(std::string(!archive.arguments.empty() ? "--set-argument"
                                  : !archive.inputs.empty()  ? "--input"
                                                             : "--shape") +
                      " is for TorchScript archives, and " + quote_text(options.file) + " is none");
  if (!options.fixed.empty()) {
    refuse_overwriting_inputs({file}, options.fixed);
    claim_output(options.fixed);
    graph::write_onnx(exporting::fix(read(file, options), profile), options.fixed);
    file = options.fixed;
  }
  // Packed files and checkpoints are not ONNX files: their graph is checked.
  const bool is_graph =
      graph::is_crumb_file(file) || models::is_checkpoint(file) || jobs::is_torchscript(file);
  const std::vector<Finding> findings =
      is_graph ? exporting::lint(read(file, options), profile) : exporting::lint_file(file, profile);
  if (options.json) {
    print_json_findings(findings);
  } else {
    print_findings(findings, !options.fixed.empty());
  }
  const bool is_refused = std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.severity == Severity::kRefused; });
  if (is_refused) throw CLI::RuntimeError(kFound);
}

}  // namespace

void add_lint(CLI::App& app) {
  auto options = std::make_shared<LintFlags>();
  CLI::App* verb =
      app.add_subcommand("lint", "Check an ONNX file against the rules of the tool that takes it");
  verb->add_option(
          "file", options->file,
          "The graph (.onnx, a .crumb that holds one, a TorchScript archive, or a checkpoint of a known "
          "architecture)")
      ->type_name("MODEL");
  verb->add_option("--for", options->profile, "Whose rules: finn, hls4ml, qonnx, onnxruntime")
      ->type_name("finn|hls4ml|qonnx|onnxruntime")
      ->group(kInputFlags);
  verb->add_option("--fix", options->fixed,
                   "Write the file with everything rewritten that keeps its numbers, and check that")
      ->type_name("FILE")
      ->group(kOutputFlags);
  add_several(*verb, "--shape", options->shapes,
              "Of a TorchScript archive: NAME=1x128, the shape of an input to call it with", "NAME=SIZES")
      ->group(kInputFlags);
  add_torchscript_flags(*verb, options->archive, kInputFlags);
  verb->add_flag("--json", options->json, "Print JSON")->group(kOutputFlags);
  verb->add_flag("--rules", options->rules, "List the rules (those of --for)")->group(kOutputFlags);
  verb->footer(
      "Exit code 1 when something is found.\n\nExample:\n  crumb lint TFC_2W2A.onnx --for finn --fix "
      "tfc.onnx");
  verb->callback([options] { lint_verb(*options); });
}

}  // namespace crumb::cli
