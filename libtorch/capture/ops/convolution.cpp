// Convolutions.
#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

Ints twice(const Ints& values) {
  Ints both = values;
  both.insert(both.end(), values.begin(), values.end());
  return both;
}

/// x [N, C, ...] or [C, ...], weight [O, C / groups, ...] or, transposed, [C, O / groups, ...].
void convolve(Op& op, const char* input, Ints padding, bool transposed, Attributes attributes) {
  const Seen x = op.seen(input), weight = op.seen("weight");
  const auto spatial = static_cast<std::size_t>(weight.rank() - 2);
  Ints kernel;
  for (std::size_t i = 0; i < spatial; ++i) kernel.push_back(weight.sizes[i + 2].first);
  attributes["kernel_shape"] = kernel;
  attributes["strides"] = op.ints("stride", spatial);
  attributes["dilations"] = op.ints("dilation", spatial);
  attributes["group"] = op.integer("groups");
  if (padding.size() == 1) padding.resize(spatial, padding[0]);
  if (!padding.empty()) attributes["pads"] = twice(padding);
  if (transposed) {
    const Ints more = op.ints("output_padding", spatial);
    if (more != Ints(spatial, 0)) attributes["output_padding"] = more;
  }
  const bool alone = x.rank() == weight.rank() - 1;
  Names inputs = {alone ? op.net.unsqueeze(op.tensor(input), {0}) : op.tensor(input), op.tensor("weight")};
  if (op.has("bias")) inputs.push_back(op.tensor("bias"));
  const std::string y = op.net.add(transposed ? "ConvTranspose" : "Conv", inputs, attributes);
  op.set(alone ? op.net.squeeze(y, {0}) : y);
}

void convolution(Op& op) { convolve(op, "input", op.ints("padding"), op.flag("transposed"), {}); }

/// The padding is numbers, or the word "same" or "valid".
void convolution_nd(Op& op) {
  Ints padding;
  try {
    padding = op.ints("padding");
  } catch (const c10::Error&) {
    const std::string word = op.text("padding");
    if (word != "same" && word != "valid") op.fail("padding " + word);
    return convolve(op, "input", {}, false,
                    {{"auto_pad", std::string(word == "same" ? "SAME_UPPER" : "VALID")}});
  }
  convolve(op, "input", padding, false, {});
}

void convolution_transposed(Op& op) { convolve(op, "input", op.ints("padding"), true, {}); }

/// Padding so that the result is as large: what is odd goes behind, as in SAME_UPPER.
void convolution_mode(Op& op) {
  const std::string word = op.text("padding");
  const Seen weight = op.seen("weight");
  if (word == "valid") return convolve(op, "input", {}, false, {});
  const auto spatial = static_cast<std::size_t>(weight.rank() - 2);
  const Ints dilation = op.ints("dilation", spatial);
  Ints pads(2 * spatial);
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t total = dilation[i] * (weight.sizes[i + 2].first - 1);
    pads[i] = total / 2;
    pads[spatial + i] = total - total / 2;
  }
  convolve(op, "input", {}, false, {{"pads", pads}});
}

constexpr ConversionRow kConvolutionRows[] = {
    {"aten::_convolution", convolution},
    {"aten::convolution", convolution},
    {"aten::conv1d", convolution_nd},
    {"aten::conv2d", convolution_nd},
    {"aten::conv3d", convolution_nd},
    {"aten::conv_transpose1d", convolution_transposed},
    {"aten::conv_transpose2d", convolution_transposed},
    {"aten::conv_transpose3d", convolution_transposed},
    {"aten::_convolution_mode", convolution_mode},
};

}  // namespace

std::span<const ConversionRow> convolution_conversions() { return kConvolutionRows; }

}  // namespace crumb::libtorch
