#include "cli/inspect/inspect_graph.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>

#include "analysis/draw/picture.h"
#include "analysis/draw/svg.h"
#include "analysis/draw/text.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "base/within.h"
#include "cli/flags/shape_flags.h"
#include "cli/inspect/inspect_memory.h"
#include "cli/output.h"
#include "graph/control/decide.h"
#include "graph/facts/bind_shapes.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/facts/lift_quantized.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "graph/qonnx/quantized_constants.h"
#include "runtime/lower/lower.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::Node;
using graph::Value;

struct Described {
  Graph graph;
  runtime::Lowered lowered;  ///< without its graph
  std::optional<runtime::MemoryUse> memory;
  std::map<std::string, graph::ValueType> types;
  std::uint64_t file_bytes = 0;
};

std::string type_text(const Graph& graph, const std::string& name) {
  const Value* value = graph.find(name);
  if (!value) return "?";
  return std::string(graph::name_of(value->type)) + " " + (value->shape ? text_of(*value->shape) : "[...]");
}

Json shape_json(const Value* value) {
  if (!value || !value->shape) return nullptr;
  Json sizes = Json::array();
  for (const graph::Dim& dim : *value->shape) {
    if (dim.known()) {
      sizes.push_back(dim.size);
    } else {
      sizes.push_back(dim.symbol.empty() ? Json(nullptr) : Json(dim.symbol));
    }
  }
  return sizes;
}

Json value_json(const Described& described, const std::string& name) {
  const Value* value = described.graph.find(name);
  const auto type = described.types.find(name);
  return {{"name", name},
          {"type", value ? graph::name_of(value->type) : "unknown"},
          {"shape", shape_json(value)},
          {"data_type", type == described.types.end() ? "FLOAT32" : type->second.type.name()}};
}

std::map<std::string, std::size_t> operators_of(const Graph& graph) {
  std::map<std::string, std::size_t> counts;
  for (const Node& node : graph.nodes) ++counts[node.domain.empty() ? node.op : node.domain + "::" + node.op];
  return counts;
}

Json tensors_json(const Graph& graph) {
  Json tensors = Json::array();
  for (const auto& [name, tensor] : graph.initializers) {
    const auto dtype = graph::info(tensor.type()).dtype;
    tensors.push_back({{"name", name},
                       {"shape", tensor.shape()},
                       {"dtype", dtype ? dtype_name(*dtype) : graph::name_of(tensor.type())},
                       {"spec", nullptr},
                       {"bytes", tensor.bytes().size()}});
  }
  return tensors;
}

Json node_json(const Described& described, const Node& node) {
  Json outputs = Json::array();
  for (const std::string& value : node.outputs) outputs.push_back(value_json(described, value));
  return {{"name", node.name},       {"op", node.op},         {"domain", node.domain},
          {"version", node.version}, {"inputs", node.inputs}, {"outputs", std::move(outputs)}};
}

Json graph_json(const Described& described, const std::string& svg) {
  const Graph& graph = described.graph;
  Json json{{"name", graph.name}, {"opsets", graph.opsets}};
  for (const auto& [key, names] : {std::pair{"inputs", &graph.inputs}, {"outputs", &graph.outputs}}) {
    json[key] = Json::array();
    for (const std::string& name : *names) json[key].push_back(value_json(described, name));
  }
  json["operators"] = operators_of(graph);
  json["nodes"] = Json::array();
  for (const Node& node : graph.nodes) json["nodes"].push_back(node_json(described, node));
  json["runtime"] = {{"integers", described.lowered.integers}, {"thresholds", described.lowered.thresholds}};
  json["runtime"]["floats"] = Json::array();
  for (const auto& [node, why] : described.lowered.floats)
    json["runtime"]["floats"].push_back({{"node", node}, {"reason", why}});
  json["runtime"]["packed_weights"] = described.lowered.weights.packed;
  json["runtime"]["decoded_weights"] = Json::array();
  for (const auto& [weight, node] : described.lowered.weights.decoded)
    json["runtime"]["decoded_weights"].push_back({{"weight", weight}, {"node", node}});
  if (described.memory) json["memory"] = memory_json(*described.memory);
  if (!svg.empty()) json["svg"] = svg;
  return json;
}

void print_graph_json(const Described& described, const std::string& svg) {
  Json json{{"kind", "onnx graph"}, {"bytes", described.file_bytes}};
  json.update(graph_json(described, svg));
  json["tensors"] = tensors_json(described.graph);
  print_json(json);
}

void print_tensors(const Graph& graph) {
  std::vector<std::vector<std::string>> rows{{"tensor", "shape", "type", "bytes"}};
  for (const auto& [name, tensor] : graph.initializers) {
    rows.push_back({name, graph::text_of(tensor.shape()), std::string(graph::name_of(tensor.type())),
                    std::to_string(tensor.bytes().size())});
  }
  std::cout << "\n";
  print_table(rows);
}

/// Prints which layers the runtime computes with integers, where any layer's weight is kept as codes.
void print_runtime(const runtime::Lowered& lowered) {
  if (lowered.integers.empty() && lowered.floats.empty()) return;
  std::cout << "runtime: " << count_text(lowered.integers.size(), "layer") << " in integers, "
            << lowered.thresholds.size() << " of them by thresholds";
  if (!lowered.floats.empty()) std::cout << "; " << lowered.floats.size() << " in floats";
  std::cout << "\n";
  // From kMostNamed on, layers with the same reason are one line.
  constexpr std::size_t kMostNamed = 8;
  std::map<std::string, std::size_t> reasons;
  for (const auto& [node, why] : lowered.floats) ++reasons[why];
  for (const auto& [node, why] : lowered.floats) {
    std::size_t& left = reasons[why];
    if (left == 0) continue;
    const bool alone = left <= kMostNamed;
    std::cout << "  " << printable(node);
    if (!alone) std::cout << " and " << left - 1 << " others";
    std::cout << " in floats: " << printable(why) << "\n";
    left = alone ? left : 0;
  }
}

/// Prints which weights of layers in floats stay codes in memory.
void print_weights(const runtime::PackedWeights& weights) {
  if (weights.packed.empty() && weights.decoded.empty()) return;
  std::cout << "in memory: " << count_text(weights.packed.size(), "weight")
            << (weights.packed.size() == 1 ? " stays" : " stay") << " packed";
  if (!weights.decoded.empty()) std::cout << "; " << weights.decoded.size() << " as floats";
  std::cout << "\n";
  constexpr std::size_t kMostNamed = 8;
  for (std::size_t i = 0; i < std::min(weights.decoded.size(), kMostNamed); ++i)
    std::cout << "  " << printable(weights.decoded[i].first) << " as floats, for "
              << printable(weights.decoded[i].second) << "\n";
  if (weights.decoded.size() > kMostNamed)
    std::cout << "  and " << weights.decoded.size() - kMostNamed << " others\n";
}

/// Prints the first lines of a drawing of many nodes, and how many more there are.
void print_page(const std::string& drawing, bool all) {
  constexpr std::ptrdiff_t kPage = 60,
                           kLongest = 240;  // lines; a drawing not much longer than a page is printed whole
  const std::ptrdiff_t lines = std::ranges::count(drawing, '\n');
  if (all || lines <= kLongest) {
    std::cout << drawing;
    return;
  }
  std::size_t end = 0;
  for (std::ptrdiff_t line = 0; line < kPage; ++line) end = drawing.find('\n', end) + 1;
  std::cout << drawing.substr(0, end) << "... and " << lines - kPage
            << " more lines: --all prints them, --svg FILE draws the graph\n";
}

void print_graph(const Described& described, bool all) {
  const Graph& graph = described.graph;
  std::cout << "operator sets:";
  for (const auto& [domain, version] : graph.opsets) {
    std::cout << " " << (domain.empty() ? "onnx" : printable(domain)) << " " << version;
  }
  std::cout << "\n";
  for (const auto& [what, names] : {std::pair{"input", &graph.inputs}, {"output", &graph.outputs}}) {
    for (const std::string& name : *names) {
      std::cout << what << " " << printable(name) << "  " << printable(type_text(graph, name)) << "\n";
    }
  }
  std::cout << "operators:";
  for (const auto& [op, count] : operators_of(graph)) std::cout << " " << count << " " << printable(op);
  std::cout << "\n";
  print_runtime(described.lowered);
  print_weights(described.lowered.weights);
  std::cout << "\n";
  print_page(analysis::draw_text(analysis::picture_of(graph)), all);
  if (described.memory) print_memory(*described.memory);
}

void print_file(const InspectGraph& options, const Described& described) {
  const Graph& graph = described.graph;
  std::uint64_t elements = 0;
  for (const auto& [name, tensor] : graph.initializers) elements += static_cast<std::uint64_t>(tensor.size());
  std::cout << options.file << ": ONNX graph, " << megabytes(described.file_bytes) << ", "
            << graph.nodes.size() << " nodes, " << graph.initializers.size() << " initializers with "
            << elements << " numbers\n";
  print_graph(described, options.all);
  if (options.tensors) print_tensors(graph);
}

void write_svg(const InspectGraph& options, const Graph& graph) {
  write_text_file(options.svg, analysis::draw_svg(analysis::picture_of(graph),
                                                  fs::path(options.file).filename().string()));
}

/// Types are for JSON alone: finding them reads every number of every constant. The runtime's choices follow
/// from constants as they are kept.
Described describe(const Graph& graph, const InspectGraph& options) {
  const auto shapes = read_shapes(options.shapes);
  std::optional<runtime::MemoryUse> memory;
  if (options.memory) {
    try {
      memory = memory_of(graph, shapes);
    } catch (const Error& error) {
      throw within(quote_text(options.file) + ": --memory", error);
    }
  }
  const auto with_shapes = [&](Graph bare) {
    return shapes.empty() ? graph::resolve_shapes(std::move(bare))
                          : graph::bind_shapes(std::move(bare), shapes);
  };
  Described described{.graph = with_shapes(graph::lower_or_fold_quantized(graph))};
  if (options.json)
    described.types = graph::infer_data_types(described.graph, graph::ConstantValues(described.graph),
                                              graph::TypeRules::kExact);
  described.lowered =
      runtime::lower(graph::lift_quantized(graph.quantized.empty() ? described.graph : with_shapes(graph)));
  described.lowered.graph = {};
  described.memory = std::move(memory);
  return described;
}

}  // namespace

void inspect_graph(const InspectGraph& options) {
  Described described = describe(graph::decide_control_flow(graph::read_onnx(options.file)), options);
  std::error_code error;
  described.file_bytes = fs::file_size(options.file, error);
  if (!options.svg.empty()) write_svg(options, described.graph);
  options.json ? print_graph_json(described, options.svg) : print_file(options, described);
}

Json inspect_network(const InspectGraph& options, const Graph& graph) {
  const Described described = describe(graph, options);
  if (!options.svg.empty()) write_svg(options, described.graph);
  if (options.json) return graph_json(described, options.svg);
  std::cout << "\n";
  print_graph(described, options.all);
  return {};
}

}  // namespace crumb::cli
