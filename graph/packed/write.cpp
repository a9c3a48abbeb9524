#include "graph/onnx/write.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/files/text.h"
#include "formats/crumb_file/writer.h"
#include "graph/adapters.h"
#include "graph/packed/crumb_graph.h"
#include "graph/passes/opset.h"
#include "graph/strided_index.h"
#include "quant/codes/code_layout.h"
#include "quant/packed/packed_tensor.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// Where a tensor of the packed file comes from.
struct Source {
  const QuantizedTensor* codes = nullptr;
  const Tensor* kept = nullptr;
  bool is_transposed = false;  ///< the file stores its two axes transposed

  std::vector<std::int64_t> kept_shape() const {
    return is_transposed ? std::vector<std::int64_t>{kept->shape()[1], kept->shape()[0]} : kept->shape();
  }
};

std::vector<std::uint64_t> sizes_of(const Ints& shape) { return {shape.begin(), shape.end()}; }

/// Whether an initializer becomes a tensor of the packed file: it is large, its type exists there, and it is
/// no graph output.
bool is_packed(const Graph& graph, const std::string& name, const Tensor& tensor) {
  const auto dtype = info(tensor.type()).dtype;
  if (!dtype || tensor.byte_count() < kLeastTensor) return false;
  const auto bytes = tensor_byte_size(*dtype, sizes_of(tensor.shape()));
  return bytes.ok() && bytes.value() == tensor.byte_count() &&
         std::ranges::find(graph.outputs, name) == graph.outputs.end();
}

Ints signed_shape(const QuantizedTensor& tensor) { return {tensor.shape.begin(), tensor.shape.end()}; }

/// Whether an initializer is a float weight by its name, or an adapter's, and can be a tensor of the packed
/// file.
bool is_weight(const Graph& graph, const std::string& name, const Tensor& tensor) {
  const bool is_named = name.ends_with(".weight") || name.ends_with(".bias") || is_of_adapter(name);
  return is_named && is_float(tensor.type()) && info(tensor.type()).dtype && tensor.rank() > 0 &&
         std::ranges::find(graph.outputs, name) == graph.outputs.end();
}

/// Returns matrices that are only used as second inputs of MatMul nodes: checkpoints store them as [out, in].
std::set<std::string> only_multiplied(const Graph& graph) {
  std::set<std::string> multiplied, others;
  for (const Node& node : graph.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      (node.is("MatMul") && i == 1 ? multiplied : others).insert(node.inputs[i]);
  std::erase_if(multiplied, [&](const std::string& name) {
    const Tensor* tensor = graph.constant(name);
    return !tensor || tensor->type() != ElementType::kFloat || tensor->rank() != 2 || others.contains(name) ||
           is_of_adapter(name);
  });
  return multiplied;
}

/// Returns the kept tensor as the file stores it.
Tensor kept_of(const Source& source) {
  const Tensor& kept = *source.kept;
  if (source.is_transposed) return transposed(kept, Ints{1, 0});
  if (!kept.is_unread()) return kept;
  const HeldBytes held = kept.held();
  return {kept.type(), kept.shape(), {held.bytes().begin(), held.bytes().end()}};
}

/// Takes the large constants out of a graph.
class Splitter {
 public:
  Splitter(const Graph& graph, bool as_checkpoint) : structure_(graph) {
    structure_.quantized.clear();
    for (const auto& [name, constant] : graph.quantized)
      sources_[take(name, signed_shape(*constant.tensor), constant.axes, ElementType::kFloat)].codes =
          constant.tensor.get();
    const std::set<std::string> multiplied = as_checkpoint ? only_multiplied(graph) : std::set<std::string>{};
    for (const auto& [name, tensor] : graph.initializers) {
      const bool is_own = as_checkpoint && is_weight(graph, name, tensor);
      if (!is_own && !is_packed(graph, name, tensor)) continue;
      structure_.initializers.erase(name);
      const bool is_transposed = is_own && multiplied.contains(name);
      const Source source{.kept = &tensor, .is_transposed = is_transposed};
      sources_[take(name, source.kept_shape(), is_transposed ? Ints{1, 0} : Ints{}, tensor.type())] = source;
    }
    for (Node& node : structure_.nodes) {
      for (std::string& value : node.inputs) {
        if (const auto found = renamed_.find(value); found != renamed_.end()) value = found->second;
      }
    }
    structure_.nodes.insert(structure_.nodes.begin(), transposes_.begin(), transposes_.end());
    structure_.metadata[std::string(kCrumbInputsKey)] = std::to_string(graph.inputs.size());
    for (const auto& [name, source] : sources_) structure_.inputs.push_back(name);
    structure_ = sorted(std::move(structure_));
  }

  const Graph& structure() const { return structure_; }
  const std::map<std::string, Source>& sources() const { return sources_; }

 private:
  /// Replaces a constant by an input of this shape, with a Transpose behind it if the constant's axes are not
  /// in order. Returns the input's name.
  std::string take(const std::string& name, const Ints& shape, const Ints& axes, ElementType type) {
    const bool is_output = std::ranges::find(structure_.outputs, name) != structure_.outputs.end();
    const bool is_transposed = !std::ranges::is_sorted(axes);
    std::string tensor = is_transposed && is_output ? structure_.unused_value_name(name + "_codes") : name;
    if (is_transposed) {
      const std::string value = is_output ? name : structure_.unused_value_name(name + "_axes");
      Value& known = structure_.values[value];
      if (!is_output) known = structure_.values[name];
      const Ints whole = permuted_shape(shape, axes);
      known.type = type;
      known.shape = Shape(whole.begin(), whole.end());
      if (!is_output) renamed_[name] = value;
      transposes_.push_back({.name = freed_name(std::string(kCrumbAxesPrefix) + tensor),
                             .op = "Transpose",
                             .version = structure_.opset(),
                             .inputs = {tensor},
                             .outputs = {value},
                             .attributes = {{"perm", axes}}});
      if (!is_output) structure_.values[name].annotations.clear();
    }
    structure_.values[tensor].type = type;
    structure_.values[tensor].shape = Shape(shape.begin(), shape.end());
    return tensor;
  }

  /// Makes a name with a meaning available: a node that has it by chance gets another.
  std::string freed_name(std::string name) {
    for (Node& node : structure_.nodes) {
      if (node.name == name) node.name = structure_.unused_node_name(name);
    }
    return name;
  }

  Graph structure_;
  std::map<std::string, Source> sources_;
  std::map<std::string, std::string> renamed_;
  std::vector<Node> transposes_;
};

CodeLayout layout_of(const QuantizedTensor& tensor, CodeLayout requested) {
  return fits_tiles(tensor.shape, tensor.encoding.stack_axes) ? requested : CodeLayout::kRows;
}

PackedTensor plan_of(const std::string& name, const Source& source, CodeLayout layout) {
  if (source.codes) {
    Encoding encoding = source.codes->encoding;
    encoding.codes = layout_of(*source.codes, layout);
    return plan_encoded(name, DType::kF32, source.codes->shape, source.codes->spec, encoding);
  }
  PackedTensor plan;
  plan.name = name;
  plan.dtype = *info(source.kept->type()).dtype;
  plan.shape = sizes_of(source.kept_shape());
  return plan;
}

/// Whether the tensors are equal, whatever the layouts of their codes.
bool same_tensor(const QuantizedTensor& a, const QuantizedTensor& b) {
  if (a.encoding.codes != b.encoding.codes)
    return same_tensor(in_layout(a.view(), a.spec, b.encoding.codes), b);
  const QuantizedView x = a.view(), y = b.view();
  return a.spec == b.spec && a.shape == b.shape && std::ranges::equal(x.codes, y.codes) &&
         std::ranges::equal(x.scales, y.scales) && std::ranges::equal(x.zeros, y.zeros) &&
         std::ranges::equal(x.codebook, y.codebook) && std::ranges::equal(x.tensor_scales, y.tensor_scales);
}

/// Throws Error where a written file does not hold its parts.
void expect_read_back(const std::filesystem::path& written, const std::string& structure,
                      const std::map<std::string, Source>& sources, bool as_checkpoint) {
  const Graph found = graph_of(CrumbFile::open(written).take()).take("the file that was written");
  const Splitter again(found, as_checkpoint);
  if (onnx_bytes(again.structure()) != structure)
    throw Error("the file that was written holds another structure than was meant");
  const auto same = [](const Source& a, const Source& b) {
    if (!a.codes || !b.codes) return a.kept && b.kept && kept_of(a) == kept_of(b);
    return same_tensor(*a.codes, *b.codes);
  };
  for (const auto& [name, source] : sources) {
    const auto there = again.sources().find(name);
    if (there == again.sources().end() || !same(source, there->second))
      throw Error("the file that was written holds another tensor " + quote_text(name) + " than was meant");
  }
}

}  // namespace

Graph structure_of(const Graph& graph) { return Splitter(graph, false).structure(); }

void write_crumb_graph(const Graph& graph, const std::filesystem::path& path,
                       const CrumbGraphOptions& options) {
  if (has_newer_nodes(graph)) return write_crumb_graph(with_one_opset(graph), path, options);
  const Splitter parts(graph, options.as_checkpoint);
  const std::string structure = onnx_bytes(parts.structure());
  CrumbHeader plan{.model = std::string(kCrumbGraphModel), .tensors = {}, .files = {}};
  for (const auto& [name, source] : parts.sources())
    plan.tensors.push_back(plan_of(name, source, options.layout));
  plan.files.push_back({std::string(kCrumbGraphFile), Blob{.raw = structure.size()}});
  for (const auto& [name, content] : options.files) plan.files.push_back({name, Blob{.raw = content.size()}});
  CrumbWriter writer(path, std::move(plan), options.zstd_level);
  for (const auto& [name, source] : parts.sources()) {
    if (source.codes) {
      write_encoded(writer, *source.codes, layout_of(*source.codes, options.layout));
      source.codes->release_codes();
    } else {
      const Tensor made = source.is_transposed ? kept_of(source) : *source.kept;
      const HeldBytes held = made.held();
      writer.write(held.bytes());
    }
  }
  writer.write(std::as_bytes(std::span(structure)));
  for (const auto& [name, content] : options.files) writer.write(std::as_bytes(std::span(content)));
  writer.finish([&](const std::filesystem::path& written) {
    if (options.reads_back) expect_read_back(written, structure, parts.sources(), options.as_checkpoint);
  });
}

}  // namespace crumb::graph
