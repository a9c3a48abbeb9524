#include "graph/onnx/write.h"

#include <optional>
#include <vector>

#include "base/files/output_file.h"
#include "base/files/text.h"
#include "graph/onnx/if_nodes.h"
#include "graph/onnx/read.h"
#include "graph/onnx/to_proto.h"

namespace crumb::graph {
namespace {

constexpr std::int64_t kLeastOutside = 1024;  // elements, at least, to go to the data file
constexpr std::uint64_t kAlignment = 4096;
constexpr std::uint64_t kMostOfMessage = (std::uint64_t{1} << 31U) - 1;  // of a message

std::uint64_t constant_bytes(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : graph.initializers) bytes += tensor.byte_count();
  return bytes;
}

std::string serialized(const google::protobuf::MessageLite& message) {
  std::string bytes;
  if (!message.SerializeToString(&bytes)) {
    throw Error("the graph takes 2 GB or more as one ONNX file, more than the format can hold");
  }
  return bytes;
}

/// Returns what precedes a field of bytes: its number and their length.
std::string field_head(unsigned number, std::uint64_t length) {
  std::string head(1, static_cast<char>(number << 3U | 2U));
  for (; length >= 0x80; length >>= 7U) head += static_cast<char>(length | 0x80U);
  return head + static_cast<char>(length);
}

/// Field numbers of onnx.proto that are written here.
constexpr unsigned kGraphOfModel = 7, kInitializerOfGraph = 5, kRawDataOfTensor = 9;

/// An initializer in the file: what precedes its data, and the data if the file itself has them.
struct Piece {
  std::string head;
  const Tensor* data = nullptr;

  std::uint64_t size() const { return head.size() + (data ? data->byte_count() : 0); }
};

onnx::TensorProto described(const std::string& name, const Tensor& tensor) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(onnx_number(tensor.type()));
  for (const std::int64_t size : tensor.shape()) proto.add_dims(size);
  return proto;
}

Piece inside(const std::string& name, const Tensor& tensor) {
  const std::string proto = serialized(described(name, tensor));
  const std::string data = field_head(kRawDataOfTensor, tensor.byte_count());
  const std::uint64_t length = proto.size() + data.size() + tensor.byte_count();
  return {.head = field_head(kInitializerOfGraph, length) + proto + data, .data = &tensor};
}

/// Writes the data to `data` and makes the initializer refer to them.
Piece outside(const std::string& location, const std::string& name, const Tensor& tensor, OutputFile& data) {
  onnx::TensorProto proto = described(name, tensor);
  data.pad_to(kAlignment);
  const auto add = [&](const char* key, const std::string& value) {
    auto* entry = proto.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(data.size()));
  add("length", std::to_string(tensor.byte_count()));
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  data.append(tensor.held().bytes());
  const std::string bytes = serialized(proto);
  return {.head = field_head(kInitializerOfGraph, bytes.size()) + bytes};
}

/// What precedes and follows the initializers, in protobuf's order.
struct Frame {
  std::string model_before, graph_before, graph_behind, model_behind;
};

Frame frame_of(const Graph& graph) {
  // qonnx lists the types of initializers among those of values, and hls4ml looks there.
  onnx::ModelProto model =
      to_proto(with_if_nodes(graph), {.without_initializers = true, .states_initializers = true});
  onnx::GraphProto behind, before = std::move(*model.mutable_graph());
  model.clear_graph();
  behind.mutable_input()->Swap(before.mutable_input());
  behind.mutable_output()->Swap(before.mutable_output());
  behind.mutable_value_info()->Swap(before.mutable_value_info());
  behind.mutable_quantization_annotation()->Swap(before.mutable_quantization_annotation());
  onnx::ModelProto model_behind;
  model_behind.mutable_opset_import()->Swap(model.mutable_opset_import());
  model_behind.mutable_metadata_props()->Swap(model.mutable_metadata_props());
  return {serialized(model), serialized(before), serialized(behind), serialized(model_behind)};
}

}  // namespace

void expect_room(const std::filesystem::path& path, std::uint64_t bytes) {
  std::error_code error;
  const std::filesystem::path folder = path.parent_path().empty() ? "." : path.parent_path();
  const auto space = std::filesystem::space(folder, error);
  if (!error && space.available < bytes)
    throw Error(quote_text(path.string()) + " takes " + byte_text(bytes) + ", and its disk has " +
                byte_text(space.available) + " left");
}

std::string onnx_bytes(const Graph& graph) { return serialized(to_proto(graph)); }

void write_onnx(const Graph& graph, const std::filesystem::path& path, const ReadBack& check,
                std::uint64_t most_inside) {
  const Frame frame = frame_of(graph);
  const std::uint64_t constants = constant_bytes(graph);
  expect_room(path, constants);
  std::optional<OutputFile> data;
  const std::string location = data_file_of(path);
  if (constants > most_inside) data.emplace(path.parent_path() / location);
  std::vector<Piece> pieces;
  std::uint64_t length = frame.graph_before.size() + frame.graph_behind.size();
  for (const auto& [name, tensor] : graph.initializers) {
    pieces.push_back(data && tensor.size() >= kLeastOutside ? outside(location, name, tensor, *data)
                                                            : inside(name, tensor));
    length += pieces.back().size();
  }
  if (length + frame.model_before.size() + frame.model_behind.size() >= kMostOfMessage)
    throw Error("the graph takes 2 GB or more as one ONNX file, more than the format can hold");
  OutputFile file(path);
  file.append(frame.model_before);
  file.append(field_head(kGraphOfModel, length));
  file.append(frame.graph_before);
  for (const Piece& piece : pieces) {
    file.append(piece.head);
    if (piece.data) file.append(piece.data->held().bytes());
  }
  file.append(frame.graph_behind);
  file.append(frame.model_behind);
  if (check)
    check(read_onnx_at(file.partial_path(), path, data ? std::optional(data->partial_path()) : std::nullopt));
  if (data) {  // two renames in a row, without anything between them that takes time or fails
    file.flush();
    file.outlast_interrupts();
    data->commit();
  }
  file.commit();
}

}  // namespace crumb::graph
