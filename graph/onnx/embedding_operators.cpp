#include "graph/onnx/embedding_operators.h"

#include "graph/onnx/sizes_of_values.h"

namespace crumb::graph {
namespace {
namespace embedding_bodies {

constexpr std::int64_t kLayerNormSet = 17, kAxesAsInputSet = 13;
constexpr float kUsualEpsilon = 1e-12F;

/// What both operators take; "" where there is none.
struct Embedding {
  std::string words, positions, segments;  ///< tables [rows, width]
  std::string gain, bias;                  ///< of the norm, [width]
  std::string mask, position_ids;
};

/// Rows of the table for positions 0, 1, ...: the first ones, or those of the node's own ids.
std::string position_rows(NodeWriter& writer, const Embedding& in, const std::string& ids) {
  if (!in.position_ids.empty()) return writer.add("Gather", {in.positions, in.position_ids});
  return writer.add("Slice",
                    {in.positions, list_of(writer, "first", {0}), size_list_of(writer, ids, 1),
                     list_of(writer, "axis", {0})},
                    {}, 10);
}

std::string tokens_seen(NodeWriter& writer, const std::string& mask, const std::string& ids) {
  const std::int64_t none = 0, one = 1;
  if (mask.empty())
    return writer.add("ConstantOfShape", {size_list_of(writer, ids, 0)},
                      {{"value", Tensor::ints(ElementType::kInt32, {1}, {&none, 1})}}, 9);
  const std::string seen = writer.add(
      "Equal", {mask, writer.constant("seen", Tensor::ints(ElementType::kInt32, {}, {&one, 1}))}, {}, 11);
  const std::string counted =
      writer.add("Cast", {seen}, {{"to", static_cast<std::int64_t>(ElementType::kInt32)}});
  return writer.add("ReduceSum", {counted, list_of(writer, "axis", {1})}, {{"keepdims", std::int64_t{0}}},
                    kAxesAsInputSet);
}

bool embed(NodeWriter& writer, const Embedding& in) {
  const Node& node = writer.node();
  const std::string ids = node.inputs[0];
  std::string sum =
      writer.add("Add", {writer.add("Gather", {in.words, ids}), position_rows(writer, in, ids)});
  if (!in.segments.empty() && node.has_input(1))
    sum = writer.add("Add", {sum, writer.add("Gather", {in.segments, node.inputs[1]})});
  if (node.has_output(2)) sum = writer.rename(sum, node.outputs[2]);
  if (node.has_output(1)) writer.rename(tokens_seen(writer, in.mask, ids), node.outputs[1]);
  writer.add("LayerNormalization", {sum, in.gain, in.bias},
             {{"axis", std::int64_t{-1}}, {"epsilon", node.float_or("epsilon", kUsualEpsilon)}},
             kLayerNormSet);
  return true;
}

}  // namespace embedding_bodies
}  // namespace

bool write_embedding_norm(NodeWriter& writer) {
  const Node& node = writer.node();
  for (const std::size_t i : {0, 2, 3, 5, 6})
    if (!node.has_input(i)) return false;
  if (!is_or_may_be_float32(writer, node.inputs[2])) return false;
  return embedding_bodies::embed(writer, {.words = node.inputs[2],
                                          .positions = node.inputs[3],
                                          .segments = writer.input(4),
                                          .gain = node.inputs[5],
                                          .bias = node.inputs[6],
                                          .mask = writer.input(7),
                                          .position_ids = writer.input(8)});
}

bool write_quantized_embedding_norm(NodeWriter& writer) {
  const Node& node = writer.node();
  for (const std::size_t i : {0, 2, 3, 5, 6, 8, 9, 11, 12})
    if (!node.has_input(i)) return false;
  if (!is_or_may_be_float32(writer, node.inputs[8])) return false;
  const auto floats = [&](std::size_t codes, std::size_t scale) {  // zero points lie five behind scales
    return node.has_input(codes)
               ? writer.dequantized(node.inputs[codes], writer.input(scale), writer.input(scale + 5))
               : std::string();
  };
  return embedding_bodies::embed(writer, {.words = floats(2, 8),
                                          .positions = floats(3, 9),
                                          .segments = floats(4, 10),
                                          .gain = floats(5, 11),
                                          .bias = floats(6, 12),
                                          .mask = writer.input(7),
                                          .position_ids = ""});
}

}  // namespace crumb::graph
