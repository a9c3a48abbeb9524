// What crumb compare reads of a file: the tensors of a checkpoint or a packed file, or of an ONNX network
// with packed weights (onnxruntime's MatMulNBits and GatherBlockQuantized) its constants, as its nodes take
// them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "quant/tensor_source.h"

namespace crumb::jobs {

class ComparedTensors {
 public:
  struct Row {
    std::string name;
    std::vector<std::uint64_t> shape;
  };

  /// Throws as TensorSource::open() and graph::read_onnx() do.
  static ComparedTensors open(const std::filesystem::path& path, const std::string& key = {});

  const std::vector<Row>& rows() const { return rows_; }  ///< sorted by name
  const Row* find(std::string_view name) const;           ///< null where there is none

  /// Streams the values of a row. Throws as TensorSource::stream() does. This must outlive the stream.
  std::unique_ptr<ValueStream> stream(const Row& row) const;

 private:
  explicit ComparedTensors(TensorSource source) : source_(std::move(source)) {}

  TensorSource source_;
  std::optional<graph::Graph> network_;  ///< where its constants are read
  std::vector<Row> rows_;
};

}  // namespace crumb::jobs
