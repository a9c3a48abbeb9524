#include "graph/operator_traits.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "graph/choose.h"

namespace crumb::graph {
namespace {

using namespace trait;

constexpr std::uint32_t kNone = 0;
constexpr std::string_view kMachineLearning = "ai.onnx.ml", kPreview = "ai.onnx.preview";

constexpr const char* kHidden =
    "its hidden state has no quantizer: it is computed inside of the node (the pass unroll-recurrent makes "
    "cells of it)";
constexpr const char* kSoftmax =
    "the softmax inside of the node, whose results it multiplies, has no quantizer";
constexpr const char* kState = "its state is another operand, which is computed inside of the node";

constexpr ProductRule kMatrixProduct[] = {{}};
constexpr ProductRule kGemmProduct[] = {{.bias = 2}};
constexpr ProductRule kConvolution[] = {{.terms = Terms::kConvolution, .bias = 2}};
constexpr ProductRule kTransposedConvolution[] = {{.terms = Terms::kTransposed, .bias = 2}};
constexpr ProductRule kIntegerMatrixProduct[] = {{.a_zero = 2, .b_zero = 3, .integers = true}};
constexpr ProductRule kIntegerConvolution[] = {
    {.terms = Terms::kConvolution, .a_zero = 2, .b_zero = 3, .integers = true}};
constexpr ProductRule kQLinearMatrixProduct[] = {
    {.b = 3, .a_zero = 2, .b_zero = 5, .integers = true, .requantizes = true}};
constexpr ProductRule kQLinearConvolution[] = {{.terms = Terms::kConvolution,
                                                .b = 3,
                                                .a_zero = 2,
                                                .b_zero = 5,
                                                .bias = 8,
                                                .integers = true,
                                                .requantizes = true}};
constexpr ProductRule kXnorProduct[] = {{.integers = true, .matches = true}};
constexpr ProductRule kEinsum[] = {{.terms = Terms::kEquation}};
constexpr ProductRule kGates[] = {{.operands = "X W", .terms = Terms::kGates, .bias = 3},
                                  {.operands = "H R", .a = kNoInput, .b = 2, .reason = kHidden}};
constexpr ProductRule kAttention[] = {{.operands = "Q K", .terms = Terms::kHeads},
                                      {.operands = "P V", .a = kNoInput, .b = 2, .reason = kSoftmax}};
constexpr ProductRule kStateProduct[] = {{.reason = kState}};
constexpr ProductRule kDeformedConvolution[] = {
    {.reason = "it multiplies values between the elements of its input, which are on no grid"}};
constexpr ProductRule kSquares[] = {{.terms = Terms::kSquares, .b = 0}};

/// ai.onnx.ml's classifiers and regressors have float coefficients in attributes; its other operators look up
/// and select.
constexpr OperatorTraits kRows[] = {
    {"", "Abs", kOfOne | kNonNegative | kNoProducts, RangeForm::kMagnitude},
    {"", "Acos", kNoProducts},
    {"", "Acosh", kNoProducts},
    {"", "Add", kOfSeveral | kAdds | kTypeOfOperands | kKeepsNonNegative | kNoProducts | kArithmetic,
     RangeForm::kAdded},
    {"", "AffineGrid", kUncounted | kNoProducts},
    {"", "And", kNoProducts},
    {"", "ArgMax", kNoProducts},
    {"", "ArgMin", kNoProducts},
    {"", "Asin", kNoProducts},
    {"", "Asinh", kNoProducts},
    {"", "Atan", kNoProducts},
    {"", "Atanh", kNoProducts},
    {"", "Attention", kNone, RangeForm::kUnknown, kAttention},
    {"", "AveragePool", kScalesChannels | kKeepsNonNegative | kNoProducts, RangeForm::kAveraged},
    {"", "BatchNormalization", kNoProducts},
    {"", "Bernoulli", kNoProducts},
    {"", "BitCast", kNoProducts},
    {"", "BitShift", kNoProducts},
    {"", "BitwiseAnd", kNoProducts},
    {"", "BitwiseNot", kNoProducts},
    {"", "BitwiseOr", kNoProducts},
    {"", "BitwiseXor", kNoProducts},
    {"", "BlackmanWindow", kNoProducts},
    {"", "Cast", kOfOne | kKeepsNonNegative | kNoProducts, RangeForm::kCast},
    {"", "CastLike", kNoProducts},
    {"", "CausalConvWithState", kNone, RangeForm::kUnknown, kStateProduct},
    {"", "Ceil", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "Celu", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "CenterCropPad", kNoProducts},
    {"", "Clip", kOfOne | kKeepsType | kKeepsNonNegative | kNoProducts | kOneDataInput | kSteered,
     RangeForm::kClipped},
    {"", "Col2Im", kNoProducts},
    {"", "Compress", kNoProducts, RangeForm::kMoved},
    {"", "Concat", kJoins | kKeepsType | kKeepsNonNegative | kNoProducts | kHasAxis,
     RangeForm::kConcatenated},
    {"", "ConcatFromSequence", kNoProducts},
    {"", "Constant", kNoProducts, RangeForm::kConstantNode},
    {"", "ConstantOfShape", kNoProducts},
    {"", "Conv", kMultiplies | kTypeOfOperands | kKeepsNonNegative, RangeForm::kUnknown, kConvolution},
    {"", "ConvInteger", kNone, RangeForm::kUnknown, kIntegerConvolution},
    {"", "ConvTranspose", kMultiplies | kKeepsNonNegative, RangeForm::kUnknown, kTransposedConvolution},
    {"", "Cos", kNoProducts},
    {"", "Cosh", kNoProducts},
    {"", "CumProd", kKeepsNonNegative | kNoProducts},
    {"", "CumSum", kKeepsNonNegative | kNoProducts},
    {"", "DFT", kUncounted | kNoProducts},
    {"", "DeformConv", kUncounted, RangeForm::kUnknown, kDeformedConvolution},
    {"", "DepthToSpace", kMoves | kNoProducts, RangeForm::kMoved},
    {"", "DequantizeLinear", kNoProducts | kHasAxis | kOneDataInput | kSteered,
     RangeForm::kDequantizedLinearly},
    {"", "Det", kUncounted | kNoProducts},
    {"", "Div", kOfSeveral | kKeepsNonNegative | kNoProducts | kArithmetic, RangeForm::kDivided},
    {"", "Dropout", kScalesElements | kOfOne | kNoProducts | kOneDataInput, RangeForm::kDroppedOut},
    {"", "DynamicQuantizeLinear", kNoProducts, RangeForm::kQuantizedDynamically},
    {"", "Einsum", kMultiplies | kKeepsNonNegative, RangeForm::kUnknown, kEinsum},
    {"", "Elu", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "Equal", kNoProducts},
    {"", "Erf", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "Exp", kOfOne | kNonNegative | kNoProducts},
    {"", "Expand", kMoves | kKeepsType | kNoProducts | kIsItsInput, RangeForm::kMoved},
    {"", "EyeLike", kNoProducts},
    {"", "Flatten", kMoves | kReshapes | kKeepsType | kNoProducts | kIsItsInput, RangeForm::kMoved},
    {"", "Floor", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "GRU", kRecurrent, RangeForm::kUnknown, kGates},
    {"", "Gather", kPicks | kKeepsType | kNoProducts, RangeForm::kMoved},
    {"", "GatherElements", kKeepsType | kNoProducts, RangeForm::kMoved},
    {"", "GatherND", kKeepsType | kNoProducts, RangeForm::kMoved},
    {"", "Gelu", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "Gemm", kMultiplies | kTypeOfOperands | kOfCells | kKeepsNonNegative, RangeForm::kUnknown,
     kGemmProduct},
    {"", "GlobalAveragePool", kScalesChannels | kKeepsNonNegative | kNoProducts, RangeForm::kAveragedAll},
    {"", "GlobalLpPool", kScalesChannels | kNonNegative | kNoProducts},
    {"", "GlobalMaxPool", kScalesChannels | kMoves | kKeepsType | kNoProducts, RangeForm::kReducedToOne},
    {"", "Greater", kNoProducts},
    {"", "GreaterOrEqual", kNoProducts},
    {"", "GridSample", kUncounted | kNoProducts},
    {"", "GroupNormalization", kNoProducts},
    {"", "HammingWindow", kNoProducts},
    {"", "HannWindow", kNoProducts},
    {"", "HardSigmoid", kOfOne | kNonNegative | kNoProducts},
    {"", "HardSwish", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "Hardmax", kNoProducts},
    {"", "Identity", kScalesElements | kOfOne | kMoves | kKeepsType | kNoProducts, RangeForm::kMoved},
    {"", "If", kUncounted},
    {"", "ImageDecoder", kNoProducts},
    {"", "InstanceNormalization", kNoProducts},
    {"", "IsInf", kNoProducts},
    {"", "IsNaN", kNoProducts},
    {"", "LRN", kKeepsNonNegative | kNoProducts},
    {"", "LSTM", kRecurrent, RangeForm::kUnknown, kGates},
    {"", "LayerNormalization", kNoProducts},
    {"", "LeakyRelu", kScalesElements | kOfOne | kKeepsNonNegative | kNoProducts, RangeForm::kLeaky},
    {"", "Less", kNoProducts},
    {"", "LessOrEqual", kNoProducts},
    {"", "LinearAttention", kNone, RangeForm::kUnknown, kStateProduct},
    {"", "Log", kOfOne | kNoProducts},
    {"", "LogSoftmax", kNoProducts},
    {"", "Loop", kUncounted},
    {"", "LpNormalization", kNoProducts},
    {"", "LpPool", kScalesChannels | kNonNegative | kNoProducts},
    {"", "MatMul", kMultiplies | kTypeOfOperands | kKeepsNonNegative, RangeForm::kUnknown, kMatrixProduct},
    {"", "MatMulInteger", kNone, RangeForm::kUnknown, kIntegerMatrixProduct},
    {"", "Max", kOfSeveral | kJoins | kKeepsNonNegative | kNoProducts, RangeForm::kLargest},
    {"", "MaxPool", kScalesChannels | kMoves | kKeepsType | kNoProducts, RangeForm::kMaxPooled},
    {"", "MaxRoiPool", kNoProducts},
    {"", "MaxUnpool", kNoProducts},
    {"", "Mean", kOfSeveral | kJoins | kKeepsNonNegative | kNoProducts, RangeForm::kSummedUp},
    {"", "MeanVarianceNormalization", kNoProducts},
    {"", "MelWeightMatrix", kUncounted | kNoProducts},
    {"", "Min", kOfSeveral | kJoins | kKeepsNonNegative | kNoProducts, RangeForm::kSmallest},
    {"", "Mish", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "Mod", kNoProducts},
    {"", "Mul", kOfSeveral | kTypeOfOperands | kKeepsNonNegative | kNoProducts | kOfCells | kArithmetic,
     RangeForm::kMultiplied},
    {"", "Multinomial", kNoProducts},
    {"", "Neg", kOfOne | kNoProducts, RangeForm::kNegative},
    {"", "NegativeLogLikelihoodLoss", kNoProducts},
    {"", "NonMaxSuppression", kNoProducts},
    {"", "NonZero", kNoProducts},
    {"", "Not", kNoProducts},
    {"", "OneHot", kNoProducts},
    {"", "Optional", kNoProducts},
    {"", "OptionalGetElement", kNoProducts},
    {"", "OptionalHasElement", kNoProducts},
    {"", "Or", kNoProducts},
    {"", "PRelu", kScalesElements | kOfSeveral | kKeepsNonNegative | kNoProducts, RangeForm::kParametric},
    {"", "Pad", kKeepsType | kKeepsNonNegative | kNoProducts | kOneDataInput | kSteered, RangeForm::kPadded},
    {"", "Pow", kOfSeveral | kKeepsNonNegative | kNoProducts | kSteered},
    {"", "QLinearConv", kSteered, RangeForm::kQuantizedProduct, kQLinearConvolution},
    {"", "QLinearMatMul", kSteered, RangeForm::kQuantizedProduct, kQLinearMatrixProduct},
    {"", "QuantizeLinear", kNoProducts | kHasAxis | kOneDataInput | kSteered, RangeForm::kQuantizedLinearly},
    {"", "RMSNormalization", kNoProducts},
    {"", "RNN", kRecurrent, RangeForm::kUnknown, kGates},
    {"", "RandomNormal", kNoProducts},
    {"", "RandomNormalLike", kNoProducts},
    {"", "RandomUniform", kNoProducts},
    {"", "RandomUniformLike", kNoProducts},
    {"", "Range", kNoProducts},
    {"", "Reciprocal", kOfOne | kNoProducts},
    {"", "ReduceL1", kNonNegative | kNoProducts},
    {"", "ReduceL2", kNonNegative, RangeForm::kUnknown, kSquares},
    {"", "ReduceLogSum", kNoProducts},
    {"", "ReduceLogSumExp", kNoProducts},
    {"", "ReduceMax", kKeepsNonNegative | kNoProducts, RangeForm::kReducedToOne},
    {"", "ReduceMean", kKeepsNonNegative | kNoProducts, RangeForm::kReducedToMean},
    {"", "ReduceMin", kKeepsNonNegative | kNoProducts, RangeForm::kReducedToOne},
    {"", "ReduceProd", kKeepsNonNegative | kNoProducts},
    {"", "ReduceSum", kKeepsNonNegative | kNoProducts, RangeForm::kReducedToSum},
    {"", "ReduceSumSquare", kNonNegative, RangeForm::kUnknown, kSquares},
    {"", "RegexFullMatch", kNoProducts},
    {"", "Relu", kScalesElements | kOfOne | kNonNegative | kNoProducts | kOfCells, RangeForm::kRectified},
    {"", "Reshape", kMoves | kReshapes | kKeepsType | kNoProducts | kIsItsInput, RangeForm::kMoved},
    {"", "Resize", kNoProducts | kOneDataInput | kSteered, RangeForm::kResized},
    {"", "ReverseSequence", kMoves | kNoProducts, RangeForm::kMoved},
    {"", "RoiAlign", kUncounted | kNoProducts},
    {"", "RotaryEmbedding", kNoProducts},
    {"", "Round", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "STFT", kUncounted | kNoProducts},
    {"", "Scan", kUncounted},
    {"", "Scatter", kKeepsType | kNoProducts, RangeForm::kScattered},
    {"", "ScatterElements", kKeepsType | kNoProducts, RangeForm::kScattered},
    {"", "ScatterND", kKeepsType | kNoProducts, RangeForm::kScattered},
    {"", "Selu", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "SequenceAt", kNoProducts},
    {"", "SequenceConstruct", kNoProducts},
    {"", "SequenceEmpty", kNoProducts},
    {"", "SequenceErase", kNoProducts},
    {"", "SequenceInsert", kNoProducts},
    {"", "SequenceLength", kNoProducts},
    {"", "Shape", kNoProducts},
    {"", "Shrink", kNoProducts},
    {"", "Sigmoid", kOfOne | kNonNegative | kNoProducts | kOfCells},
    {"", "Sign", kOfOne | kNoProducts, RangeForm::kSign},
    {"", "Sin", kNoProducts},
    {"", "Sinh", kNoProducts},
    {"", "Size", kNoProducts},
    {"", "Slice", kPicks | kKeepsType | kNoProducts, RangeForm::kMoved},
    {"", "Softmax", kNonNegative | kNoProducts},
    {"", "SoftmaxCrossEntropyLoss", kNoProducts},
    {"", "Softplus", kOfOne | kNonNegative | kNoProducts},
    {"", "Softsign", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "SpaceToDepth", kMoves | kNoProducts, RangeForm::kMoved},
    {"", "Split", kAllOutputs | kPicks | kNoProducts | kHasAxis | kOneDataInput, RangeForm::kMoved},
    {"", "SplitToSequence", kNoProducts},
    {"", "Sqrt", kOfOne | kNonNegative | kNoProducts},
    {"", "Squeeze", kMoves | kReshapes | kKeepsType | kNoProducts | kIsItsInput, RangeForm::kMoved},
    {"", "StringConcat", kNoProducts},
    {"", "StringNormalizer", kNoProducts},
    {"", "StringSplit", kNoProducts},
    {"", "Sub", kOfSeveral | kAdds | kTypeOfOperands | kNoProducts | kArithmetic, RangeForm::kSubtracted},
    {"", "Sum", kOfSeveral | kJoins | kAdds | kKeepsNonNegative | kNoProducts, RangeForm::kSummedUp},
    {"", "Swish", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "Tan", kNoProducts},
    {"", "Tanh", kOfOne | kKeepsNonNegative | kNoProducts | kOfCells},
    {"", "TensorScatter", kNoProducts},
    {"", "TfIdfVectorizer", kNoProducts},
    {"", "ThresholdedRelu", kOfOne | kKeepsNonNegative | kNoProducts},
    {"", "Tile", kMoves | kKeepsType | kNoProducts | kIsItsInput, RangeForm::kMoved},
    {"", "TopK", kNoProducts, RangeForm::kMoved},
    {"", "Transpose", kMoves | kKeepsType | kNoProducts, RangeForm::kMoved},
    {"", "Trilu", kKeepsNonNegative | kNoProducts, RangeForm::kTriangle},
    {"", "Unique", kNoProducts},
    {"", "Unsqueeze", kMoves | kReshapes | kKeepsType | kNoProducts | kIsItsInput, RangeForm::kMoved},
    {"", "Upsample", kKeepsNonNegative | kNoProducts | kSteered, RangeForm::kResized},
    {"", "Where", kKeepsNonNegative | kNoProducts, RangeForm::kChosen},
    {"", "Xor", kNoProducts},
    {kMachineLearning, "ArrayFeatureExtractor", kNoProducts},
    {kMachineLearning, "Binarizer", kNoProducts},
    {kMachineLearning, "CastMap", kNoProducts},
    {kMachineLearning, "CategoryMapper", kNoProducts},
    {kMachineLearning, "DictVectorizer", kNoProducts},
    {kMachineLearning, "FeatureVectorizer", kNoProducts},
    {kMachineLearning, "Imputer", kNoProducts},
    {kMachineLearning, "LabelEncoder", kNoProducts},
    {kMachineLearning, "LinearClassifier", kNoProducts},
    {kMachineLearning, "LinearRegressor", kNoProducts},
    {kMachineLearning, "Normalizer", kNoProducts},
    {kMachineLearning, "OneHotEncoder", kNoProducts},
    {kMachineLearning, "SVMClassifier", kNoProducts},
    {kMachineLearning, "SVMRegressor", kNoProducts},
    {kMachineLearning, "Scaler", kNoProducts},
    {kMachineLearning, "TreeEnsemble", kNoProducts},
    {kMachineLearning, "TreeEnsembleClassifier", kNoProducts},
    {kMachineLearning, "TreeEnsembleRegressor", kNoProducts},
    {kMachineLearning, "ZipMap", kNoProducts},
    {kPreview, "FlexAttention", kNone, RangeForm::kUnknown, kAttention},
    {kControlDomain, kChoose, kNoProducts},
    {kChannelsLastDomain, "BatchNormalization", kNoProducts},
    {kChannelsLastDomain, "Conv", kTypeOfOperands, RangeForm::kUnknown, kConvolution},
    {kChannelsLastDomain, "MaxPool", kNoProducts, RangeForm::kMaxPooled},
    {kQonnxDomain, "BipolarQuant", kNoProducts | kQuantizer | kSteered, RangeForm::kBipolarQuantizer},
    {kQonnxDomain, "FloatQuant", kNoProducts | kQuantizer | kSteered, RangeForm::kFloatQuantizer},
    {kQonnxDomain, "Im2Col", kNoProducts, RangeForm::kLoweredToColumns},
    {kQonnxDomain, "IntQuant", kNoProducts | kQuantizer | kSteered, RangeForm::kIntegerQuantizer},
    {kQonnxDomain, "MaxPoolNHWC", kNoProducts, RangeForm::kMaxPooled},
    {kQonnxDomain, "MultiThreshold", kNoProducts | kSteered, RangeForm::kThresholds},
    {kQonnxDomain, "Quant", kNoProducts | kQuantizer | kSteered, RangeForm::kIntegerQuantizer},
    {kQonnxDomain, "QuantAvgPool2d", kNoProducts, RangeForm::kQuantizedAverage},
    {kQonnxDomain, "Trunc", kNoProducts | kSteered, RangeForm::kTruncated},
    {kQonnxDomain, "XnorPopcountMatMul", kNone, RangeForm::kUnknown, kXnorProduct},
};

constexpr bool is_before(const OperatorTraits& a, const OperatorTraits& b) {
  return std::tie(a.domain, a.op) < std::tie(b.domain, b.op);
}
static_assert(std::ranges::is_sorted(kRows, is_before));

constexpr OperatorTraits kUnknownOperator = {};

}  // namespace

std::span<const OperatorTraits> operator_rows() { return kRows; }

const OperatorTraits& traits_of(const Node& node) {
  const OperatorTraits wanted{.domain = node.domain, .op = node.op};
  const auto* row = std::ranges::lower_bound(kRows, wanted, is_before);
  return row != std::end(kRows) && !is_before(wanted, *row) ? *row : kUnknownOperator;
}

}  // namespace crumb::graph
