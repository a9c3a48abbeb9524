#include "formats/onnx/onnx_weights.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/text.h"
#include "formats/onnx/tensor_proto.h"
#include "formats/onnx/wire.h"

namespace crumb {
namespace {

constexpr int kDeepestGraph = 32;              // If and Loop inside one another
constexpr std::size_t kMostEntries = 250'000;  // tensors and skipped ones, some 300 bytes each

/// Walks a model. A step that fails keeps the failure and answers false.
class Lister {
 public:
  explicit Lister(std::span<const std::byte> file) : file_(file) {}

  Result<TensorListing> list();

 private:
  bool fail(const Failure& failure) {
    failure_ = failure.message;
    return false;
  }
  bool ended(const WireReader& reader) { return reader.status().ok() || fail(reader.status().failure()); }
  bool room();

  /// A graph at this depth: 0 is the main one, whose initializers are the weights.
  bool graph(const WireExtent& message, int depth);
  bool initializer(const WireExtent& message, int depth);
  bool sparse(const WireExtent& message);
  bool node(const WireExtent& message, int depth);
  bool attribute(const WireExtent& message, int depth, bool of_constant, std::string_view output);
  bool function(const WireExtent& message);
  bool skip(const WireExtent& tensor, std::string_view name, const std::string& what);
  bool check_names();

  std::span<const std::byte> file_;
  TensorListing listing_;
  std::string failure_;
};

bool Lister::room() {
  if (listing_.tensors.size() + listing_.skipped.size() < kMostEntries) return true;
  return fail({"it holds more than " + std::to_string(kMostEntries) + " tensors"});
}

/// Reports a tensor with two axes or more; small constants are no weights.
bool Lister::skip(const WireExtent& message, std::string_view name, const std::string& what) {
  const Result<OnnxTensor> tensor = parse_onnx_tensor(file_, message);
  if (!tensor.ok()) return fail(tensor.failure());
  if (tensor.value().dims.size() < 2) return true;
  if (name.empty()) name = tensor.value().name;
  listing_.skipped.push_back(
      {std::string(name.substr(0, kOnnxLongestText)), what + " " + shape_text(tensor.value().dims)});
  return room();
}

bool Lister::initializer(const WireExtent& message, int depth) {
  if (depth > 0) return skip(message, "", "an initializer of a subgraph");
  const Result<OnnxTensor> parsed = parse_onnx_tensor(file_, message);
  if (!parsed.ok()) return fail(parsed.failure());
  const OnnxTensor& tensor = parsed.value();
  if (tensor.name.empty())
    return fail({"the initializer at byte " + std::to_string(message.begin) + " has no name"});
  Result<std::optional<StoredTensor>> placed = place_onnx_tensor(file_, tensor);
  if (!placed.ok()) return fail(placed.failure());
  if (placed.value()) {
    listing_.tensors.push_back(std::move(*placed.value()));
  } else {
    const std::optional<std::string_view> type = onnx_type_name(tensor.data_type);
    listing_.skipped.push_back({std::string(tensor.name),
                                (type ? "a tensor of type " + std::string(*type)
                                      : "a tensor of the unknown type " + std::to_string(tensor.data_type)) +
                                    " " + shape_text(tensor.dims)});
  }
  return room();
}

bool Lister::sparse(const WireExtent& message) {
  std::string_view name;
  WireReader reader(file_, message);
  for (WireField field; reader.next(field);) {
    if (!field.is(1)) continue;
    const Result<OnnxTensor> values = parse_onnx_tensor(file_, field.payload);
    if (!values.ok()) return fail(values.failure());
    name = values.value().name;
  }
  listing_.skipped.push_back({std::string(name), "a sparse tensor"});
  return ended(reader) && room();
}

bool Lister::attribute(const WireExtent& message, int depth, bool of_constant, std::string_view output) {
  WireReader reader(file_, message);
  for (WireField field; reader.next(field);) {
    if (field.is(6) || field.is(11)) {
      if (!graph(field.payload, depth + 1)) return false;
    } else if (of_constant && field.is(5)) {
      if (!skip(field.payload, output, "a Constant node's tensor")) return false;
    } else if (of_constant && field.is(22)) {
      listing_.skipped.push_back(
          {std::string(output.substr(0, kOnnxLongestText)), "a Constant node's sparse tensor"});
      if (!room()) return false;
    }
  }
  return ended(reader);
}

bool Lister::node(const WireExtent& message, int depth) {
  std::string_view type;
  std::string_view output;
  WireReader head(file_, message);
  for (WireField field; head.next(field);) {
    if (field.is(4)) type = wire_text(file_, field.payload);
    if (field.is(2) && output.empty()) output = wire_text(file_, field.payload);
  }
  if (!ended(head)) return false;
  WireReader body(file_, message);
  for (WireField field; body.next(field);) {
    if (field.is(5) && !attribute(field.payload, depth, type == "Constant", output)) return false;
  }
  return true;
}

bool Lister::graph(const WireExtent& message, int depth) {
  if (depth > kDeepestGraph)
    return fail({"graphs lie more than " + std::to_string(kDeepestGraph) + " deep in one another at byte " +
                 std::to_string(message.begin)});
  WireReader reader(file_, message);
  for (WireField field; reader.next(field);) {
    if (field.is(1) && !node(field.payload, depth)) return false;
    if (field.is(5) && !initializer(field.payload, depth)) return false;
    if (field.is(15) && !sparse(field.payload)) return false;
  }
  return ended(reader);
}

bool Lister::function(const WireExtent& message) {
  WireReader reader(file_, message);
  for (WireField field; reader.next(field);) {
    if (field.is(7) && !node(field.payload, 1)) return false;
  }
  return ended(reader);
}

bool Lister::check_names() {
  std::vector<std::string_view> names;
  names.reserve(listing_.tensors.size());
  for (const StoredTensor& tensor : listing_.tensors) names.emplace_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  return twice == names.end() || fail({"two initializers have the name " + quote_text(*twice)});
}

Result<TensorListing> Lister::list() {
  int graphs = 0;
  bool training = false;
  WireReader reader(file_, {0, file_.size()});
  bool going = true;
  for (WireField field; going && reader.next(field);) {
    if (field.is(7)) {
      going = ++graphs == 1 ? graph(field.payload, 0) : fail({"it has two graphs, expected one"});
    } else if (field.is(25)) {
      going = function(field.payload);
    } else if (field.is(20)) {
      training = true;
    }
  }
  if (!going || !ended(reader) || !check_names()) return Failure{failure_};
  if (graphs == 0) return Failure{"this is no ONNX model: it holds no graph"};
  if (training) listing_.skipped.push_back({"training_info", "graphs for training"});
  return std::move(listing_);
}

/// The wire type that a field of ModelProto has; nothing for fields that it does not have.
std::optional<WireType> model_field(std::uint32_t number) {
  switch (number) {
    case 1:
    case 5: return WireType::kVarint;
    case 2:
    case 3:
    case 4:
    case 6:
    case 7:
    case 8:
    case 14:
    case 20:
    case 25:
    case 26: return WireType::kBytes;
    default: return std::nullopt;
  }
}

bool is_graph_field(std::uint32_t number) {
  return number == 1 || number == 2 || number == 5 || (number >= 10 && number <= 16);
}

bool looks_like_graph(std::span<const std::byte> file, const WireExtent& message) {
  if (message.size == 0) return false;
  WireReader reader(file, message);
  for (WireField field; reader.next(field);) {
    if (!is_graph_field(field.number) || field.type != WireType::kBytes) return false;
  }
  return reader.status().ok();
}

}  // namespace

bool looks_like_onnx(std::span<const std::byte> file) {
  WireReader reader(file, {0, file.size()});
  for (WireField field; reader.next(field);) {
    if (model_field(field.number) != field.type) return false;
    if (field.number == 7) return looks_like_graph(file, field.payload);
  }
  return false;
}

Result<TensorListing> list_onnx_weights(std::span<const std::byte> file) { return Lister(file).list(); }

}  // namespace crumb
