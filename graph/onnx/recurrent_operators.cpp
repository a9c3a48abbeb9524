#include "graph/onnx/recurrent_operators.h"

#include "graph/onnx/sizes_of_values.h"

namespace crumb::graph {
namespace {
namespace recurrent_bodies {

constexpr std::size_t kInputs = 8;  // of LSTM; scales and zero points follow

/// The matrix [directions, terms, gates] as LSTM has it, [directions, gates, terms]. Scales are
/// [directions] or [directions, gates]; "" where that is not known.
std::string matrix(NodeWriter& writer, const std::string& codes, std::size_t scale) {
  const Node& node = writer.node();
  if (!node.has_input(scale)) return "";
  const std::string scales = node.inputs[scale], zeros = writer.input(scale + 1);
  const auto rank = writer.rank_of(scales);
  const auto directions = known_size(writer, scales, 0);
  if (!rank || *rank < 1 || *rank > 2 || !directions) return "";
  std::string floats;
  if (*rank == 1) {
    floats = writer.dequantized(codes, scales, zeros, 0);
  } else if (*directions == 1) {
    const auto flat = [&](const std::string& value) {
      const Tensor* held = value.empty() ? nullptr : writer.graph().constant(value);
      if (held) return writer.constant("flat", held->reshaped({held->size()}));
      return value.empty() ? value : writer.add("Reshape", {value, list_of(writer, "flat", {-1})});
    };
    floats = writer.dequantized(codes, flat(scales), flat(zeros), 2);
  } else {  // DequantizeLinear has scales along one axis
    const auto cast = [&](const std::string& value) {
      return writer.add("Cast", {value}, {{"to", static_cast<std::int64_t>(ElementType::kFloat)}});
    };
    floats = cast(codes);
    if (!zeros.empty()) floats = writer.add("Sub", {floats, unsqueezed(writer, cast(zeros), {1})});
    floats = writer.add("Mul", {floats, unsqueezed(writer, scales, {1})});
  }
  return writer.add("Transpose", {floats}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
}

}  // namespace recurrent_bodies
}  // namespace

bool write_dynamic_quantized_lstm(NodeWriter& writer) {
  const Node& node = writer.node();
  for (const std::size_t i : {0, 1, 2})
    if (!node.has_input(i)) return false;
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < recurrent_bodies::kInputs; ++i) inputs.push_back(writer.input(i));
  inputs[1] = recurrent_bodies::matrix(writer, node.inputs[1], 8);
  inputs[2] = recurrent_bodies::matrix(writer, node.inputs[2], 10);
  if (inputs[1].empty() || inputs[2].empty()) return false;
  const auto made = writer.add_of_several("LSTM", inputs, node.outputs.size(), node.attributes);
  for (std::size_t i = 1; i < node.outputs.size(); ++i)
    if (node.has_output(i)) writer.rename(made[i], node.outputs[i]);
  return true;
}

}  // namespace crumb::graph
