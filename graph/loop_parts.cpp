#include "graph/loop_parts.h"

#include <string>

#include "base/files/counted.h"

namespace crumb::graph {
namespace {

const Opaque* body_of(const Node& node) {
  const auto found = node.attributes.find("body");
  const auto* opaque = found == node.attributes.end() ? nullptr : std::get_if<Opaque>(&found->second);
  return opaque && opaque->body ? opaque : nullptr;
}

std::vector<std::int64_t> listed(const Node& node, const char* name, std::size_t count) {
  std::vector<std::int64_t> numbers = node.ints_or(name, std::vector<std::int64_t>(count, 0));
  if (numbers.size() != count)
    throw Error(text_of(node) + ": " + name + " has " + count_text(numbers.size(), "number") + ", expected " +
                std::to_string(count));
  return numbers;
}

}  // namespace

bool is_loop(const Node& node) { return (node.is("Loop") || node.is("Scan")) && body_of(node); }

LoopParts loop_parts(const Node& node) {
  const Opaque& opaque = *body_of(node);
  LoopParts parts{.body = opaque.body, .is_scan = node.is("Scan"), .own = opaque.own_inputs};
  if (parts.is_scan) {
    const std::int64_t sequences = node.int_or("num_scan_inputs", 0);
    if (sequences < 1 || static_cast<std::size_t>(sequences) > parts.own)
      throw Error(text_of(node) + ": num_scan_inputs is " + std::to_string(sequences) +
                  ", and its body has " + count_text(parts.own, "input"));
    parts.sequences = static_cast<std::size_t>(sequences);
  }
  const std::size_t given = parts.first_state() + parts.sequences;
  if (parts.own < given)
    throw Error(text_of(node) + ": its body has " + count_text(parts.own, "input") + ", expected " +
                std::to_string(given) + " or more");
  parts.states = parts.own - given;
  const std::size_t made = parts.body->outputs.size(), least = parts.first_output() + parts.states;
  if (made < least || node.outputs.size() > made - parts.first_output())
    throw Error(text_of(node) + " makes " + count_text(node.outputs.size(), "value") + " of " +
                count_text(parts.states, "state") + ", and its body makes " + count_text(made, "value"));
  if (node.inputs.size() != parts.body->inputs.size())
    throw Error(text_of(node) + " takes " + count_text(node.inputs.size(), "value") + ", and its body " +
                std::to_string(parts.body->inputs.size()));
  parts.rows = made - least;
  parts.sequence_axes = listed(node, "scan_input_axes", parts.sequences);
  parts.sequences_backward = listed(node, "scan_input_directions", parts.sequences);
  parts.row_axes =
      parts.is_scan ? listed(node, "scan_output_axes", parts.rows) : std::vector<std::int64_t>(parts.rows, 0);
  parts.rows_backward = parts.is_scan ? listed(node, "scan_output_directions", parts.rows)
                                      : std::vector<std::int64_t>(parts.rows, 0);
  return parts;
}

std::vector<std::string> unknown_nodes(const Node& node, const std::function<bool(const Node&)>& knows) {
  const bool loops = node.is("Loop") || node.is("Scan");
  if (!knows(node) || (loops && !is_loop(node))) return {text_of(node)};
  std::vector<std::string> unknown;
  if (!loops) return unknown;
  for (const Node& inside : body_of(node)->body->nodes)
    for (const std::string& name : unknown_nodes(inside, knows))
      unknown.push_back(name + " in " + text_of(node));
  return unknown;
}

}  // namespace crumb::graph
