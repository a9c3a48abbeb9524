#include "graph/onnx/schemas.h"

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>
#include <onnx/defs/tensor_proto_util.h>

#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/checked_size.h"
#include "graph/choose.h"
#include "graph/graph.h"
#include "graph/onnx/pool_shapes.h"
#include "graph/onnx/wire/domains.h"

namespace crumb::graph {
namespace {

using onnx::InferenceContext;
using onnx::OpSchema;

constexpr int kNewestQonnx = 2;

/// Gives the output the first input's shape, in float32.
void like_first_input(InferenceContext& context) {
  onnx::updateOutputElemType(context, 0, onnx::TensorProto::FLOAT);
  if (onnx::hasInputShape(context, 0)) onnx::propagateShapeFromInputToOutput(context, 0, 0);
}

/// Returns the shape of an input of this rank; null where the shape is unknown. Throws where the rank
/// differs.
const onnx::TensorShapeProto* shape_of(InferenceContext& context, std::size_t i, int rank) {
  if (!onnx::hasInputShape(context, i)) return nullptr;
  const onnx::TensorShapeProto& shape = onnx::getInputShape(context, i);
  if (shape.dim_size() != rank)
    fail_shape_inference("input ", i, " has ", shape.dim_size(), " axes, not ", rank);
  return &shape;
}

std::vector<std::int64_t> ints_of(InferenceContext& context, const char* name, std::size_t count,
                                  std::int64_t otherwise) {
  std::vector<std::int64_t> values;
  if (!onnx::getRepeatedAttribute(context, name, values)) values.assign(count, otherwise);
  if (values.size() != count) fail_shape_inference(name, " has ", values.size(), " numbers, not ", count);
  return values;
}

/// Holds sums and products of two of a file's numbers, which 64 bits may not hold.
using Exact = __int128;

/// Windows along one spatial axis.
struct Window {
  std::int64_t kernel = 1, stride = 1, dilation = 1;
  Exact padding = 0;
  std::int64_t before = 0;  ///< padding in front
  bool same = false;        ///< padded so that only the stride determines the count
  bool up = false;  ///< count a last window that is not full, if it starts before the padding at the end

  /// Returns how many windows fit `size`; unknown where that is.
  onnx::TensorShapeProto::Dimension count(const onnx::TensorShapeProto::Dimension& size) const {
    onnx::TensorShapeProto::Dimension made;
    if (!size.has_dim_value() || size.dim_value() < 0) return made;
    if (kernel < 1 || stride < 1 || dilation < 1) fail_shape_inference("sizes of windows are 1 and more");
    const Exact room = size.dim_value() + padding - Exact{dilation} * (kernel - 1) - 1;
    Exact windows = room < 0 ? 0 : (room + (up ? stride - 1 : 0)) / stride + 1;
    if (up && windows > 0 && (windows - 1) * stride >= Exact{size.dim_value()} + before) --windows;
    if (same) windows = (Exact{size.dim_value()} + stride - 1) / stride;
    if (windows > INT64_MAX) fail_shape_inference("more than 2^63 windows");
    made.set_dim_value(static_cast<std::int64_t>(windows));
    return made;
  }
};

/// Sets the output shape: [N, spatial..., C] becomes [N, windows..., channels].
void set_windows(InferenceContext& context, const onnx::TensorShapeProto& x,
                 const std::vector<Window>& windows, const onnx::TensorShapeProto::Dimension& channels) {
  onnx::TensorShapeProto shape;
  *shape.add_dim() = x.dim(0);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    *shape.add_dim() = windows[i].count(x.dim(static_cast<int>(i) + 1));
  }
  *shape.add_dim() = channels;
  onnx::updateOutputShape(context, 0, shape);
}

/// Returns the windows that ONNX's attributes of convolutions and pools describe.
std::vector<Window> windows_of(InferenceContext& context, std::size_t axes,
                               const std::vector<std::int64_t>& kernel) {
  const auto stride = ints_of(context, "strides", axes, 1);
  const auto dilation = ints_of(context, "dilations", axes, 1);
  const auto pads = ints_of(context, "pads", 2 * axes, 0);
  const std::string pad = onnx::getAttribute(context, "auto_pad", "NOTSET");
  const bool explicitly = pad.empty() || pad == "NOTSET";
  std::vector<Window> windows;
  for (std::size_t i = 0; i < axes; ++i) {
    windows.push_back({.kernel = kernel[i],
                       .stride = stride[i],
                       .dilation = dilation[i],
                       .padding = explicitly ? Exact{pads[i]} + pads[i + axes] : 0,
                       .before = explicitly ? pads[i] : 0,
                       .same = pad.starts_with("SAME"),
                       .up = onnx::getAttribute(context, "ceil_mode", 0) != 0});
  }
  return windows;
}

void float_output(InferenceContext& context) {
  onnx::updateOutputElemType(context, 0, onnx::TensorProto::FLOAT);
}

void convolution_last(InferenceContext& context) {
  float_output(context);
  if (!onnx::hasInputShape(context, 0) || !onnx::hasInputShape(context, 1)) return;
  const onnx::TensorShapeProto& x = onnx::getInputShape(context, 0);
  const int rank = x.dim_size();
  const onnx::TensorShapeProto* weight = shape_of(context, 1, rank);
  if (rank < 3) fail_shape_inference("the input has ", rank, " axes, fewer than 3");
  const auto axes = static_cast<std::size_t>(rank - 2);
  std::vector<std::int64_t> kernel;
  if (!onnx::getRepeatedAttribute(context, "kernel_shape", kernel)) {
    for (int i = 1; i + 1 < rank; ++i) {
      if (!weight->dim(i).has_dim_value()) return;
      kernel.push_back(weight->dim(i).dim_value());
    }
  }
  if (kernel.size() != axes) fail_shape_inference("kernel_shape has ", kernel.size(), " numbers, not ", axes);
  set_windows(context, x, windows_of(context, axes, kernel), weight->dim(0));
}

void max_pool_last(InferenceContext& context) {
  onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
  if (!onnx::hasInputShape(context, 0)) return;
  const onnx::TensorShapeProto& x = onnx::getInputShape(context, 0);
  const int rank = x.dim_size();
  if (rank < 3) fail_shape_inference("the input has ", rank, " axes, fewer than 3");
  const auto axes = static_cast<std::size_t>(rank - 2);
  const auto kernel = ints_of(context, "kernel_shape", axes, 1);
  set_windows(context, x, windows_of(context, axes, kernel), x.dim(rank - 1));
}

void windows_as_rows(InferenceContext& context) {
  onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
  const onnx::TensorShapeProto* x = shape_of(context, 0, 4);
  if (!x) return;
  const auto kernel = ints_of(context, "kernel_size", 2, 1), stride = ints_of(context, "stride", 2, 1);
  const auto dilation = ints_of(context, "dilations", 2, 1), pads = ints_of(context, "pad_amount", 4, 0);
  std::vector<Window> windows;
  for (std::size_t i = 0; i < 2; ++i) {
    windows.push_back({.kernel = kernel[i],
                       .stride = stride[i],
                       .dilation = dilation[i],
                       .padding = Exact{pads[i]} + pads[i + 2]});
  }
  onnx::TensorShapeProto::Dimension columns;
  if (x->dim(3).has_dim_value()) {
    const auto product = checked::multiply(checked::multiply(kernel[0], kernel[1]), x->dim(3).dim_value());
    const auto size = checked::narrow<std::int64_t>(product);
    if (!size) fail_shape_inference("the elements of a window are no size");
    columns.set_dim_value(*size);
  }
  set_windows(context, *x, windows, columns);
}

void quantized_average_pool(InferenceContext& context) {
  float_output(context);
  const onnx::TensorShapeProto* x = shape_of(context, 0, 4);
  if (!x) return;
  const Window window{.kernel = onnx::getAttribute(context, "kernel", std::int64_t{1}),
                      .stride = onnx::getAttribute(context, "stride", std::int64_t{1})};
  const bool last = onnx::getAttribute(context, "data_layout", "NCHW") == "NHWC";
  onnx::TensorShapeProto shape = *x;
  for (int i = last ? 1 : 2, end = i + 2; i < end; ++i) *shape.mutable_dim(i) = window.count(x->dim(i));
  onnx::updateOutputShape(context, 0, shape);
}

/// Infers the shape of NumPy's matmul.
void matrix_product(InferenceContext& context) {
  float_output(context);
  if (!onnx::hasInputShape(context, 0) || !onnx::hasInputShape(context, 1)) return;
  const onnx::TensorShapeProto& a = onnx::getInputShape(context, 0);
  const onnx::TensorShapeProto& b = onnx::getInputShape(context, 1);
  if (a.dim_size() == 0 || b.dim_size() == 0) fail_shape_inference("a factor has no axes");
  onnx::TensorShapeProto left, right, made;
  for (int i = 0; i + 2 < a.dim_size(); ++i) *left.add_dim() = a.dim(i);
  for (int i = 0; i + 2 < b.dim_size(); ++i) *right.add_dim() = b.dim(i);
  onnx::bidirectionalBroadcastShapeInference(left, right, made);
  if (a.dim_size() > 1) *made.add_dim() = a.dim(a.dim_size() - 2);
  if (b.dim_size() > 1) *made.add_dim() = b.dim(b.dim_size() - 1);
  onnx::updateOutputShape(context, 0, made);
}

OpSchema operator_of(std::string_view domain, const char* op, int since,
                     std::initializer_list<const char*> inputs, onnx::InferenceFunction inference,
                     int optional = 0) {
  OpSchema schema(op, "graph/onnx/schemas.cpp", __LINE__);
  schema.SetDomain(std::string(domain)).SinceVersion(since);
  int i = 0;
  for (const char* input : inputs) {
    const bool may_lack = i >= static_cast<int>(inputs.size()) - optional;
    schema.Input(i++, input, "", "tensor(float)", may_lack ? OpSchema::Optional : OpSchema::Single);
  }
  schema.Output(0, "Y", "", "tensor(float)");
  schema.AllowUncheckedAttributes();
  schema.TypeAndShapeInferenceFunction(std::move(inference));
  return schema;
}

/// Gives each output what both sides of a Choose agree on.
void sides_agree(InferenceContext& context) {
  const std::size_t outputs = context.getNumOutputs();
  if (context.getNumInputs() != 1 + 2 * outputs) return;
  for (std::size_t i = 0; i < outputs; ++i) {
    const std::size_t then = 1 + i, otherwise = then + outputs;
    const auto *a = context.getInputType(then), *b = context.getInputType(otherwise);
    if (!a || !b || !a->has_tensor_type() || !b->has_tensor_type() ||
        a->tensor_type().elem_type() != b->tensor_type().elem_type())
      continue;
    onnx::updateOutputElemType(context, i, a->tensor_type().elem_type());
    if (!a->tensor_type().has_shape() || !b->tensor_type().has_shape()) continue;
    const onnx::TensorShapeProto &one = a->tensor_type().shape(), &other = b->tensor_type().shape();
    if (one.dim_size() != other.dim_size()) continue;
    onnx::TensorShapeProto shape;
    for (int axis = 0; axis < one.dim_size(); ++axis) {
      const auto &x = one.dim(axis), &y = other.dim(axis);
      auto& dim = *shape.add_dim();
      if (x.has_dim_value() && y.has_dim_value() && x.dim_value() == y.dim_value())
        dim.set_dim_value(x.dim_value());
      if (x.has_dim_param() && y.has_dim_param() && x.dim_param() == y.dim_param())
        dim.set_dim_param(x.dim_param());
    }
    onnx::updateOutputShape(context, i, shape);
  }
}

OpSchema choose_operator() {
  OpSchema schema(std::string(kChoose).c_str(), "graph/onnx/schemas.cpp", __LINE__);
  schema.SetDomain(std::string(kControlDomain)).SinceVersion(1);
  schema.Input(0, "condition", "", "tensor(bool)");
  schema.Input(1, "values", "", "V", OpSchema::Variadic, false);
  schema.Output(0, "chosen", "", "V", OpSchema::Variadic, false);
  schema.TypeConstraint("V", OpSchema::all_tensor_types_ir13(), "");
  schema.TypeAndShapeInferenceFunction(sides_agree);
  return schema;
}

OpSchema quantizer(const char* op, int since, std::initializer_list<const char*> inputs) {
  return operator_of(kQonnxDomain, op, since, inputs, like_first_input);
}

OpSchema batch_normalization(int since) {
  return operator_of(kChannelsLastDomain, "BatchNormalization", since, {"X", "scale", "B", "mean", "var"},
                     like_first_input);
}

}  // namespace

void count_windows_that_start_inside(InferenceContext& context) {
  if (onnx::getAttribute(context, "ceil_mode", 0) == 0 || !onnx::hasInputShape(context, 0)) return;
  const onnx::TensorShapeProto& x = onnx::getInputShape(context, 0);
  if (x.dim_size() < 3) return;
  const auto axes = static_cast<std::size_t>(x.dim_size() - 2);
  const auto windows = windows_of(context, axes, ints_of(context, "kernel_shape", axes, 1));
  onnx::TensorShapeProto shape = x;
  for (std::size_t i = 0; i < axes; ++i) {
    const int axis = static_cast<int>(i) + 2;
    *shape.mutable_dim(axis) = windows[i].count(x.dim(axis));
  }
  for (std::size_t i = 0; i < context.getNumOutputs(); ++i) onnx::updateOutputShape(context, i, shape);
}

void count_resized_elements(InferenceContext& context, std::size_t scales) {
  if (!onnx::hasInputShape(context, 0) || context.getNumInputs() <= scales) return;
  const onnx::TensorProto* given = context.getInputData(scales);
  if (!given || given->data_type() != onnx::TensorProto::FLOAT) return;
  const std::vector<float> factors = onnx::ParseData<float>(given);
  onnx::TensorShapeProto shape = onnx::getInputShape(context, 0);
  std::vector<std::int64_t> axes;
  if (!onnx::getRepeatedAttribute(context, "axes", axes)) {
    for (int i = 0; i < shape.dim_size(); ++i) axes.push_back(i);
  }
  if (factors.empty() || factors.size() != axes.size()) return;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + shape.dim_size() : axes[i];
    if (axis < 0 || axis >= shape.dim_size()) return;
    auto& dim = *shape.mutable_dim(static_cast<int>(axis));
    constexpr float kMost = 0x1p48F;
    if (!dim.has_dim_value()) {
      if (factors[i] != 1) dim.clear_dim_param();
      continue;
    }
    const float size = std::floor(static_cast<float>(dim.dim_value()) * factors[i]);
    if (!(size >= 0 && size < kMost)) return;
    dim.set_dim_value(static_cast<std::int64_t>(size));
  }
  onnx::updateOutputShape(context, 0, shape);
}

void register_qonnx_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string domain(kQonnxDomain);
    auto& domains = onnx::OpSchemaRegistry::DomainToVersionRange::Instance();
    domains.AddDomainToVersion(domain, 1, kNewestQonnx, kNewestQonnx);
    domains.AddDomainToVersion(std::string(kControlDomain), 1, 1, 1);
    // A channels-last node uses ONNX's operator set where its own domain is not imported.
    const int newest = static_cast<int>(kNewestOpset);
    domains.AddDomainToVersion(std::string(kChannelsLastDomain), 1, newest, newest);
    for (const OpSchema& schema : {
             quantizer("Quant", 1, {"X", "scale", "zeropt", "bitwidth"}),
             quantizer("IntQuant", 1, {"X", "scale", "zeropt", "bitwidth"}),
             quantizer("BipolarQuant", 1, {"X", "scale"}),
             quantizer("Trunc", 1, {"X", "scale", "zeropt", "in_bitwidth", "out_bitwidth"}),
             quantizer("Trunc", 2, {"X", "scale", "zeropt", "in_bitwidth", "out_scale", "out_bitwidth"}),
             quantizer("FloatQuant", 1,
                       {"X", "scale", "exponent_bitwidth", "mantissa_bitwidth", "exponent_bias", "max_val"}),
             quantizer("MultiThreshold", 1, {"X", "thresholds"}),
             operator_of(kQonnxDomain, "XnorPopcountMatMul", 1, {"A", "B"}, matrix_product),
             operator_of(kQonnxDomain, "Im2Col", 1, {"X"}, windows_as_rows),
             operator_of(kQonnxDomain, "MaxPoolNHWC", 1, {"X"}, max_pool_last),
             operator_of(kQonnxDomain, "QuantAvgPool2d", 1, {"X"}, quantized_average_pool),
             operator_of(kChannelsLastDomain, "Conv", 1, {"X", "W", "B"}, convolution_last, 1),
             operator_of(kChannelsLastDomain, "MaxPool", 1, {"X"}, max_pool_last),
             operator_of(kChannelsLastDomain, "MaxPool", 10, {"X"}, max_pool_last),
             choose_operator(),
             batch_normalization(1),
             batch_normalization(9),
             batch_normalization(14),
         }) {
      onnx::RegisterSchema(schema, 0, false, true);
    }
  });
}

}  // namespace crumb::graph
