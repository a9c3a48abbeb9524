#include "graph/onnx/write.h"

#include <optional>

#include "base/files/output_file.h"
#include "base/files/text.h"
#include "graph/onnx/read.h"
#include "graph/onnx/to_proto.h"

namespace crumb::graph {
namespace {

constexpr std::uint64_t kMostInside =
    2'000'000'000;                            // bytes of constants; protobuf holds less than 2^31 in all
constexpr std::int64_t kLeastOutside = 1024;  // elements of an initializer that is worth a place outside
constexpr std::uint64_t kAlignment = 4096;

std::uint64_t constant_bytes(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : graph.initializers) bytes += tensor.byte_count();
  return bytes;
}

std::string serialized(const onnx::ModelProto& model) {
  std::string bytes;
  if (!model.SerializeToString(&bytes)) {
    throw Error("the graph takes 2 GB or more as one ONNX file, more than the format can hold");
  }
  return bytes;
}

/// Puts the data of a large initializer into `data` and says so in its place.
void move_outside(const std::string& location, const Tensor& tensor, OutputFile& data,
                  onnx::TensorProto& proto) {
  data.pad_to(kAlignment);
  const auto add = [&](const char* key, const std::string& value) {
    auto* entry = proto.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(data.size()));
  add("length", std::to_string(tensor.bytes().size()));
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  data.append(tensor.bytes());
}

/// What lies in the file so far, as a graph.
Graph read_back(const OutputFile& file) {
  std::vector<std::byte> bytes(file.size());
  file.read_at(0, bytes);
  const std::filesystem::path folder = file.path().parent_path();
  return parse_onnx(bytes, folder.empty() ? "." : folder).take(quote_text(file.path().string()));
}

}  // namespace

std::string onnx_bytes(const Graph& graph) { return serialized(to_proto(graph)); }

void write_onnx(const Graph& graph, const std::filesystem::path& path, const ReadBack& check) {
  std::optional<OutputFile> data;
  const ToProtoOptions options{.states_initializers = true};  // qonnx leaves files so, and hls4ml looks there
  onnx::ModelProto model;
  if (constant_bytes(graph) <= kMostInside) {
    model = to_proto(graph, options);
  } else {
    Graph small = graph;
    std::erase_if(small.initializers, [](const auto& entry) { return entry.second.size() >= kLeastOutside; });
    model = to_proto(small, options);
    const std::string location = path.filename().string() + ".data";
    data.emplace(path.parent_path() / location);
    for (const auto& [name, tensor] : graph.initializers) {
      if (tensor.size() < kLeastOutside) continue;
      onnx::TensorProto& proto = *model.mutable_graph()->add_initializer();
      proto.set_name(name);
      proto.set_data_type(onnx_number(tensor.type()));
      for (const std::int64_t size : tensor.shape()) proto.add_dims(size);
      move_outside(location, tensor, *data, proto);
    }
  }
  const std::string bytes = serialized(model);
  OutputFile file(path);
  file.append(bytes);
  if (data) data->commit();
  if (check) {
    try {
      check(read_back(file));
    } catch (...) {
      std::error_code ignored;
      if (data) std::filesystem::remove(data->path(), ignored);
      throw;
    }
  }
  file.commit();
}

}  // namespace crumb::graph
