#include "graph/onnx/read.h"

#include <onnx/onnx_pb.h>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "graph/onnx/from_proto.h"
#include "graph/onnx/local_functions.h"

namespace crumb::graph {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - 1;  // protobuf's own limit

Graph read(std::span<const std::byte> bytes, const OnnxDataFolder& folder) {
  if (bytes.size() > kMostBytes) {
    throw Error("the file has " + byte_text(bytes.size()) +
                "; models of 2 GB and more keep their weights in external data");
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph()) {
    throw Error("not an ONNX model, or a damaged one");
  }
  inline_local_functions(model, bytes.size());
  return from_proto(model, folder);
}

}  // namespace

Graph read_onnx(const fs::path& path) {
  const MappedFile file = MappedFile::open(path).take();
  try {
    return read(file.bytes(), OnnxDataFolder::of_model(path));
  } catch (const Error& error) {
    throw Error(quote_text(path.string()) + ": " + error.what());
  }
}

Result<Graph> parse_onnx(std::span<const std::byte> bytes, const fs::path& folder) {
  try {
    return read(bytes, OnnxDataFolder::at(folder));
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

Result<NamedTensor> parse_onnx_tensor_file(std::span<const std::byte> bytes) {
  onnx::TensorProto proto;
  if (bytes.size() > kMostBytes || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Failure{"not a TensorProto, or a damaged one"};
  }
  try {
    return NamedTensor{proto.name(), tensor_from(proto, {})};
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

}  // namespace crumb::graph
