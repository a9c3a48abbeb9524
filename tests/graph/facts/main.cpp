// What is known of an ONNX file's values without executing it, for the Python tests beside this file.
//
//   crumb_graph_facts constants|usual|exact|contradictions|shapes FILE.onnx
//
// prints one JSON object. `constants`: by the names of the graph's outputs, what ConstantValues finds; null
// where it finds nothing, a text where it throws. `usual` and `exact`: by the names of all values, what is
// inferred of them by the two sets of rules. `contradictions`: {"found": [[value, claim, what]]}. `shapes`:
// of the graph's outputs, what resolve_shapes() finds: sizes, null for those that stay open, null where the
// rank does. Numbers are texts in hexadecimal, which says inf, nan and the sign of zero.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "graph/facts/bind_shapes.h"
#include "graph/facts/contradictions.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/onnx/read.h"

namespace crumb::graph {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of_number(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", number);
  return text;
}

std::string text_of_numbers(std::span<const double> numbers) {
  std::string text;
  for (const double number : numbers) text += (text.empty() ? "" : " ") + text_of_number(number);
  return text;
}

Json json_of(const ConstantValue& found) {
  Json along = Json::array();
  for (std::size_t axis = 0; axis < found.shape.size(); ++axis) along.push_back(found.one_scale_along(axis));
  return {{"shape", found.shape},
          {"values", text_of_numbers(found.values)},
          {"wide", found.wide},
          {"whole", found.whole},
          {"levels", text_of_numbers(found.levels)},
          {"scale_shape", found.scale_shape},
          {"scale", text_of_numbers(found.scale)},
          {"one_scale_along", along}};
}

Json constants_of(const Graph& graph) {
  const ConstantValues constants(graph);
  Json made = Json::object();
  for (const std::string& name : graph.outputs) {
    try {
      const auto found = constants.find(name);
      made[name] = found ? json_of(*found) : Json();
    } catch (const Error& error) {
      made[name] = error.what();
    }
  }
  return made;
}

Json json_of(const ValueType& known) {
  Json made{{"type", known.type.name()}};
  if (known.levels) {
    const Levels& levels = *known.levels;
    made["levels"] = {{"low", text_of_number(levels.low)},
                      {"high", text_of_number(levels.high)},
                      {"bits", levels.bits},
                      {"is_signed", levels.is_signed},
                      {"one_scale", levels.one_scale},
                      {"halves", levels.halves},
                      {"minifloat", text_of_number(levels.minifloat)},
                      {"scale", levels.scale ? Json(text_of_number(*levels.scale)) : Json()},
                      {"positive", levels.positive},
                      {"assumed", levels.assumed}};
  }
  if (known.reach)
    made["reach"] = {text_of_number(known.reach->low), text_of_number(known.reach->high),
                     known.reach->assumed};
  return made;
}

Json types_of(const Graph& graph, TypeRules rules) {
  Json made = Json::object();
  for (const auto& [name, known] : infer_data_types(graph, ConstantValues(graph), rules))
    made[name] = json_of(known);
  return made;
}

Json contradictions_of(const Graph& graph) {
  static constexpr const char* kClaims[] = {"annotation", "attribute", "element type"};
  Json found = Json::array();
  for (const Contradiction& one : contradictions(graph))
    found.push_back({one.value, kClaims[static_cast<std::size_t>(one.claim)], one.what});
  return {{"found", found}};
}

Json shapes_of(const Graph& graph) {
  Json made = Json::object();
  for (const std::string& name : graph.outputs) {
    made[name] = nullptr;
    const auto shape = graph.shape_of(name);
    if (!shape) continue;
    made[name] = Json::array();
    for (const Dim& dim : *shape) made[name].push_back(dim.known() ? Json(dim.size) : Json());
  }
  return made;
}

Json facts_of(std::string_view what, const char* path) {
  const Graph graph = read_onnx(path);
  if (what == "contradictions") return contradictions_of(graph);
  const Graph resolved = resolve_shapes(graph);
  if (what == "shapes") return shapes_of(resolved);
  if (what == "constants") return constants_of(resolved);
  return types_of(resolved, what == "exact" ? TypeRules::kExact : TypeRules::kQonnx);
}

}  // namespace
}  // namespace crumb::graph

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    std::puts(crumb::graph::facts_of(arguments[1], arguments[2]).dump().c_str());
    return 0;
  } catch (const crumb::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
