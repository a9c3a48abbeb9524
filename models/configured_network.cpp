#include "models/configured_network.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/json/json_file.h"
#include "base/text/number.h"
#include "base/within.h"
#include "formats/checkpoint/decoder_config.h"
#include "graph/adapters.h"
#include "graph/onnx/read.h"
#include "graph/packed/crumb_graph.h"
#include "graph/quantize/key_cache.h"
#include "graph/weighted_product.h"
#include "models/checkpoint_graph.h"
#include "models/decoder.h"
#include "models/named_weights.h"
#include "models/weight_source.h"

namespace crumb::models {
namespace {

std::string load(const CrumbFile& file, std::string_view path) {
  const BlobBytes read = file.load(file.find_file(path)->blob, "file " + quote_text(path)).take();
  return {reinterpret_cast<const char*>(read.bytes().data()), read.bytes().size()};
}

graph::Graph structure_in(const CrumbFile& file) {
  const std::string structure = load(file, kCrumbGraphFile);
  return graph::parse_onnx(std::as_bytes(std::span(structure)), {})
      .take("file " + quote_text(kCrumbGraphFile));
}

/// Nothing where the graph has no such constant: one that is equal stands for it.
void expect(const graph::Graph& graph, const std::string& name, const std::vector<float>& meant) {
  const graph::Tensor* found = graph.constant(name);
  if (found == nullptr) return;
  const std::vector<float> values = found->to_floats();
  for (std::size_t k = 0; k < meant.size() && k < values.size(); ++k)
    if (values[k] != meant[k])
      throw Error("its network rotates by other frequencies (" + number_text(values[k]) + " at place " +
                  std::to_string(k) + " of " + quote_text(name) + ") than its config.json says (" +
                  number_text(meant[k]) +
                  "): training moved them; what is made of its tensors would be another network");
}

void expect_rotations(const graph::Graph& graph, const CrumbFile& file) {
  if (graph.constant(frequencies_name(0)) == nullptr) return;  // no decoder
  const DecoderConfig config = DecoderConfig::parse(JsonFile("config.json", load(file, "config.json")));
  for (std::size_t i = 0; i < config.rotations.size(); ++i) {
    expect(graph, frequencies_name(i), config.rotations[i].frequencies);
    expect(graph, long_frequencies_name(i), config.rotations[i].long_frequencies);
  }
}

/// Which inputs of a stored graph are the network's, not tensors of the file.
std::set<std::string> own_inputs(const graph::Graph& graph) {
  const auto count = graph.metadata.find(std::string(graph::kCrumbInputsKey));
  const std::size_t own = count == graph.metadata.end()
                              ? graph.inputs.size()
                              : parse_number<std::size_t>(count->second).value_or(graph.inputs.size());
  const auto end = graph.inputs.begin() + static_cast<std::ptrdiff_t>(std::min(own, graph.inputs.size()));
  return {graph.inputs.begin(), end};
}

/// Constants and tensors of floats that a value is made of; nothing where it is what the network's inputs
/// make of them.
std::vector<std::string> made_of(const graph::Graph& graph, const graph::Links& links,
                                 const std::set<std::string>& inputs, const std::string& value) {
  std::vector<std::string> made, open = {value};
  std::set<std::string> seen;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (name.empty() || !seen.insert(name).second) continue;
    if (inputs.contains(name)) return {};
    if (const std::size_t maker = links.producer(name); maker != graph::Links::kNone) {
      open.insert(open.end(), graph.nodes[maker].inputs.begin(), graph.nodes[maker].inputs.end());
      continue;
    }
    const graph::Tensor* constant = graph.constant(name);
    if (constant == nullptr || graph::is_float(constant->type())) made.push_back(name);
  }
  return made;
}

/// The network that its config.json means, of its tensors.
graph::Graph configured(const TensorSource& source) {
  try {
    return graph_of_weights(NamedWeights(source)).graph;
  } catch (const Error& error) {
    throw within_file(
        "its network is none of its config.json, as where a stage of crumb quantize doubled channels (split) "
        "or moved gains that are 1 and a weight (smooth, awq)",
        error);
  }
}

void expect_matrices(const graph::Graph& graph, const TensorSource& source) {
  const graph::Graph meant = configured(source);
  const graph::Links links(graph);
  const std::set<std::string> inputs = own_inputs(graph);
  for (const graph::Node& node : graph.nodes) {
    if (!graph::is_matrix_product(node)) continue;
    for (const std::string& name : made_of(graph, links, inputs, node.inputs.at(1))) {
      const graph::Value* known = graph.find(name);
      const bool is_number = known == nullptr || !graph::is_integer(known->type);
      if (!is_number || meant.constant(name) || meant.quantized.contains(name) ||
          graph::is_of_adapter(name) || name.starts_with(graph::kCacheRotation))
        continue;
      throw Error(
          "its network multiplies by " + quote_text(name) +
          ", which a network of its config.json has not: what is made of its tensors would be another "
          "network");
    }
  }
}

}  // namespace

void expect_network_of_configuration(const TensorSource& source) {
  const CrumbFile* const file = source.crumb();
  if (file == nullptr || !graph::holds_graph(file->header()) || file->find_file("config.json") == nullptr)
    return;
  const graph::Graph graph = structure_in(*file);
  expect_matrices(graph, source);
  expect_rotations(graph, *file);
}

std::optional<std::string> unused_head(const TensorSource& source) {
  constexpr const char* kHead = "lm_head.weight";
  if (source.find(kHead) == nullptr) return std::nullopt;
  const std::optional<std::string> config = weights_of(source)->file("config.json");
  if (!config) return std::nullopt;
  try {
    if (DecoderConfig::parse(JsonFile("config.json", *config)).tied) return kHead;
  } catch (const Error&) {  // no decoder that is known here
  }
  return std::nullopt;
}

std::string note_of_unused_head(const std::string& name) {
  return quote_text(name) + " is left out: the embedding is what makes the logits, by tie_word_embeddings";
}

std::vector<std::string> notes_of_quantizers(const TensorSource& source) {
  const CrumbFile* const file = source.crumb();
  if (file == nullptr || !graph::holds_graph(file->header())) return {};
  const graph::Graph graph = structure_in(*file);
  const auto count = static_cast<std::size_t>(std::ranges::count_if(graph.nodes, graph::is_quantizer));
  if (count == 0) return {};
  return {
      count_text(count, "quantizer") +
      " of activations or caches stay behind: what reads tensors and config.json computes these in floats"};
}

}  // namespace crumb::models
