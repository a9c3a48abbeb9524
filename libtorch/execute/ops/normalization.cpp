// BatchNormalization, Instance-, Layer-, Group-, RMS- and LpNormalization, LRN, MeanVarianceNormalization.
#include <ATen/ATen.h>

#include <numeric>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/widen.h"

namespace crumb::libtorch {
namespace {

using Sizes = std::vector<std::int64_t>;

/// [first, rank).
Sizes axes_from(std::int64_t first, std::int64_t rank) {
  Sizes axes(static_cast<std::size_t>(std::max<std::int64_t>(0, rank - first)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

/// A value for each channel, to be broadcast against an input of that rank.
at::Tensor by_channel(const at::Tensor& values, std::int64_t rank) {
  Sizes shape(static_cast<std::size_t>(std::max<std::int64_t>(rank, 1)), 1);
  shape[rank > 1 ? 1 : 0] = -1;
  return values.reshape(shape);
}

/// Means over axes, which stay with size 1; over none of them: the values.
at::Tensor mean_over(const at::Tensor& x, const Sizes& axes) { return axes.empty() ? x : x.mean(axes, true); }

struct Statistics {
  at::Tensor mean, variance;  ///< of the population
};

Statistics statistics(const at::Tensor& x, const Sizes& axes) {
  const at::Tensor mean = mean_over(x, axes);
  const at::Tensor off = x - mean;
  return {mean, mean_over(off * off, axes)};
}

at::Tensor scaled(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& variance, double epsilon,
                  const at::Tensor& scale, const at::Tensor& bias) {
  return (x - mean) * ((variance + epsilon).rsqrt() * scale) + bias;
}

bool is_training(const Call& call) {
  if (call.version() >= 14) return call.int_or("training_mode", 0) != 0;
  bool more = false;
  for (std::size_t i = 1; i < call.outputs(); ++i) more = more || call.wants(i);
  return more && (call.version() >= 7 || call.int_or("is_test", 0) == 0);
}

/// Before operator set 9 statistics could be kept for every feature and not for every channel only (spatial =
/// 0).
Outputs batch_normalization(const Call& call) {
  const bool spare = call.may_overwrite(0);
  const at::Tensor x = widened(call.tensor(0));
  const at::Tensor scale = widened(call.tensor(1)), bias = widened(call.tensor(2));
  const at::Tensor mean = widened(call.tensor(3)), variance = widened(call.tensor(4));
  const double epsilon = call.float_or("epsilon", 1e-5F);
  const bool spatial = call.version() >= 9 || call.int_or("spatial", 1) != 0;
  const bool training = is_training(call);
  const bool usual = spatial && x.dim() >= 2 && x.scalar_type() == scale.scalar_type() &&
                     x.scalar_type() == mean.scalar_type();
  if (!training && usual && x.numel() > 0) {
    if (x.device().is_cpu() && x.is_same(call.tensor(0)) && spare) {
      at::Tensor y = x, none_mean = at::empty({0}, scale.options()),
                 none_variance = at::empty_like(none_mean);
      at::native_batch_norm_out(y, none_mean, none_variance, x, scale, bias, mean, variance, false, 0,
                                epsilon);
      return like_input(call, y);
    }
    return like_input(call, at::batch_norm(x, scale, bias, mean, variance, false, 0, epsilon, false));
  }
  const auto shaped = [&](const at::Tensor& values) {
    return spatial ? by_channel(values, x.dim()) : values.unsqueeze(0);
  };
  if (!training) {
    return like_input(call, scaled(x, shaped(mean), shaped(variance), epsilon, shaped(scale), shaped(bias)));
  }
  Sizes axes = {0};
  if (spatial) {
    for (std::int64_t i = 2; i < x.dim(); ++i) axes.push_back(i);
  }
  const Statistics batch = statistics(x, axes);
  Outputs outputs =
      like_input(call, scaled(x, batch.mean, batch.variance, epsilon, shaped(scale), shaped(bias)));
  const double momentum = call.float_or("momentum", 0.9F);
  const auto moved = [&](const at::Tensor& old, const at::Tensor& fresh, std::size_t input) {
    return wrapped(old * momentum + fresh.reshape_as(old) * (1 - momentum), call.type(input));
  };
  outputs.push_back(moved(mean, batch.mean, 3));
  outputs.push_back(moved(variance, batch.variance, 4));
  outputs.push_back(wrapped(batch.mean.reshape_as(mean), call.type(3)));
  outputs.push_back(wrapped(batch.variance.reshape_as(variance), call.type(4)));
  return outputs;
}

Outputs instance_normalization(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  const Statistics own = statistics(x, axes_from(2, x.dim()));
  return like_input(call, scaled(x, own.mean, own.variance, call.float_or("epsilon", 1e-5F),
                                 by_channel(widened(call.tensor(1)), x.dim()),
                                 by_channel(widened(call.tensor(2)), x.dim())));
}

/// The type in which the first stage is computed and its statistics are given.
graph::ElementType stash_type(const Call& call) {
  const auto type = graph::element_type_of(call.int_or("stash_type", 1));
  if (!type || !graph::is_float(*type) || graph::info(*type).bits < 16) {
    call.fail("stash_type is " + std::to_string(call.int_or("stash_type", 1)) + ", which is no float type");
  }
  return *type;
}

Outputs layer_normalization(const Call& call) {
  const graph::ElementType stash = stash_type(call);
  const at::Tensor x = widened(call.tensor(0)), scale = widened(call.tensor(1));
  const at::Tensor bias = call.has(2) ? widened(call.tensor(2)) : at::Tensor();
  const std::int64_t axis = usual_axis(call, call.int_or("axis", -1), x.dim());
  const at::IntArrayRef inner = x.sizes().slice(static_cast<std::size_t>(axis));
  const double epsilon = call.float_or("epsilon", 1e-5F);
  const bool fused = scale.sizes() == inner && (!bias.defined() || bias.sizes() == inner);
  auto [y, mean, deviation] =
      at::native_layer_norm(x, inner, fused ? scale : at::Tensor(), fused ? bias : at::Tensor(), epsilon);
  if (!fused) {
    y = y * scale;
    if (bias.defined()) y = y + bias;
  }
  Outputs outputs = like_input(call, y);
  if (call.wants(1) || call.wants(2)) {
    outputs.push_back(wrapped(mean, stash));
    outputs.push_back(wrapped(deviation, stash));
  }
  return outputs;
}

Outputs group_normalization(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  const at::Tensor scale = widened(call.tensor(1)), bias = widened(call.tensor(2));
  const std::int64_t groups = call.int_or("num_groups", 0);
  if (x.dim() < 2 || groups < 1 || x.size(1) % groups != 0) {
    call.fail(std::to_string(groups) + " groups of the channels of " + text_of(call.in(0)));
  }
  // Scale and bias are per group before operator set 21, per channel from then on.
  const std::int64_t each = x.size(1) / groups;
  const auto spread = [&](const at::Tensor& values) {
    const bool per_group = call.version() < 21 && values.numel() == groups;
    return by_channel(per_group ? values.repeat_interleave(each) : values, x.dim());
  };
  const at::Tensor rows = x.unflatten(1, {groups, each});
  const Statistics own = statistics(rows, axes_from(2, rows.dim()));
  const at::Tensor y =
      ((rows - own.mean) * (own.variance + call.float_or("epsilon", 1e-5F)).rsqrt()).reshape(x.sizes());
  return like_input(call, y * spread(scale) + spread(bias));
}

Outputs rms_normalization(const Call& call) {
  stash_type(call);
  const at::Tensor x = widened(call.tensor(0));
  const std::int64_t axis = usual_axis(call, call.int_or("axis", -1), x.dim());
  const at::Tensor mean = mean_over(x * x, axes_from(axis, x.dim()));
  // The result has the type of the scale.
  return one(
      wrapped(x * (mean + call.float_or("epsilon", 1e-5F)).rsqrt() * widened(call.tensor(1)), call.type(1))
          .tensor,
      call.type(1));
}

Outputs lp_normalization(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  const std::int64_t axis = usual_axis(call, call.int_or("axis", -1), x.dim());
  const std::int64_t p = call.int_or("p", 2);
  if (p != 1 && p != 2) call.fail("p is " + std::to_string(p) + ", expected 1 or 2");
  const at::Tensor norm = p == 1 ? x.abs().sum({axis}, true) : at::linalg_vector_norm(x, 2, {axis}, true);
  const at::Tensor nothing = norm == 0;
  return like_input(call, (x / norm.masked_fill(nothing, 1)).masked_fill(nothing, 0));
}

Outputs local_response_normalization(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  const std::int64_t size = call.int_or("size", 0);
  if (x.dim() < 2 || size < 1) {
    call.fail("a window of " + std::to_string(size) + " channels over " + text_of(call.in(0)));
  }
  // Sums over windows of channels: differences of running sums lose digits, so the squares are added up.
  const std::int64_t channels = x.size(1), below = (size - 1) / 2, above = size / 2;
  const at::Tensor squares = x * x;
  at::Tensor sum = at::zeros_like(x);
  for (std::int64_t shift = -std::min(below, channels); shift <= std::min(above, channels); ++shift) {
    const std::int64_t from = std::max<std::int64_t>(0, shift);
    const std::int64_t to = std::min(channels, channels + shift);
    if (from >= to) continue;
    Sizes pads(static_cast<std::size_t>(2 * (x.dim() - 1)), 0);
    pads[pads.size() - 2] = from - shift;
    pads[pads.size() - 1] = channels + shift - to;
    sum = sum + at::constant_pad_nd(squares.slice(1, from, to), pads, 0);
  }
  const double alpha = call.float_or("alpha", 1e-4F), beta = call.float_or("beta", 0.75F);
  const double bias = call.float_or("bias", 1.0F);
  return like_input(call, x / (bias + alpha / static_cast<double>(size) * sum).pow(beta));
}

Outputs mean_variance_normalization(const Call& call) {
  const at::Tensor x = widened(call.tensor(0));
  Sizes axes;
  for (const std::int64_t axis : call.ints_attribute("axes").value_or(Sizes{0, 2, 3})) {
    axes.push_back(usual_axis(call, axis, x.dim()));
  }
  const Statistics own = statistics(x, axes);
  return like_input(call, (x - own.mean) / (own.variance.sqrt() + 1e-9));
}

constexpr OperatorRow kNormalizationRows[] = {
    {"BatchNormalization", batch_normalization}, {"InstanceNormalization", instance_normalization},
    {"LayerNormalization", layer_normalization}, {"GroupNormalization", group_normalization},
    {"RMSNormalization", rms_normalization},     {"LpNormalization", lp_normalization},
    {"LRN", local_response_normalization},       {"MeanVarianceNormalization", mean_variance_normalization},
};

}  // namespace

std::span<const OperatorRow> normalization_operators() { return kNormalizationRows; }

}  // namespace crumb::libtorch
