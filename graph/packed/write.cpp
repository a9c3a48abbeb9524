#include "graph/onnx/write.h"

#include <algorithm>
#include <map>

#include "base/files/text.h"
#include "formats/crumb_file/writer.h"
#include "graph/packed/crumb_graph.h"
#include "quant/code_layout.h"
#include "quant/packed_tensor.h"

namespace crumb::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// What a tensor of the packed file is made of.
struct Source {
  const QuantizedTensor* codes = nullptr;
  const Tensor* kept = nullptr;
};

std::vector<std::uint64_t> sizes_of(const Ints& shape) { return {shape.begin(), shape.end()}; }

/// Whether an initializer is a tensor of the packed file: a large one of a type that it has, and no output of the
/// graph.
bool is_packed(const Graph& graph, const std::string& name, const Tensor& tensor) {
  const auto dtype = info(tensor.type()).dtype;
  if (!dtype || tensor.bytes().size() < kLeastTensor) return false;
  const auto bytes = tensor_byte_size(*dtype, sizes_of(tensor.shape()));
  return bytes.ok() && bytes.value() == tensor.bytes().size() &&
         std::ranges::find(graph.outputs, name) == graph.outputs.end();
}

/// Takes the large constants out of a graph.
class Splitter {
 public:
  explicit Splitter(const Graph& graph) : structure_(graph) {
    structure_.quantized.clear();
    for (const auto& [name, constant] : graph.quantized) take(name, constant);
    for (const auto& [name, tensor] : graph.initializers) {
      if (!is_packed(graph, name, tensor)) continue;
      structure_.initializers.erase(name);
      structure_.values[name].type = tensor.type();
      structure_.values[name].shape = Shape(tensor.shape().begin(), tensor.shape().end());
      sources_[name].kept = &tensor;
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
  void take(const std::string& name, const QuantizedConstant& constant) {
    const Ints shape(constant.tensor->shape.begin(), constant.tensor->shape.end());
    const bool is_output = std::ranges::find(structure_.outputs, name) != structure_.outputs.end();
    const bool is_transposed = !std::ranges::is_sorted(constant.axes);
    const std::string tensor =
        is_transposed && is_output ? structure_.unused_value_name(name + "_codes") : name;
    if (is_transposed) {
      const std::string value = is_output ? name : structure_.unused_value_name(name + "_axes");
      Value& known = structure_.values[value];
      if (!is_output) known = structure_.values[name];
      const Ints whole = constant.shape();
      known.type = ElementType::kFloat;
      known.shape = Shape(whole.begin(), whole.end());
      if (!is_output) renamed_[name] = value;
      transposes_.push_back({.name = freed_name(std::string(kCrumbAxesPrefix) + tensor),
                             .op = "Transpose",
                             .version = structure_.opset(),
                             .inputs = {tensor},
                             .outputs = {value},
                             .attributes = {{"perm", constant.axes}}});
      if (!is_output) structure_.values[name].annotations.clear();
    }
    structure_.values[tensor].type = ElementType::kFloat;
    structure_.values[tensor].shape = Shape(shape.begin(), shape.end());
    sources_[tensor].codes = constant.tensor.get();
  }

  /// A name that says something: a node that has it by chance gets another.
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

CodeLayout layout_of(const QuantizedTensor& tensor, CodeLayout wish) {
  return fits_tiles(tensor.shape) ? wish : CodeLayout::kRows;
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
  plan.shape = sizes_of(source.kept->shape());
  return plan;
}

/// Throws Error where a file that was written does not hold what its parts say.
void expect_read_back(const std::filesystem::path& written, const std::string& structure,
                      const std::map<std::string, Source>& sources) {
  const Graph found = graph_of(CrumbFile::open(written).take()).take("the file that was written");
  const Splitter again(found);
  if (onnx_bytes(again.structure()) != structure)
    throw Error("the file that was written holds another structure than was meant");
  const auto same = [](const Source& a, const Source& b) {
    if (!a.codes || !b.codes) return a.kept && b.kept && *a.kept == *b.kept;
    const QuantizedView x = a.codes->view(), y = b.codes->view();
    return a.codes->spec == b.codes->spec && a.codes->shape == b.codes->shape &&
           std::ranges::equal(x.codes, y.codes) && std::ranges::equal(x.scales, y.scales) &&
           std::ranges::equal(x.zeros, y.zeros) && std::ranges::equal(x.codebook, y.codebook) &&
           x.tensor_scale == y.tensor_scale;
  };
  for (const auto& [name, source] : sources) {
    const auto there = again.sources().find(name);
    if (there == again.sources().end() || !same(source, there->second))
      throw Error("the file that was written holds another tensor " + quote_text(name) + " than was meant");
  }
}

}  // namespace

Graph structure_of(const Graph& graph) { return Splitter(graph).structure(); }

void write_crumb_graph(const Graph& graph, const std::filesystem::path& path,
                       const CrumbGraphOptions& options) {
  const Splitter parts(graph);
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
    } else {
      writer.write(source.kept->bytes());
    }
  }
  writer.write(std::as_bytes(std::span(structure)));
  for (const auto& [name, content] : options.files) writer.write(std::as_bytes(std::span(content)));
  writer.finish([&](const std::filesystem::path& written) {
    if (options.reads_back) expect_read_back(written, structure, parts.sources());
  });
}

}  // namespace crumb::graph
