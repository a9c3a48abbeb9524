#include "cli/shape_notes.h"

#include "base/files/text.h"
#include "graph/onnx/shape_faults.h"

namespace crumb::cli {

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

}  // namespace crumb::cli
