#include "export/lint/lint.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text/nearest_name.h"
#include "export/lint/checks.h"
#include "graph/facts/bind_shapes.h"
#include "graph/onnx/read.h"
#include "graph/passes/passes.h"

namespace crumb::exporting {
namespace {

constexpr int kMostRounds = 8;  // of fixes: one may leave work for another before it

constexpr std::array kProfiles = {Profile::kQonnx, Profile::kFinn, Profile::kHls4ml, Profile::kOnnxruntime};

/// Constants are initializers, and types and shapes are known as far as they can be.
Graph prepared(Graph graph) { return graph::resolve_shapes(graph::plain_constants(std::move(graph))); }

std::vector<Finding> check(const Graph& graph, Profile profile, const graph::FileFacts* file) {
  const Subject subject(graph, profile, file);
  std::vector<Finding> findings;
  for (const Rule& rule : rules()) {
    if (!rule.is_for(profile)) continue;
    Report report(rule, findings);
    rule.check(subject, report);
  }
  std::ranges::sort(findings);
  findings.erase(std::unique(findings.begin(), findings.end()), findings.end());
  return findings;
}

bool has_fixable(const Rule& rule, const Graph& graph, Profile profile) {
  std::vector<Finding> findings;
  Report report(rule, findings);
  rule.check(Subject(graph, profile), report);
  return std::ranges::any_of(findings, &Finding::fixable);
}

}  // namespace

std::string_view name_of(Profile profile) {
  switch (profile) {
    case Profile::kQonnx: return "qonnx";
    case Profile::kFinn: return "finn";
    case Profile::kHls4ml: return "hls4ml";
    case Profile::kOnnxruntime: break;
  }
  return "onnxruntime";
}

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kRefused: return "refused";
    case Severity::kApproximate: return "approximate";
    case Severity::kWarning: break;
  }
  return "warning";
}

std::span<const Profile> all_profiles() { return kProfiles; }

Profile profile_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Profile profile : kProfiles) {
    if (name_of(profile) == name) return profile;
    names.push_back(name_of(profile));
  }
  throw usage_error(unknown_name("profile", name, names) + " (finn, hls4ml, qonnx, onnxruntime)");
}

Profile qonnx_profile_named(std::string_view name) {
  const Profile profile = profile_named(name);
  if (profile != Profile::kOnnxruntime) return profile;
  throw usage_error("onnxruntime knows none of QONNX's operators: write --to qcdq, which needs no profile");
}

std::vector<Finding> lint(const Graph& graph, Profile profile) {
  return check(prepared(graph), profile, nullptr);
}

std::vector<Finding> lint_file(const std::filesystem::path& path, Profile profile) {
  const Graph graph = prepared(graph::read_onnx(path));
  const graph::FileFacts facts = graph::file_facts(path);
  return check(graph, profile, &facts);
}

Graph fix_names(Graph graph, Profile profile) {
  return profile == Profile::kHls4ml ? checks::rename_for_hls4ml(std::move(graph), profile) : graph;
}

Graph fix(Graph graph, Profile profile) {
  graph = prepared(graph::fold_known(std::move(graph)));
  for (int round = 0; round < kMostRounds; ++round) {
    bool changed = false;
    for (const Rule& rule : rules()) {
      if (!rule.is_for(profile) || !rule.fix || !has_fixable(rule, graph, profile)) continue;
      graph = graph::resolve_shapes(rule.fix(std::move(graph), profile));
      changed = true;
    }
    if (!changed) break;
  }
  graph::drop_unused(graph);
  return graph;
}

}  // namespace crumb::exporting
