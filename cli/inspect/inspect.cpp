// crumb inspect: the contents of a file or folder.
#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "base/files/counted.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/shape_flags.h"
#include "cli/flags/verb.h"
#include "cli/inspect/inspect_graph.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "graph/packed/crumb_graph.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/quantize_json.h"
#include "jobs/quantize_parts.h"
#include "models/checkpoint_graph.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/packed/packed_check.h"
#include "quant/quantizer.h"
#include "quant/tensor_source.h"

namespace crumb::cli {
namespace {

struct InspectFlags {
  std::string file, key, svg;
  std::vector<std::string> shapes;
  bool tensors = false, tensors_only = false, json = false, memory = false, graph = false;
  bool all = false;
};

Json tensors_json(const TensorSource& source) {
  Json tensors = Json::array();
  for (const SourceTensor& tensor : source.tensors()) {
    Json row;
    row["name"] = tensor.name;
    row["shape"] = tensor.shape;
    row["dtype"] = dtype_name(tensor.dtype);
    row["spec"] = tensor.spec.empty() ? Json(nullptr) : Json(tensor.spec);
    row["stored_as"] = tensor.stored_as;
    row["bytes"] = tensor.bytes;
    tensors.push_back(std::move(row));
  }
  return tensors;
}

void print_tensors(const TensorSource& source) {
  std::vector<std::vector<std::string>> rows{{"tensor", "shape", "dtype", "stored as", "bytes"}};
  for (const SourceTensor& tensor : source.tensors()) {
    rows.push_back({tensor.name, shape_text(tensor.shape), std::string(dtype_name(tensor.dtype)),
                    tensor.stored_as, std::to_string(tensor.bytes)});
  }
  std::cout << "\n";
  print_table(rows);
}

/// The sum over tensors that are stored alike.
struct Sum {
  size_t tensors = 0;
  uint64_t bytes = 0, raw = 0, weights = 0;

  void add(const SourceTensor& tensor) {
    ++tensors;
    bytes += tensor.bytes;
    raw += tensor.raw;
    weights += element_count(tensor.shape).take("tensor " + quote_text(tensor.name));
  }
  double bits() const { return bits_per_weight(raw, weights); }
};

/// Returns the sums by the tensors' storage, and the sum of all.
std::pair<std::map<std::string, Sum>, Sum> sums_of(const TensorSource& source) {
  std::map<std::string, Sum> by_kind;
  Sum all;
  for (const SourceTensor& tensor : source.tensors()) {
    by_kind[tensor.stored_as].add(tensor);
    all.add(tensor);
  }
  return {std::move(by_kind), all};
}

Json sums_json(const TensorSource& source) {
  Json rows = Json::array();
  for (const auto& [kind, sum] : sums_of(source).first) {
    rows.push_back({{"stored_as", kind},
                    {"tensors", sum.tensors},
                    {"weights", sum.weights},
                    {"bytes", sum.bytes},
                    {"bits_per_weight", sum.bits()}});
  }
  return rows;
}

void print_sums(const TensorSource& source) {
  const auto [by_kind, all] = sums_of(source);
  std::vector<std::vector<std::string>> rows{{"stored as", "tensors", "weights", "bytes", "bits per weight"}};
  const auto add = [&](const std::string& kind, const Sum& sum) {
    rows.push_back({kind, std::to_string(sum.tensors), std::to_string(sum.weights), std::to_string(sum.bytes),
                    fixed(sum.bits(), 3)});
  };
  for (const auto& [kind, sum] : by_kind) add(kind, sum);
  if (by_kind.size() > 1) add("all", all);
  print_table(rows);
}

/// Returns why `crumb verify` refuses a packed file; nothing where it is sound, and for checkpoints.
std::optional<std::string> fault_of(const TensorSource& source) {
  if (!source.crumb()) return {};
  if (const Status sound = check_packed_file(*source.crumb()); !sound.ok()) return sound.failure().message;
  if (!graph::holds_graph(source.crumb()->header())) return {};
  const Result<graph::Graph> graph = graph::graph_of(*source.crumb());
  return graph.ok() ? std::nullopt : std::optional(graph.failure().message);
}

/// The graph that is shown behind the tensors: what the file is, where that is sound; that of a checkpoint where it is
/// asked for.
std::optional<graph::Graph> network_of(const InspectFlags& options, const TensorSource& source,
                                       bool is_sound) {
  const bool is_wanted = options.graph || !options.svg.empty() || !options.shapes.empty() || options.memory;
  const std::string name = quote_text(options.file);
  if (!options.tensors_only) {
    const bool has_graph = source.crumb() && graph::holds_graph(source.crumb()->header());
    if (has_graph && (is_wanted || graph::holds_only_graph(source.crumb()->header()))) {
      if (!is_sound && !is_wanted) return {};
      return graph::graph_of(*source.crumb()).take(name);
    }
    if (is_wanted && models::is_checkpoint(options.file))
      return models::graph_of_checkpoint(source, name).graph;
  }
  if (is_wanted) {
    throw usage_error(
        "--graph, --svg, --shape and --memory are for graphs (.onnx, .crumb) and checkpoints of a known "
        "architecture (.crumb, .gguf, folder); " +
        name + " is read as tensors");
  }
  return {};
}

void inspect_verb(const InspectFlags& options) {
  if (!options.svg.empty()) {
    refuse_overwriting_inputs({options.file}, options.svg);
    claim_output(options.svg);
  }
  if (jobs::is_network_file(options.file) && !jobs::is_torchscript(options.file) && !options.tensors_only) {
    return inspect_graph({.file = options.file,
                          .svg = options.svg,
                          .shapes = options.shapes,
                          .tensors = options.tensors,
                          .json = options.json,
                          .memory = options.memory,
                          .all = options.all});
  }
  const TensorSource source = TensorSource::open(options.file, options.key);
  const std::optional<std::string> fault = fault_of(source);
  const std::optional<graph::Graph> network = network_of(options, source, !fault);
  const InspectGraph as_graph{.file = options.file,
                              .svg = options.svg,
                              .shapes = options.shapes,
                              .json = options.json,
                              .memory = options.memory,
                              .all = options.all};
  if (source.checkpoint()) jobs::note_reading(*source.checkpoint(), terminal());
  if (options.json) {
    Json json;
    json["kind"] = source.kind();
    json["bytes"] = source.bytes();
    if (source.crumb()) json["sound"] = !fault;
    if (fault) json["fault"] = printable(*fault);
    json["stored"] = sums_json(source);
    json["bits_per_weight"] = sums_of(source).second.bits();
    json["tensors"] = tensors_json(source);
    if (source.checkpoint() && !source.checkpoint()->skipped().empty())
      json["skipped"] = jobs::json_of(source.checkpoint()->skipped());
    if (source.checkpoint() && source.checkpoint()->dequantized())
      json["dequantized"] = *source.checkpoint()->dequantized();
    if (network) json["graph"] = inspect_network(as_graph, *network);
    return print_json(json);
  }
  std::cout << options.file << ": " << source.kind() << ", " << megabytes(source.bytes()) << ", "
            << count_text(source.tensors().size(), "tensor") << "\n";
  if (fault) std::cout << "not sound: " << *fault << "\n";
  if (source.crumb()) {
    const CrumbHeader& header = source.crumb()->header();
    if (!header.model.empty()) std::cout << "model: " << printable(header.model) << "\n";
    for (const PackedFile& file : header.files) std::cout << "holds " << printable(file.path) << "\n";
  } else if (source.checkpoint()->quantized()) {
    std::cout << "already quantized by another tool: " << *source.checkpoint()->quantized() << "\n";
  }
  print_sums(source);
  if (options.tensors) print_tensors(source);
  if (network) inspect_network(as_graph, *network);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectFlags>();
  CLI::App* verb = app.add_subcommand("inspect", "Say what a packed file, a checkpoint or a graph holds");
  verb->add_option("file", options->file, "The file or folder")->type_name("MODEL")->required();
  verb->add_option("--key", options->key, "The entry of a PyTorch file that is the model")
      ->type_name("NAME")
      ->group(kInputFlags);
  verb->add_flag("--tensors", options->tensors, "List every tensor")->group(kOutputFlags);
  verb->add_flag("--json", options->json, "Print one JSON object")->group(kOutputFlags);
  verb->add_flag("--tensors-only", options->tensors_only, "Take a graph for a checkpoint: its tensors alone")
      ->group(kInputFlags);
  verb->add_flag("--graph", options->graph, "Draw the graph of a checkpoint, too")->group(kOutputFlags);
  verb->add_flag("--all", options->all, "Print all of a drawing that is longer than a page")
      ->group(kOutputFlags);
  verb->add_option("--svg", options->svg, "Draw a graph into this file")
      ->type_name("FILE")
      ->group(kOutputFlags);
  verb->add_option("--shape", options->shapes, kShapeHelp)->type_name("NAME=SIZES")->group(kInputFlags);
  verb->add_flag("--memory", options->memory,
                 "Say what a run of the graph takes, too, and where each value lies")
      ->group(kOutputFlags);
  verb->footer(
      "Examples:\n  crumb inspect minilm.crumb --tensors\n  crumb inspect TFC_2W2A.onnx --svg tfc.svg\n"
      "  crumb inspect minilm.crumb --memory --shape input_ids=8x128");
  verb->callback([options] { inspect_verb(*options); });
}

}  // namespace crumb::cli
