// Activations.
#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

float real32(Op& op, const char* argument, double otherwise) {
  return static_cast<float>(op.real_or(argument, otherwise));
}

std::string number(Op& op, double value) { return op.net.scalar(value, op.result().type); }

void simple(Op& op, const char* name, const Attributes& attributes = {}) {
  op.set(op.net.add(name, {op.self()}, attributes));
}

void relu(Op& op) { simple(op, "Relu"); }
void sigmoid(Op& op) { simple(op, "Sigmoid"); }
void tanh(Op& op) { simple(op, "Tanh"); }
void mish(Op& op) { simple(op, "Mish"); }
void softsign(Op& op) { simple(op, "Softsign"); }
void hardswish(Op& op) { simple(op, "HardSwish"); }
void hardsigmoid(Op& op) { simple(op, "HardSigmoid", {{"alpha", 1.0F / 6}, {"beta", 0.5F}}); }
void leaky_relu(Op& op) { simple(op, "LeakyRelu", {{"alpha", real32(op, "negative_slope", 0.01)}}); }
void celu(Op& op) { simple(op, "Celu", {{"alpha", real32(op, "alpha", 1)}}); }
void selu(Op& op) { simple(op, "Selu", {{"alpha", 1.6732632423543772F}, {"gamma", 1.0507009873554805F}}); }
void gelu(Op& op) { simple(op, "Gelu", {{"approximate", op.text("approximate")}}); }

void elu(Op& op) {
  if (op.real_or("input_scale", 1) != 1) op.fail("input_scale is not 1");
  const double scale = op.real_or("scale", 1);
  if (scale == 1) return simple(op, "Elu", {{"alpha", real32(op, "alpha", 1)}});
  simple(op, "Selu", {{"alpha", real32(op, "alpha", 1)}, {"gamma", static_cast<float>(scale)}});
}

void silu(Op& op) {
  const std::string x = op.self();
  op.set(op.net.add("Mul", {x, op.net.add("Sigmoid", {x})}));
}

void glu(Op& op) {
  const std::int64_t axis = op.axis("dim", op.seen("self").rank());
  const Number size = op.seen("self").sizes[static_cast<std::size_t>(axis)];
  if (!size.fixed()) op.fail("it halves the batch");
  const Names halves = op.net.add_many("Split", {op.self(), op.net.ints({size.first / 2, size.first / 2})},
                                       {{"axis", axis}}, 2);
  op.set(op.net.add("Mul", {halves[0], op.net.add("Sigmoid", {halves[1]})}));
}

void clip(Op& op, double least, double most) {
  op.set(op.net.add("Clip", {op.self(), number(op, least), number(op, most)}));
}
void hardtanh(Op& op) { clip(op, op.real_or("min_val", -1), op.real_or("max_val", 1)); }
void relu6(Op& op) { clip(op, 0, 6); }

/// Above the threshold LibTorch gives x itself, which log(1 + exp(x)) is there but for less than float32
/// shows.
void softplus(Op& op) {
  const double beta = op.real_or("beta", 1);
  std::string x = op.self();
  const std::string beta_x = beta == 1 ? x : op.net.add("Mul", {x, number(op, beta)});
  std::string y = op.net.add("Softplus", {beta_x});
  if (beta != 1) y = op.net.add("Div", {y, number(op, beta)});
  const double threshold = op.real_or("threshold", 20);
  if (threshold < 16) {
    y = op.net.add("Where", {op.net.add("Greater", {beta_x, number(op, threshold)}), x, y});
  }
  op.set(y);
}

void log_sigmoid(Op& op) {
  op.set(op.net.add("Neg", {op.net.add("Softplus", {op.net.add("Neg", {op.self()})})}));
}

/// One slope a channel, which is axis 1.
void prelu(Op& op) {
  std::string slope = op.tensor("weight");
  const std::int64_t rank = op.seen("self").rank(), own = op.seen("weight").rank();
  if (own == 1 && rank > 2 && !op.seen("weight").sizes[0].is(1)) {
    Ints behind;
    for (std::int64_t axis = 1; axis < rank - 1; ++axis) behind.push_back(axis);
    slope = op.net.unsqueeze(slope, behind);
  }
  op.set(op.net.add("PRelu", {op.self(), slope}));
}

void rrelu(Op& op) {
  if (op.flag("training")) op.fail("it draws random slopes");
  simple(op, "LeakyRelu", {{"alpha", (real32(op, "lower", 0.125) + real32(op, "upper", 1.0 / 3)) / 2}});
}

void threshold(Op& op) {
  const std::string x = op.self();
  const std::string above = op.net.add("Greater", {x, op.self("threshold")});
  op.set(op.net.add("Where", {above, x, op.self("value")}));
}

void softshrink(Op& op) {
  const float lambda = real32(op, "lambd", 0.5);
  simple(op, "Shrink", {{"lambd", lambda}, {"bias", lambda}});
}
void hardshrink(Op& op) { simple(op, "Shrink", {{"lambd", real32(op, "lambd", 0.5)}, {"bias", 0.0F}}); }

void softmax_like(Op& op, const char* name) {
  const Seen x = op.seen("self");
  if (x.rank() == 0) op.fail("its input is a single number");
  simple(op, name, {{"axis", op.axis("dim", x.rank())}});
}
void softmax(Op& op) { softmax_like(op, "Softmax"); }
void log_softmax(Op& op) { softmax_like(op, "LogSoftmax"); }

constexpr ConversionRow kActivationRows[] = {
    {"aten::relu", relu},
    {"aten::sigmoid", sigmoid},
    {"aten::tanh", tanh},
    {"aten::mish", mish},
    {"aten::softsign", softsign},
    {"aten::hardswish", hardswish},
    {"aten::hardsigmoid", hardsigmoid},
    {"aten::leaky_relu", leaky_relu},
    {"aten::celu", celu},
    {"aten::selu", selu},
    {"aten::gelu", gelu},
    {"aten::elu", elu},
    {"aten::silu", silu},
    {"aten::glu", glu},
    {"aten::hardtanh", hardtanh},
    {"aten::relu6", relu6},
    {"aten::softplus", softplus},
    {"aten::log_sigmoid", log_sigmoid},
    {"aten::prelu", prelu},
    {"aten::rrelu", rrelu},
    {"aten::threshold", threshold},
    {"aten::softshrink", softshrink},
    {"aten::hardshrink", hardshrink},
    {"aten::softmax", softmax},
    {"aten::_softmax", softmax},
    {"aten::log_softmax", log_softmax},
    {"aten::_log_softmax", log_softmax},
    {"aten::special_softmax", softmax},
};

}  // namespace

std::span<const ConversionRow> activation_conversions() { return kActivationRows; }

}  // namespace crumb::libtorch
