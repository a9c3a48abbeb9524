#include "graph/adapters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/files/text.h"
#include "formats/half.h"
#include "graph/branches.h"
#include "graph/edit.h"
#include "graph/strided_index.h"
#include "graph/weighted_product.h"
#include "quant/quant_spec.h"

namespace crumb::graph {
namespace {

constexpr std::string_view kWeight = ".weight", kDown = ".lora_A", kUp = ".lora_B", kScale = ".lora_scale";
constexpr std::array<std::string_view, 4> kTypeNames = {"f32", "f16", "bf16", "int8"};

std::string module_of(const std::string& weight) {
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}

std::optional<std::vector<std::int64_t>> constant_shape(const Graph& graph, const std::string& value) {
  if (const auto coded = graph.quantized.find(value); coded != graph.quantized.end())
    return coded->second.shape();
  if (const Tensor* tensor = graph.constant(value)) return tensor->shape();
  return std::nullopt;
}

bool multiplies(const Node& node, const std::string& matrix) {
  return is_matrix_product(node) && node.inputs[1] == matrix;
}

/// Whether a node is a linear layer's product. A Gemm's matrix must have no other consumers than such
/// products.
bool is_linear(const Graph& graph, const Links& links, const Node& node, bool of_tables) {
  const auto product = weighted_product(node, 2);
  if (!product || product->is_convolution() || node.inputs.size() < 2 || product->transposes_data ||
      product->is_scaled)
    return false;
  if (product->bias == kNoInput) return true;
  const std::string& matrix = node.inputs[1];
  return std::ranges::all_of(links.consumers(matrix), [&](std::size_t i) {
    const Node& other = graph.nodes[i];
    return multiplies(other, matrix) || (of_tables && other.is("Gather") && other.inputs[0] == matrix);
  });
}

/// One adapter at one product.
struct Place {
  std::string module, name;
  std::size_t down = 0, scaled = 0, up = 0, sum = 0;  ///< indices of nodes
  std::string down_constant, up_constant, scale_constant;
};

/// Returns the constant that a node takes, also through a Cast.
std::string stored(const Graph& graph, const Links& links, const std::string& value) {
  const std::size_t cast = links.producer(value);
  return cast != Links::kNone && graph.nodes[cast].is("Cast") ? graph.nodes[cast].inputs[0] : value;
}

/// Returns MODULE and NAME of "MODULE.NAME.lora_A".
std::optional<std::pair<std::string, std::string>> parts_of(const std::string& constant) {
  if (!constant.ends_with(kDown)) return std::nullopt;
  const std::string both = constant.substr(0, constant.size() - kDown.size());
  const std::size_t dot = both.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  return std::pair(both.substr(0, dot), both.substr(dot + 1));
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), links_(graph) {}

  /// Returns the adapters in the graph's order.
  std::vector<Place> places() const {
    std::vector<Place> found;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (std::optional<Place> place = place_at(i)) found.push_back(std::move(*place));
    return found;
  }

 private:
  /// The only consumer of the node's output, if it is of that operator.
  std::optional<std::size_t> only_consumer(std::size_t node, std::string_view op) const {
    const std::string& value = graph_.nodes[node].outputs[0];
    const auto consumers = links_.consumers(value);
    if (consumers.size() != 1 || links_.is_output(value) || !graph_.nodes[consumers[0]].is(op))
      return std::nullopt;
    return consumers[0];
  }

  std::optional<Place> place_at(std::size_t node) const {
    const Node& down = graph_.nodes[node];
    if (!down.is("MatMul") || down.inputs.size() != 2) return std::nullopt;
    Place place{.down = node, .down_constant = stored(graph_, links_, down.inputs[1])};
    const auto parts = parts_of(place.down_constant);
    if (!parts || !constant_shape(graph_, place.down_constant)) return std::nullopt;
    std::tie(place.module, place.name) = *parts;
    const std::string stem = place.module + "." + place.name;
    const auto scaled = only_consumer(node, "Mul");
    if (!scaled || graph_.nodes[*scaled].inputs[1] != stem + std::string(kScale)) return std::nullopt;
    const auto up = only_consumer(*scaled, "MatMul");
    if (!up || stored(graph_, links_, graph_.nodes[*up].inputs[1]) != stem + std::string(kUp))
      return std::nullopt;
    const auto sum = only_consumer(*up, "Add");
    if (!sum || graph_.nodes[*sum].inputs[1] != graph_.nodes[*up].outputs[0]) return std::nullopt;
    place.scaled = *scaled;
    place.up = *up;
    place.sum = *sum;
    place.scale_constant = stem + std::string(kScale);
    place.up_constant = stem + std::string(kUp);
    return place;
  }

  const Graph& graph_;
  const Links links_;
};

/// Adds a matrix [rows, columns] to the graph as the constant `name` with the axes [columns, rows]. Returns
/// the value that nodes take.
std::string add_matrix(Graph& graph, const std::string& name, const std::vector<float>& values,
                       std::size_t rows, std::size_t columns, AdapterType type) {
  const Tensor matrix = Tensor::floats({static_cast<std::int64_t>(columns), static_cast<std::int64_t>(rows)},
                                       transposed(values, rows, columns));
  if (type == AdapterType::kInt8) {
    set_codes(graph, name, quantize_constant(QuantSpec::parse("int8:channel"), matrix, 1, name));
    return name;
  }
  if (type == AdapterType::kFloat32) {
    graph.values[name] = value_of(matrix);
    graph.initializers.emplace(name, matrix);
    return name;
  }
  const ElementType element = type == AdapterType::kFloat16 ? ElementType::kFloat16 : ElementType::kBfloat16;
  std::vector<std::byte> bytes(2 * values.size());
  const std::vector<float> floats = matrix.to_floats();
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::uint16_t bits =
        type == AdapterType::kFloat16 ? float_to_f16(floats[i]) : float_to_bf16(floats[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  Tensor kept(element, matrix.shape(), std::move(bytes));
  const std::string cast = graph.unused_value_name(name + ".float");
  graph.values[name] = value_of(kept);
  graph.values[cast] = value_of(matrix);
  graph.initializers.emplace(name, std::move(kept));
  graph.nodes.push_back({.name = graph.unused_node_name(cast),
                         .op = "Cast",
                         .version = graph.opset(),
                         .inputs = {name},
                         .outputs = {cast},
                         .attributes = {{"to", static_cast<std::int64_t>(ElementType::kFloat)}}});
  return cast;
}

/// Returns [rows, columns] of the constant with the axes [columns, rows].
std::vector<float> matrix_of(const Graph& graph, const std::string& name) {
  const auto coded = graph.quantized.find(name);
  const Tensor value = coded != graph.quantized.end() ? coded->second.value() : graph.initializers.at(name);
  return transposed(value, std::vector<std::int64_t>{1, 0}).to_floats();
}

void check_name(const Graph& graph, const std::string& name) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
  };
  if (name.empty() || !std::ranges::all_of(name, is_plain))
    throw usage_error("an adapter's name has letters, digits, - and _, found " + quote_text(name));
  const std::vector<std::string> names = adapter_names(graph);
  if (std::ranges::find(names, name) != names.end())
    throw Error("the network has an adapter " + quote_text(name) + " already");
}

[[noreturn]] void refuse_missing(const Graph& graph, const std::string& name) {
  std::string has;
  for (const std::string& other : adapter_names(graph)) has += (has.empty() ? "" : ", ") + quote_text(other);
  throw Error("the network has no adapter " + quote_text(name) +
              (has.empty() ? ", and none at all" : ", found " + has));
}

class Adding {
 public:
  Adding(Graph graph, const std::string& name, AdapterType type)
      : graph_(std::move(graph)), name_(name), type_(type) {}

  void add(const LowRankUpdate& update, const std::vector<LinearProduct>& products) {
    const std::string stem = update.module + "." + name_;
    const std::string down =
        add_matrix(graph_, stem + std::string(kDown), update.down, update.rank, update.in, type_);
    const std::string up =
        add_matrix(graph_, stem + std::string(kUp), update.up, update.out, update.rank, type_);
    const std::string scale = stem + std::string(kScale);
    graph_.values[scale] = value_of(Tensor::scalar(update.scale));
    graph_.initializers.emplace(scale, Tensor::scalar(update.scale));
    for (const LinearProduct& product : products) beside(product.node, stem, down, scale, up);
  }

  Graph take() { return sorted(std::move(graph_)); }
  const std::vector<Branch>& made() const { return made_; }

 private:
  void beside(std::size_t product, const std::string& stem, const std::string& down, const std::string& scale,
              const std::string& up) {
    const std::string x = graph_.nodes[product].inputs[0];
    const std::string lowered = add_node(graph_, "MatMul", stem + ".down", {x, down});
    const std::string scaled = add_node(graph_, "Mul", stem + ".scaled", {lowered, scale});
    const std::string raised = add_node(graph_, "MatMul", stem + ".up", {scaled, up});
    made_.push_back(add_to_output(graph_, product, raised, lowered, name_, stem));
  }

  Graph graph_;
  const std::string& name_;
  AdapterType type_;
  std::vector<Branch> made_;
};

}  // namespace

AdapterType adapter_type_named(std::string_view name) {
  const auto found = std::ranges::find(kTypeNames, name);
  if (found == kTypeNames.end())
    throw Error("adapters are kept as f32, f16, bf16 or int8, found " + quote_text(name));
  return static_cast<AdapterType>(found - kTypeNames.begin());
}

std::string_view name_of(AdapterType type) { return kTypeNames.at(static_cast<std::size_t>(type)); }

std::vector<LinearProduct> linear_products(const Graph& graph, bool of_tables) {
  std::set<std::size_t> own;
  for (const Place& place : Finder(graph).places()) own.insert({place.down, place.up});
  const Links links(graph);
  std::vector<LinearProduct> products;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (own.contains(i) || !is_linear(graph, links, node, of_tables)) continue;
    const auto shape = constant_shape(graph, node.inputs[1]);
    if (!shape || shape->size() != 2) continue;
    const WeightedProduct product = *weighted_product(node, shape->size());
    products.push_back({.node = i,
                        .weight = node.inputs[1],
                        .module = module_of(node.inputs[1]),
                        .in = static_cast<std::size_t>(product.inputs(*shape)),
                        .out = static_cast<std::size_t>(product.outputs(*shape)),
                        .is_transposed = product.is_transposed()});
  }
  return products;
}

Graph add_adapter(Graph graph, const Adapter& adapter, const std::string& name, AdapterType type,
                  std::vector<Branch>* beside) {
  check_name(graph, name);
  std::map<std::string, std::vector<LinearProduct>> products;
  for (LinearProduct& product : linear_products(graph))
    products[product.module].push_back(std::move(product));
  for (const LowRankUpdate& update : adapter.updates) {
    const auto found = products.find(update.module);
    if (found == products.end())
      throw Error("the adapter is for a layer " + quote_text(update.module) +
                  ", but the network multiplies by no matrix " +
                  quote_text(update.module + std::string(kWeight)));
    const LinearProduct& product = found->second.front();
    for (const LinearProduct& other : found->second)
      if (other.weight != product.weight)
        throw Error("the adapter is for a layer " + quote_text(update.module) +
                    ", but that are two matrices, " + quote_text(product.weight) + " and " +
                    quote_text(other.weight));
    if (product.in != update.in || product.out != update.out)
      throw Error("the adapter of layer " + quote_text(update.module) + " takes " +
                  std::to_string(update.in) + " numbers and gives " + std::to_string(update.out) +
                  ", but the layer takes " + std::to_string(product.in) + " and gives " +
                  std::to_string(product.out));
  }
  Adding adding(std::move(graph), name, type);
  for (const LowRankUpdate& update : adapter.updates) adding.add(update, products.at(update.module));
  if (beside) *beside = adding.made();
  return adding.take();
}

std::vector<std::string> adapter_names(const Graph& graph) {
  std::vector<std::string> names;
  const std::vector<Place> places = Finder(graph).places();
  // The sum of an outer adapter takes that of an inner one.
  std::map<std::string, std::set<std::string>> inner;
  const Links links(graph);
  for (const Place& place : places) {
    std::set<std::string>& below = inner[place.name];
    std::size_t at = links.producer(graph.nodes[place.sum].inputs[0]);
    for (const Place* other = nullptr; at != Links::kNone;
         at = links.producer(graph.nodes[other->sum].inputs[0])) {
      const auto found = std::ranges::find(places, at, &Place::sum);
      if (found == places.end()) break;
      other = &*found;
      below.insert(other->name);
    }
  }
  while (names.size() < inner.size()) {
    const std::size_t before = names.size();
    for (const auto& [name, below] : inner) {
      const auto is_there = [&](const std::string& one) {
        return std::ranges::find(names, one) != names.end();
      };
      if (!is_there(name) && std::ranges::all_of(below, is_there)) names.push_back(name);
    }
    if (names.size() > before) continue;
    for (const auto& [name, below] : inner)  // stacked in different orders at different products
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

Adapter adapter_of(const Graph& graph, const std::string& name) {
  std::map<std::string, LowRankUpdate> updates;
  for (const Place& place : Finder(graph).places()) {
    if (place.name != name || updates.contains(place.module)) continue;
    const auto down = *constant_shape(graph, place.down_constant),
               up = *constant_shape(graph, place.up_constant);
    updates[place.module] = {.module = place.module,
                             .rank = static_cast<std::size_t>(down.at(1)),
                             .in = static_cast<std::size_t>(down.at(0)),
                             .out = static_cast<std::size_t>(up.at(1)),
                             .down = matrix_of(graph, place.down_constant),
                             .up = matrix_of(graph, place.up_constant),
                             .scale = graph.initializers.at(place.scale_constant).to_floats().at(0)};
  }
  if (updates.empty()) refuse_missing(graph, name);
  Adapter adapter;
  for (auto& [module, update] : updates) adapter.updates.push_back(std::move(update));
  return adapter;
}

AdapterType adapter_type(const Graph& graph, const std::string& name) {
  const std::vector<Place> places = Finder(graph).places();
  const auto place = std::ranges::find(places, name, &Place::name);
  if (place == places.end()) refuse_missing(graph, name);
  const auto kept = graph.initializers.find(place->down_constant);
  if (kept == graph.initializers.end()) return AdapterType::kInt8;
  if (kept->second.type() == ElementType::kFloat16) return AdapterType::kFloat16;
  return kept->second.type() == ElementType::kBfloat16 ? AdapterType::kBfloat16 : AdapterType::kFloat32;
}

Graph drop_adapter(Graph graph, const std::string& name) {
  std::map<std::string, std::string> renamed;  // outputs of products, which get their old names back
  std::set<std::size_t> gone;
  for (const Place& place : Finder(graph).places()) {
    if (place.name != name) continue;
    renamed[graph.nodes[place.sum].inputs[0]] = graph.nodes[place.sum].outputs[0];
    gone.insert({place.down, place.scaled, place.up, place.sum});
  }
  if (gone.empty()) refuse_missing(graph, name);
  std::vector<Node> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (!gone.contains(i)) kept.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(kept);
  const auto rename = [&](std::string& value) {
    if (const auto found = renamed.find(value); found != renamed.end()) value = found->second;
  };
  for (Node& node : graph.nodes) {
    std::ranges::for_each(node.inputs, rename);
    std::ranges::for_each(node.outputs, rename);
  }
  drop_unused(graph);
  return sorted(std::move(graph));
}

Graph without_adapters(Graph graph) {
  for (const std::string& name : adapter_names(graph)) graph = drop_adapter(std::move(graph), name);
  return graph;
}

bool is_of_adapter(std::string_view constant) {
  return constant.ends_with(kDown) || constant.ends_with(kUp) || constant.ends_with(kScale);
}

}  // namespace crumb::graph
