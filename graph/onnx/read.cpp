#include "graph/onnx/read.h"

#include <onnx/onnx_pb.h>

#include "base/files/input_file.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/within.h"
#include "graph/onnx/block_operators.h"
#include "graph/onnx/fused_operators.h"
#include "graph/onnx/local_functions.h"
#include "graph/onnx/wire/read_model.h"

namespace crumb::graph {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - 1;  // protobuf's own limit

/// Returns the model with calls replaced by its own functions' bodies, which the ONNX library does.
std::string without_functions(std::span<const std::byte> bytes) {
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw Error("not an ONNX model, or a damaged one");
  inline_local_functions(model, bytes.size());
  std::string inlined;
  if (!model.SerializeToString(&inlined)) throw Error("its functions take more than 2 GB");
  return inlined;
}

/// onnxruntime's operators as ONNX's.
Graph plain(Graph graph) { return take_fused_operators(take_block_operators(std::move(graph))); }

Graph read(std::span<const std::byte> bytes, const OnnxDataFolder& folder,
           std::shared_ptr<const InputFile> source = nullptr) {
  if (bytes.size() > kMostBytes) {
    throw Error("the file has " + byte_text(bytes.size()) +
                "; models of 2 GB and more keep their weights in external data");
  }
  const Result<OnnxModel> model = parse_onnx_model(bytes);
  if (!model.ok()) throw Error("not an ONNX model, or a damaged one: " + model.failure().message);
  if (model.value().functions == 0) return plain(read_model(bytes, model.value(), folder, std::move(source)));
  const std::string inlined = without_functions(bytes);
  return plain(read_model(std::as_bytes(std::span(inlined)), folder));
}

}  // namespace

Graph read_onnx(const fs::path& path) {
  const MappedFile file = MappedFile::open(path).take();
  try {
    return read(file.bytes(), OnnxDataFolder::of_model(path),
                std::make_shared<const InputFile>(InputFile::open(path).take()));
  } catch (const Error& error) {
    throw within_file(quote_text(path.string()), error);
  }
}

Graph read_onnx_at(const fs::path& bytes, const fs::path& path, const std::optional<fs::path>& data) {
  const MappedFile file = MappedFile::open(bytes).take();
  const fs::path folder = path.parent_path();
  try {
    const OnnxDataFolder beside = OnnxDataFolder::at(folder.empty() ? "." : folder);
    return read(file.bytes(), data ? beside.with(data_file_of(path), *data) : beside,
                std::make_shared<const InputFile>(InputFile::open(bytes).take()));
  } catch (const Error& error) {
    throw within_file(quote_text(path.string()), error);
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
  try {
    return read_tensor(bytes);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

}  // namespace crumb::graph
