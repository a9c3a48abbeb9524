#include "jobs/shape_notes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "graph/choose.h"
#include "graph/onnx/shape_faults.h"
#include "graph/symbol_sizes.h"

namespace crumb::jobs {

std::string note_of_shapes(const graph::Graph& graph) {
  constexpr std::size_t kMostLetters = 1000;  // ONNX names every node
  std::string said = graph::shape_faults(graph);
  if (said.empty()) return "";
  if (said.size() > kMostLetters) said = said.substr(0, kMostLetters) + " ...";
  return "the graph's types and shapes contradict each other, and what needs them there goes without: " +
         printable(said);
}

void note_shapes(const graph::Graph& graph, Notes& notes) {
  if (const std::string note = note_of_shapes(graph); !note.empty()) notes.say(note);
}

std::vector<std::string> notes_of_symbols(const graph::Graph& graph,
                                          const std::map<std::string, std::vector<std::int64_t>>& sizes) {
  std::vector<std::string> notes;
  for (const auto& [name, given] : sizes) {
    const std::optional<graph::Shape> stated = graph.shape_of(name);
    if (!stated || stated->size() != given.size()) continue;
    for (const std::string& symbol : graph::symbols_of_several_sizes(*stated, given))
      notes.push_back(printable("the name " + symbol + " says nothing: input " + quote_text(name) + " is " +
                                graph::text_of(*stated) + " in the file, and " + graph::text_of(given) +
                                " here"));
  }
  return notes;
}

bool repeats_symbols(const graph::Graph& graph) {
  return std::ranges::any_of(graph.inputs, [&](const std::string& name) {
    const std::optional<graph::Shape> stated = graph.shape_of(name);
    if (!stated) return false;
    std::vector<std::int64_t> different(stated->size());
    std::iota(different.begin(), different.end(), 1);
    return !graph::symbols_of_several_sizes(*stated, different).empty();
  });
}

std::string note_of_foreign_operators(const graph::Graph& graph) {
  std::map<std::string, std::pair<std::size_t, std::string>> domains;  // how many nodes, and the first
  for (const graph::Node& node : graph.nodes) {
    if (node.domain.empty() || node.domain == graph::kQonnxDomain ||
        node.domain == graph::kChannelsLastDomain || node.domain == graph::kControlDomain)
      continue;
    auto& [count, first] = domains[node.domain];
    if (++count == 1) first = text_of(node);
  }
  std::string text;
  for (const auto& [domain, found] : domains) {
    text += (text.empty() ? "" : "; ") + count_text(found.first, "node") + " of the domain " +
            quote_text(domain) + " (the first is " + found.second + ")";
  }
  if (text.empty()) return text;
  return text +
         ": operators that are neither ONNX's nor QONNX's stay as they are; Crumb does not run them, and of "
         "other tools only " +
         "those that have them (" +
         (domains.contains("com.microsoft") ? "onnxruntime has com.microsoft" : "a library of their own") +
         ")";
}

void note_foreign_operators(const graph::Graph& graph, Notes& notes) {
  if (const std::string note = note_of_foreign_operators(graph); !note.empty()) notes.say(printable(note));
}

}  // namespace crumb::jobs
