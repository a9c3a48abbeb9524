// QONNX's channels-last operators: ONNX's own, on inputs whose channels are the last axis.
#include <ATen/ATen.h>

#include <algorithm>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/qonnx_kernels.h"

namespace crumb::libtorch {
namespace {

using graph::kChannelsLastDomain;

at::Tensor channels_first(const Call& call, std::size_t i) {
  const at::Tensor& t = call.tensor(i);
  if (t.dim() < 2) {
    call.fail("input " + std::to_string(i) + " is " + text_of(call.in(i)) +
              ", expected a tensor whose last axis are the channels");
  }
  return t.movedim(-1, 1).contiguous();
}

/// The operator of this version in ONNX's own domain, with its first `transposed` inputs and its first output
/// between the layouts.
Outputs wrapped_operator(const Call& call, const char* op, std::size_t transposed, std::int64_t version) {
  graph::Node node = call.node();
  node.op = op;
  node.domain = std::string(graph::kOnnxDomain);
  node.version = version;
  std::vector<TypedTensor> inputs;
  for (std::size_t i = 0; i < call.inputs(); ++i) {
    inputs.push_back(!call.has(i)     ? TypedTensor{}
                     : i < transposed ? TypedTensor{channels_first(call, i), call.type(i)}
                                      : call.in(i));
  }
  const Kernel kernel = find_operator(op, graph::kOnnxDomain);
  if (!kernel) call.fail(std::string("the operator ") + op + " is not supported");
  Outputs made = kernel(Call(node, inputs));
  made.at(0).tensor = made[0].tensor.movedim(1, -1).contiguous();
  return made;
}

/// Versions before 9 of the standard may train by default; QONNX's node is inference.
Outputs channels_last_batch_normalization(const Call& call) {
  return wrapped_operator(call, "BatchNormalization", 1, std::max<std::int64_t>(call.version(), 9));
}

Outputs channels_last_convolution(const Call& call) {
  return wrapped_operator(call, "Conv", 2, call.version());
}

Outputs channels_last_max_pool(const Call& call) {
  return wrapped_operator(call, "MaxPool", 1, call.version());
}

constexpr OperatorRow kChannelsLastRows[] = {
    {"Conv", channels_last_convolution, kChannelsLastDomain},
    {"MaxPool", channels_last_max_pool, kChannelsLastDomain},
    {"BatchNormalization", channels_last_batch_normalization, kChannelsLastDomain},
};

}  // namespace

/// Of the general domain, whose version says nothing about ONNX's: with the attributes of MaxPool 11.
Outputs max_pool_nhwc(const Call& call) { return wrapped_operator(call, "MaxPool", 1, 11); }

std::span<const OperatorRow> channels_last_operators() { return kChannelsLastRows; }

}  // namespace crumb::libtorch
