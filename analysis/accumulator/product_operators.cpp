#include "analysis/accumulator/product_operators.h"

#include <algorithm>
#include <array>
#include <set>

namespace crumb::analysis {
namespace {

constexpr std::string_view kPreview = "ai.onnx.preview";
constexpr const char* kHidden =
    "its hidden state has no quantizer: it is computed inside of the node (the pass unroll-recurrent makes "
    "cells of it)";
constexpr const char* kSoftmax =
    "the softmax inside of the node, whose results it multiplies, has no quantizer";
constexpr const char* kState = "its state is another operand, which is computed inside of the node";

/// A node's rules stand next to each other.
constexpr std::array kRules = {
    ProductRule{graph::kOnnxDomain, "MatMul"},
    ProductRule{.domain = graph::kOnnxDomain, .op = "Gemm", .bias = 2},
    ProductRule{.domain = graph::kOnnxDomain, .op = "Conv", .terms = Terms::kConvolution, .bias = 2},
    ProductRule{.domain = graph::kChannelsLastDomain, .op = "Conv", .terms = Terms::kConvolution, .bias = 2},
    ProductRule{.domain = graph::kOnnxDomain, .op = "ConvTranspose", .terms = Terms::kTransposed, .bias = 2},
    ProductRule{
        .domain = graph::kOnnxDomain, .op = "MatMulInteger", .a_zero = 2, .b_zero = 3, .integers = true},
    ProductRule{.domain = graph::kOnnxDomain,
                .op = "ConvInteger",
                .terms = Terms::kConvolution,
                .a_zero = 2,
                .b_zero = 3,
                .integers = true},
    ProductRule{.domain = graph::kOnnxDomain,
                .op = "QLinearMatMul",
                .b = 3,
                .a_zero = 2,
                .b_zero = 5,
                .integers = true,
                .requantizes = true},
    ProductRule{.domain = graph::kOnnxDomain,
                .op = "QLinearConv",
                .terms = Terms::kConvolution,
                .b = 3,
                .a_zero = 2,
                .b_zero = 5,
                .bias = 8,
                .integers = true,
                .requantizes = true},
    ProductRule{.domain = graph::kQonnxDomain, .op = "XnorPopcountMatMul", .integers = true, .matches = true},
    ProductRule{.domain = graph::kOnnxDomain, .op = "Einsum", .terms = Terms::kEquation},
    ProductRule{
        .domain = graph::kOnnxDomain, .op = "LSTM", .operands = "X W", .terms = Terms::kGates, .bias = 3},
    ProductRule{.domain = graph::kOnnxDomain,
                .op = "LSTM",
                .operands = "H R",
                .a = kNoInput,
                .b = 2,
                .reason = kHidden},
    ProductRule{
        .domain = graph::kOnnxDomain, .op = "GRU", .operands = "X W", .terms = Terms::kGates, .bias = 3},
    ProductRule{.domain = graph::kOnnxDomain,
                .op = "GRU",
                .operands = "H R",
                .a = kNoInput,
                .b = 2,
                .reason = kHidden},
    ProductRule{
        .domain = graph::kOnnxDomain, .op = "RNN", .operands = "X W", .terms = Terms::kGates, .bias = 3},
    ProductRule{.domain = graph::kOnnxDomain,
                .op = "RNN",
                .operands = "H R",
                .a = kNoInput,
                .b = 2,
                .reason = kHidden},
    ProductRule{.domain = graph::kOnnxDomain, .op = "Attention", .operands = "Q K", .terms = Terms::kHeads},
    ProductRule{.domain = graph::kOnnxDomain,
                .op = "Attention",
                .operands = "P V",
                .a = kNoInput,
                .b = 2,
                .reason = kSoftmax},
    ProductRule{.domain = kPreview, .op = "FlexAttention", .operands = "Q K", .terms = Terms::kHeads},
    ProductRule{.domain = kPreview,
                .op = "FlexAttention",
                .operands = "P V",
                .a = kNoInput,
                .b = 2,
                .reason = kSoftmax},
    ProductRule{.domain = graph::kOnnxDomain, .op = "LinearAttention", .reason = kState},
    ProductRule{.domain = graph::kOnnxDomain, .op = "CausalConvWithState", .reason = kState},
    ProductRule{.domain = graph::kOnnxDomain,
                .op = "DeformConv",
                .reason = "it multiplies values between the elements of its input, which are on no grid"},
    ProductRule{.domain = graph::kOnnxDomain, .op = "ReduceSumSquare", .terms = Terms::kSquares, .b = 0},
    ProductRule{.domain = graph::kOnnxDomain, .op = "ReduceL2", .terms = Terms::kSquares, .b = 0},
};

/// Operators of ONNX that add up no products of two operands' elements. Some add up values (ReduceSum, means, average
/// pools): adders of their own, no multiplications. Some compute in floats whatever they are given (normalizations,
/// softmax, interpolation, Fourier transforms): no register of theirs holds integers.
constexpr std::array kWithoutProducts = {"Abs",
                                         "Acos",
                                         "Acosh",
                                         "Add",
                                         "AffineGrid",
                                         "And",
                                         "ArgMax",
                                         "ArgMin",
                                         "Asin",
                                         "Asinh",
                                         "Atan",
                                         "Atanh",
                                         "AveragePool",
                                         "BatchNormalization",
                                         "Bernoulli",
                                         "BitCast",
                                         "BitShift",
                                         "BitwiseAnd",
                                         "BitwiseNot",
                                         "BitwiseOr",
                                         "BitwiseXor",
                                         "BlackmanWindow",
                                         "Cast",
                                         "CastLike",
                                         "Ceil",
                                         "Celu",
                                         "CenterCropPad",
                                         "Clip",
                                         "Col2Im",
                                         "Compress",
                                         "Concat",
                                         "ConcatFromSequence",
                                         "Constant",
                                         "ConstantOfShape",
                                         "Cos",
                                         "Cosh",
                                         "CumProd",
                                         "CumSum",
                                         "DFT",
                                         "DepthToSpace",
                                         "DequantizeLinear",
                                         "Det",
                                         "Div",
                                         "Dropout",
                                         "DynamicQuantizeLinear",
                                         "Elu",
                                         "Equal",
                                         "Erf",
                                         "Exp",
                                         "Expand",
                                         "EyeLike",
                                         "Flatten",
                                         "Floor",
                                         "Gather",
                                         "GatherElements",
                                         "GatherND",
                                         "Gelu",
                                         "GlobalAveragePool",
                                         "GlobalLpPool",
                                         "GlobalMaxPool",
                                         "Greater",
                                         "GreaterOrEqual",
                                         "GridSample",
                                         "GroupNormalization",
                                         "HammingWindow",
                                         "HannWindow",
                                         "HardSigmoid",
                                         "HardSwish",
                                         "Hardmax",
                                         "Identity",
                                         "ImageDecoder",
                                         "InstanceNormalization",
                                         "IsInf",
                                         "IsNaN",
                                         "LRN",
                                         "LayerNormalization",
                                         "LeakyRelu",
                                         "Less",
                                         "LessOrEqual",
                                         "Log",
                                         "LogSoftmax",
                                         "LpNormalization",
                                         "LpPool",
                                         "Max",
                                         "MaxPool",
                                         "MaxRoiPool",
                                         "MaxUnpool",
                                         "Mean",
                                         "MeanVarianceNormalization",
                                         "MelWeightMatrix",
                                         "Min",
                                         "Mish",
                                         "Mod",
                                         "Mul",
                                         "Multinomial",
                                         "Neg",
                                         "NegativeLogLikelihoodLoss",
                                         "NonMaxSuppression",
                                         "NonZero",
                                         "Not",
                                         "OneHot",
                                         "Optional",
                                         "OptionalGetElement",
                                         "OptionalHasElement",
                                         "Or",
                                         "PRelu",
                                         "Pad",
                                         "Pow",
                                         "QuantizeLinear",
                                         "RMSNormalization",
                                         "RandomNormal",
                                         "RandomNormalLike",
                                         "RandomUniform",
                                         "RandomUniformLike",
                                         "Range",
                                         "Reciprocal",
                                         "ReduceL1",
                                         "ReduceLogSum",
                                         "ReduceLogSumExp",
                                         "ReduceMax",
                                         "ReduceMean",
                                         "ReduceMin",
                                         "ReduceProd",
                                         "ReduceSum",
                                         "RegexFullMatch",
                                         "Relu",
                                         "Reshape",
                                         "Resize",
                                         "ReverseSequence",
                                         "RoiAlign",
                                         "RotaryEmbedding",
                                         "Round",
                                         "STFT",
                                         "Scatter",
                                         "ScatterElements",
                                         "ScatterND",
                                         "Selu",
                                         "SequenceAt",
                                         "SequenceConstruct",
                                         "SequenceEmpty",
                                         "SequenceErase",
                                         "SequenceInsert",
                                         "SequenceLength",
                                         "Shape",
                                         "Shrink",
                                         "Sigmoid",
                                         "Sign",
                                         "Sin",
                                         "Sinh",
                                         "Size",
                                         "Slice",
                                         "Softmax",
                                         "SoftmaxCrossEntropyLoss",
                                         "Softplus",
                                         "Softsign",
                                         "SpaceToDepth",
                                         "Split",
                                         "SplitToSequence",
                                         "Sqrt",
                                         "Squeeze",
                                         "StringConcat",
                                         "StringNormalizer",
                                         "StringSplit",
                                         "Sub",
                                         "Sum",
                                         "Swish",
                                         "Tan",
                                         "Tanh",
                                         "TensorScatter",
                                         "TfIdfVectorizer",
                                         "ThresholdedRelu",
                                         "Tile",
                                         "TopK",
                                         "Transpose",
                                         "Trilu",
                                         "Unique",
                                         "Unsqueeze",
                                         "Upsample",
                                         "Where",
                                         "Xor"};

constexpr std::array kQonnxWithoutProducts = {"Quant",       "IntQuant",       "BipolarQuant",
                                              "FloatQuant",  "Trunc",          "Im2Col",
                                              "MaxPoolNHWC", "QuantAvgPool2d", "MultiThreshold"};

constexpr std::array kChannelsLastWithoutProducts = {"MaxPool", "BatchNormalization"};

/// Coefficients of ai.onnx.ml's classifiers and regressors are floats in attributes; the rest of it looks up and selects.
constexpr std::string_view kMachineLearning = "ai.onnx.ml";
constexpr std::array kMachineLearningWithoutProducts = {"ArrayFeatureExtractor",
                                                        "Binarizer",
                                                        "CastMap",
                                                        "CategoryMapper",
                                                        "DictVectorizer",
                                                        "FeatureVectorizer",
                                                        "Imputer",
                                                        "LabelEncoder",
                                                        "LinearClassifier",
                                                        "LinearRegressor",
                                                        "Normalizer",
                                                        "OneHotEncoder",
                                                        "SVMClassifier",
                                                        "SVMRegressor",
                                                        "Scaler",
                                                        "TreeEnsemble",
                                                        "TreeEnsembleClassifier",
                                                        "TreeEnsembleRegressor",
                                                        "ZipMap"};

bool adds_no_products(const graph::Node& node) {
  const auto is_among = [&](const auto& names) {
    return std::ranges::find(names, node.op, [](const char* name) { return std::string_view(name); }) !=
           names.end();
  };
  if (node.domain == graph::kOnnxDomain) return is_among(kWithoutProducts);
  if (node.domain == graph::kQonnxDomain) return is_among(kQonnxWithoutProducts);
  if (node.domain == graph::kChannelsLastDomain) return is_among(kChannelsLastWithoutProducts);
  return node.domain == kMachineLearning && is_among(kMachineLearningWithoutProducts);
}

bool is_of(const ProductRule& rule, const graph::Node& node) { return node.is(rule.op, rule.domain); }

/// Labels of one operand, without blanks and with one '.' for an ellipsis.
std::string labels_of(std::string_view text) {
  std::string labels;
  for (const char c : text) {
    if (c != ' ' && !(c == '.' && labels.ends_with('.'))) labels += c;
  }
  return labels;
}

/// What an equation without "->" leaves: an ellipsis, and the labels that stand once, in alphabetical order.
std::string implied_result(const std::string& operands) {
  std::string out;
  for (const char c : std::set<char>(operands.begin(), operands.end())) {
    if (c == '.' || std::ranges::count(operands, c) == 1) out += c;
  }
  return out;  // '.' comes before the letters
}

}  // namespace

std::span<const ProductRule> product_rules(const graph::Node& node) {
  const auto of = [&](const ProductRule& rule) { return is_of(rule, node); };
  const auto first = std::ranges::find_if(kRules, of);
  return {first, std::find_if_not(first, kRules.end(), of)};
}

std::optional<std::string> why_unknown_operator(const graph::Node& node) {
  if (!product_rules(node).empty() || adds_no_products(node)) return {};
  if (is_opaque(node)) return "what the graph inside of it adds up is not counted";
  return "what this operator adds up is not known";
}

std::vector<bool> Contraction::summed_axes(const std::string& labels, std::size_t rank) const {
  std::vector<bool> axes;
  for (const char label : labels) {
    const std::size_t count = label == '.' ? rank - std::min(rank, labels.size() - 1) : 1;
    axes.insert(axes.end(), count, summed.find(label) != std::string::npos);
  }
  axes.resize(rank, false);
  return axes;
}

Result<Contraction> contraction_of(const graph::Node& node) {
  const std::string equation = node.text_or("equation", "");
  const std::size_t arrow = equation.find("->"), comma = equation.find(',');
  const std::string operands = equation.substr(0, arrow);
  if (node.inputs.size() != 2 || std::ranges::count(operands, ',') != 1)
    return Failure{"its equation '" + equation + "' has other than two operands"};
  Contraction made{.a = labels_of(operands.substr(0, comma)),
                   .b = labels_of(operands.substr(comma + 1)),
                   .out = {},
                   .summed = {}};
  made.out =
      arrow == std::string::npos ? implied_result(made.a + made.b) : labels_of(equation.substr(arrow + 2));
  for (const std::string* labels : {&made.a, &made.b}) {
    for (const char label : *labels) {
      if (std::ranges::count(*labels, label) > 1)
        return Failure{"its equation '" + equation + "' takes a diagonal of an operand"};
      if (made.out.find(label) != std::string::npos || made.summed.find(label) != std::string::npos) continue;
      if (made.a.find(label) == std::string::npos || made.b.find(label) == std::string::npos || label == '.')
        return Failure{"its equation '" + equation + "' sums one operand alone over '" +
                       std::string(1, label) + "'"};
      made.summed += label;
    }
  }
  return made;
}

}  // namespace crumb::analysis
