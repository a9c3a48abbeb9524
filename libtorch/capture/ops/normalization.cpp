// Normalizations.
#include <limits>

#include "libtorch/capture/ops/families.h"

namespace crumb::libtorch {
namespace {

float epsilon(Op& op) { return static_cast<float>(op.real("eps")); }

std::string filled(Op& op, const Ints& sizes, double value) {
  return op.net.tensor(at::full(sizes, value, at::dtype(op.result().type)), value == 0 ? "zeros" : "ones");
}

/// The argument, or as many ones (zeros) where it is left out.
std::string given_or(Op& op, const char* argument, const Ints& sizes, double value) {
  return op.has(argument) ? op.tensor(argument) : filled(op, sizes, value);
}

std::int64_t channels(Op& op) {
  const Number size = op.seen("input").sizes.at(1);
  if (!size.fixed()) op.fail("the channels follow the batch");
  return size.first;
}

void batch_norm(Op& op) {
  const Ints c = {channels(op)};
  const bool own = !op.has("running_mean");
  const bool training = own || (op.batch_statistics && op.flag("training"));
  const Names inputs = {op.tensor("input"), given_or(op, "weight", c, 1), given_or(op, "bias", c, 0),
                        given_or(op, "running_mean", c, 0), given_or(op, "running_var", c, 1)};
  Attributes attributes = {{"epsilon", epsilon(op)}};
  if (!training) return op.set(op.net.add("BatchNormalization", inputs, attributes));
  attributes["training_mode"] = std::int64_t{1};
  attributes["momentum"] = static_cast<float>(1 - op.real("momentum"));
  op.set(op.net.add_many("BatchNormalization", inputs, attributes, 3)[0]);
}

void instance_norm(Op& op) {
  const Ints c = {channels(op)};
  const std::string weight = given_or(op, "weight", c, 1), bias = given_or(op, "bias", c, 0);
  if (op.flag("use_input_stats")) {
    return op.set(
        op.net.add("InstanceNormalization", {op.tensor("input"), weight, bias}, {{"epsilon", epsilon(op)}}));
  }
  op.set(op.net.add("BatchNormalization",
                    {op.tensor("input"), weight, bias, op.tensor("running_mean"), op.tensor("running_var")},
                    {{"epsilon", epsilon(op)}}));
}

void layer_norm(Op& op) {
  const Ints shape = op.ints("normalized_shape");
  Names inputs = {op.tensor("input"), given_or(op, "weight", shape, 1)};
  if (op.has("bias")) inputs.push_back(op.tensor("bias"));
  op.set(op.net.add("LayerNormalization", inputs,
                    {{"axis", -static_cast<std::int64_t>(shape.size())}, {"epsilon", epsilon(op)}}));
}

void group_norm(Op& op) {
  const Ints c = {channels(op)};
  op.set(op.net.add("GroupNormalization",
                    {op.tensor("input"), given_or(op, "weight", c, 1), given_or(op, "bias", c, 0)},
                    {{"num_groups", op.integer("num_groups")}, {"epsilon", epsilon(op)}}));
}

/// x / sqrt(mean(x^2) + eps) * weight
void rms_norm(Op& op) {
  Network& net = op.net;
  const auto type = op.result().type;
  const std::string x = op.tensor("input");
  Ints axes;
  for (std::size_t i = op.ints("normalized_shape").size(); i > 0; --i) {
    axes.push_back(-static_cast<std::int64_t>(i));
  }
  const double eps = op.has("eps")         ? op.real("eps")
                     : type == at::kDouble ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon();
  const std::string mean = net.add("ReduceMean", {net.add("Mul", {x, x}), net.ints(axes)});
  const std::string root = net.add("Sqrt", {net.add("Add", {mean, net.scalar(eps, type)})});
  const std::string y = net.add("Div", {x, root});
  op.set(op.has("weight") ? net.add("Mul", {y, op.tensor("weight")}) : y);
}

constexpr ConversionRow kNormalizationRows[] = {
    {"aten::batch_norm", batch_norm}, {"aten::instance_norm", instance_norm},
    {"aten::layer_norm", layer_norm}, {"aten::group_norm", group_norm},
    {"aten::rms_norm", rms_norm},
};

}  // namespace

std::span<const ConversionRow> normalization_conversions() { return kNormalizationRows; }

}  // namespace crumb::libtorch
