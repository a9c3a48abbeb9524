// An ONNX model as its bytes say it (onnx.proto): the fields that a network needs, texts and tensors in
// place. Nothing is judged but damage: what a name, a type or a version may be is for whoever makes a graph
// of it.
//
// Fields that are not listed here are passed over; of a graph within an attribute the place is kept. Of a
// field that is not repeated the last one counts, except for messages, which protobuf merges: two of those
// are refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/onnx/wire.h"

namespace crumb {

/// One size of a shape: a number, a name, or neither.
struct OnnxDim {
  std::optional<std::int64_t> size;
  std::optional<std::string_view> name;
};

struct OnnxValueInfo {
  enum class Kind : std::uint8_t { kNone, kTensor, kOther };

  std::string_view name;
  Kind kind = Kind::kNone;
  std::int32_t element_type = 0;  ///< TensorProto.DataType
  std::optional<std::vector<OnnxDim>> shape;
};

/// AttributeProto.AttributeType.
enum class OnnxAttributeType : std::int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kType = 13,
  kTypes = 14,
};

struct OnnxAttribute {
  std::string_view name;
  OnnxAttributeType type =
      OnnxAttributeType::kUndefined;  ///< as told, or by what there is where it is not told
  float number = 0;
  std::int64_t integer = 0;
  std::string_view text;
  WireExtent tensor;
  WireExtent graph;
  std::vector<float> numbers;
  std::vector<std::int64_t> integers;
  std::vector<std::string_view> texts;
};

struct OnnxEntry {
  std::string_view key, value;
};

struct OnnxNode {
  std::string_view name, op, domain;
  std::vector<std::string_view> inputs, outputs;
  std::vector<OnnxAttribute> attributes;
};

struct OnnxAnnotation {
  std::string_view tensor;
  std::vector<OnnxEntry> entries;
};

struct OnnxGraph {
  std::string_view name;
  std::vector<OnnxNode> nodes;
  std::vector<WireExtent> initializers;
  std::vector<WireExtent> sparse_initializers;
  std::vector<OnnxValueInfo> inputs, outputs, values;
  std::vector<OnnxAnnotation> annotations;
};

struct OnnxOpset {
  std::string_view domain;
  std::int64_t version = 0;
};

struct OnnxModel {
  std::vector<OnnxOpset> opsets;
  OnnxGraph graph;
  std::vector<OnnxEntry> metadata;
  std::size_t functions = 0;  ///< that the model defines
  bool has_training = false;
};

/// Texts point into the file. A Failure says which byte is damaged, and where there is no graph or are two.
Result<OnnxModel> parse_onnx_model(std::span<const std::byte> file);

/// Reads a graph within an attribute of the same file.
Result<OnnxGraph> parse_onnx_graph(std::span<const std::byte> file, const WireExtent& message);

}  // namespace crumb
