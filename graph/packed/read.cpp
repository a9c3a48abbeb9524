#include <algorithm>
#include <numeric>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/text/number.h"
#include "graph/onnx/wire/read_model.h"
#include "graph/packed/crumb_graph.h"
#include "graph/strided_index.h"
#include "quant/packed/packed_tensor.h"

namespace crumb::graph {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;

Failure wrong(const std::string& what) { return {std::string(kCrumbGraphFile) + ": " + what}; }

/// Adds the tensors of a packed file to the graph whose structure it holds.
class Joiner {
 public:
  /// `source`: the same file, if codes stay in it; null: they are copied.
  Joiner(const CrumbFile& file, std::shared_ptr<const CrumbFile> source, Graph structure)
      : file_(file), source_(std::move(source)), graph_(std::move(structure)) {}

  Result<Graph> run() && {
    if (Status split = split_inputs(); !split.ok()) return split.failure();
    for (const std::string& name : constants_) {
      if (Status added = add(name); !added.ok()) return added.failure();
    }
    if (Status moved = move_axes(); !moved.ok()) return moved.failure();
    return std::move(graph_);
  }

 private:
  /// Separates the graph's own inputs from those that are tensors.
  Status split_inputs() {
    const auto entry = graph_.metadata.find(std::string(kCrumbInputsKey));
    if (entry == graph_.metadata.end()) {
      return wrong("its metadata have no entry " + std::string(kCrumbInputsKey));
    }
    const std::string text = entry->second;
    const auto own = parse_number<std::size_t>(text);
    if (!own || *own > graph_.inputs.size()) {
      return wrong("its metadata say that the graph has " + quote_text(text) +
                   " inputs of its own, expected a number from 0 to " + std::to_string(graph_.inputs.size()));
    }
    graph_.metadata.erase(entry);
    const auto first = graph_.inputs.begin() + static_cast<std::ptrdiff_t>(*own);
    constants_.assign(first, graph_.inputs.end());
    graph_.inputs.erase(first, graph_.inputs.end());
    for (const std::string& name : graph_.inputs) {
      if (file_.find(name))
        return wrong("the input " + quote_text(name) + " is the graph's own, and a tensor too");
    }
    for (const std::string& name : constants_) {
      if (!file_.find(name))
        return wrong("it takes the tensor " + quote_text(name) + ", which the file does not hold");
    }
    if (!holds_only_graph(file_.header())) return check_others();
    if (constants_.size() == file_.header().tensors.size()) return {};
    std::vector<std::string> known = constants_;
    std::ranges::sort(known);
    for (const PackedTensor& tensor : file_.header().tensors) {
      if (!std::ranges::binary_search(known, tensor.name)) {
        return wrong("it has no input for the tensor " + quote_text(tensor.name));
      }
    }
    return {};
  }

  /// For a checkpoint's file: checks that no value of the graph has the name of a tensor that is no input.
  Status check_others() const {
    const auto meant = [&](const std::string& name) {
      return file_.find(name) != nullptr && std::ranges::find(constants_, name) == constants_.end();
    };
    const auto taken = [](const std::string& name) {
      return wrong("the value " + quote_text(name) + " is called like a tensor that it does not take");
    };
    for (const auto& [name, tensor] : graph_.initializers) {
      if (meant(name)) return taken(name);
    }
    for (const Node& node : graph_.nodes) {
      for (const std::string& name : node.outputs) {
        if (meant(name)) return taken(name);
      }
    }
    return {};
  }

  Status add(const std::string& name) {
    const PackedTensor& tensor = *file_.find(name);
    const auto type = tensor.encoding ? ElementType::kFloat : element_type_of(tensor.dtype);
    if (!type)
      return Failure{"tensor " + quote_text(name) + ": ONNX has no type for " +
                     std::string(dtype_name(tensor.dtype))};
    const Ints shape(tensor.shape.begin(), tensor.shape.end());
    const Value& stated = graph_.values[name];
    if (stated.type != *type || stated.shape != Shape(shape.begin(), shape.end())) {
      return wrong("the input " + quote_text(name) + " is " + std::string(name_of(stated.type)) + " " +
                   (stated.shape ? text_of(*stated.shape) : "of any shape") + ", but the tensor is " +
                   std::string(name_of(*type)) + " " + text_of(shape));
    }
    return tensor.encoding ? add_codes(tensor) : add_kept(tensor, *type, shape);
  }

  Status add_kept(const PackedTensor& tensor, ElementType type, const Ints& shape) {
    const Result<BlobBytes> data = file_.load(*tensor.part(Part::kData), part_text(tensor, Part::kData));
    if (!data.ok()) return data.failure();
    const auto bytes = data.value().bytes();
    graph_.initializers.emplace(tensor.name, Tensor(type, shape, {bytes.begin(), bytes.end()}));
    return {};
  }

  Status add_codes(const PackedTensor& packed) {
    const bool borrows = source_ && packed.encoding->has_levels();
    Result<QuantizedTensor> copied = borrows ? borrow_encoded(source_, packed) : copy_encoded(file_, packed);
    if (!copied.ok()) return copied.failure();
    if (!packed.encoding->has_levels()) return add_values(copied.value(), packed.name);
    auto tensor = std::make_shared<QuantizedTensor>(copied.take());
    Ints axes(packed.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    graph_.quantized.emplace(packed.name,
                             QuantizedConstant{.tensor = std::move(tensor), .axes = std::move(axes)});
    return {};
  }

  /// Adds the values of codes that are not (integer - zero point) * scale.
  Status add_values(const QuantizedTensor& tensor, const std::string& name) {
    std::vector<float> values(tensor.layout.matrix.size());
    dequantize(tensor.view(), values);
    graph_.initializers.emplace(name, Tensor::floats({tensor.shape.begin(), tensor.shape.end()}, values));
    return {};
  }

  /// Turns the Transpose nodes that the writer put behind inputs into the constants' axes. Name and input
  /// identify them together; others with such names stay nodes.
  Status move_axes() {
    const Links links(graph_);
    std::map<std::string, std::string> renamed;
    std::vector<bool> gone(graph_.nodes.size(), false);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (!node.is("Transpose") || node.inputs.size() != 1 || node.outputs.size() != 1 ||
          node.name != std::string(kCrumbAxesPrefix) + node.inputs[0])
        continue;
      const std::string &name = node.inputs[0], &value = node.outputs[0];
      const auto constant = graph_.quantized.find(name);
      const auto kept = graph_.initializers.find(name);
      const bool is_coded = constant != graph_.quantized.end();
      const bool is_floats =
          kept != graph_.initializers.end() && file_.find(name) && kept->second.type() == ElementType::kFloat;
      if (!is_coded && !is_floats) continue;  // not written by us
      Ints axes = is_coded ? constant->second.axes : Ints(kept->second.shape().size());
      if (!is_coded) std::iota(axes.begin(), axes.end(), 0);
      const auto* perm = node.has("perm") ? std::get_if<Ints>(&node.attributes.at("perm")) : nullptr;
      Ints sorted_perm = perm ? *perm : Ints();
      std::ranges::sort(sorted_perm);
      if (!perm || sorted_perm != axes) {
        if (is_floats) continue;
        return wrong(text_of(node) + ": perm is " + (perm ? text_of(*perm) : "no list of integers") +
                     ", expected a permutation of the " + std::to_string(axes.size()) + " axes");
      }
      if (links.consumers(name).size() != 1 || links.is_output(name) || links.is_output(value)) continue;
      if (is_coded)
        constant->second.axes = *perm;
      else
        kept->second = transposed(kept->second, *perm);
      move_value(name, value, is_coded ? constant->second.shape() : kept->second.shape());
      renamed[value] = name;
      gone[i] = true;
    }
    for (std::size_t i = 0, kept = 0; i < gone.size(); ++i) {
      if (gone[i]) continue;
      if (kept != i) graph_.nodes[kept] = std::move(graph_.nodes[i]);
      ++kept;
    }
    graph_.nodes.resize(graph_.nodes.size() - static_cast<std::size_t>(std::ranges::count(gone, true)));
    for (Node& node : graph_.nodes) {
      for (std::string& value : node.inputs) {
        if (const auto found = renamed.find(value); found != renamed.end()) value = found->second;
      }
    }
    return {};
  }

  /// Type and shape of the transposed value become the constant's.
  void move_value(const std::string& name, const std::string& value, const Ints& shape) {
    Value known = std::move(graph_.values[value]);
    graph_.values.erase(value);
    known.type = ElementType::kFloat;
    known.shape = Shape(shape.begin(), shape.end());
    graph_.values[name] = std::move(known);
  }

  const CrumbFile& file_;
  const std::shared_ptr<const CrumbFile> source_;
  Graph graph_;
  std::vector<std::string> constants_;  ///< tensors' names, in the model's order
};

}  // namespace

bool holds_graph(const CrumbHeader& header) {
  return (header.version > 1 || header.model == kCrumbGraphModel) &&
         std::ranges::find(header.files, kCrumbGraphFile, &PackedFile::path) != header.files.end();
}

bool holds_only_graph(const CrumbHeader& header) {
  return header.model == kCrumbGraphModel && holds_graph(header);
}

namespace {

Result<Graph> joined(const CrumbFile& file, std::shared_ptr<const CrumbFile> source) {
  if (!holds_graph(file.header())) {
    return Failure{"found the tensors of a checkpoint" +
                   (file.header().model.empty() ? "" : " (" + printable(file.header().model) + ")") +
                   ", expected a graph: a packed file of the model \"graph\" that holds graph.onnx"};
  }
  const Result<BlobBytes> bytes =
      file.load(file.find_file(kCrumbGraphFile)->blob, "file " + quote_text(kCrumbGraphFile));
  if (!bytes.ok()) return bytes.failure();
  try {
    // A structure has no external data.
    return Joiner(file, std::move(source), read_model(bytes.value().bytes(), {})).run();
  } catch (const Error& error) {
    return wrong(error.what());
  }
}

}  // namespace

Result<Graph> graph_of(const CrumbFile& file) { return joined(file, nullptr); }

Result<Graph> graph_on(const std::shared_ptr<const CrumbFile>& file) { return joined(*file, file); }

Graph read_crumb_graph(const fs::path& path) {
  const CrumbFile file = CrumbFile::open(path).take();
  return graph_of(file).take(quote_text(path.string()));
}

bool is_crumb_file(const fs::path& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  return file.ok() && looks_like_crumb(file.value().bytes());
}

}  // namespace crumb::graph
