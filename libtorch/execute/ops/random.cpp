// Random numbers.
#include "libtorch/execute/ops/random.h"

#include <ATen/ATen.h>

#include <bit>
#include <numbers>

#include "libtorch/execute/ops/cast.h"
#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/integers.h"

namespace crumb::libtorch {

at::Tensor RandomSource::uniform(at::IntArrayRef shape, at::Device device) {
  at::Tensor out = at::empty(shape, at::TensorOptions().dtype(at::kDouble));
  auto* values = out.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const std::uint64_t high = engine_() >> 5, low = engine_() >> 6;
    values[i] = static_cast<double>((high << 26) + low) * 0x1p-53;
  }
  return out.to(device);
}

at::Tensor RandomSource::normal(at::IntArrayRef shape, at::Device device) {
  const at::Tensor radius = (at::log1p(-uniform(shape, device)) * -2).sqrt();
  return radius * at::cos(uniform(shape, device) * (2 * std::numbers::pi));
}

at::Tensor RandomSource::choices(const at::Tensor& weights, std::int64_t draws) {
  const at::Tensor ends = weights.to(at::kDouble).cumsum(-1);
  const at::Tensor total = ends.narrow(-1, ends.size(-1) - 1, 1);
  const at::Tensor points = uniform({weights.size(0), draws}, weights.device()) * total;
  return at::searchsorted(ends, points, false, true).clamp_max(weights.size(-1) - 1);
}

RandomSource random_source(const Call& call) {
  const auto cut = [](std::int64_t seed) {
    const auto bits = static_cast<std::uint64_t>(seed);
    return static_cast<std::uint32_t>(bits ^ (bits >> 32));
  };
  if (!call.node().has("seed")) {
    const auto drawn = at::randint(std::int64_t{1} << 32, {1}, at::TensorOptions().dtype(at::kLong));
    return RandomSource(cut(drawn.item<std::int64_t>()));
  }
  // An integer for Dropout; else a float, whose bits tell seeds apart that a conversion would not.
  const auto* whole = std::get_if<std::int64_t>(&call.node().attributes.at("seed"));
  return RandomSource(whole ? cut(*whole) : std::bit_cast<std::uint32_t>(call.float_or("seed", 0)));
}

namespace {

using graph::ElementType;

Outputs normal_of(const Call& call, at::IntArrayRef shape, ElementType type, at::Device device) {
  const double mean = call.float_or("mean", 0), scale = call.float_or("scale", 1);
  return {from_real(random_source(call).normal(shape, device) * scale + mean, type)};
}

Outputs uniform_of(const Call& call, at::IntArrayRef shape, ElementType type, at::Device device) {
  const double low = call.float_or("low", 0), high = call.float_or("high", 1);
  return {from_real(random_source(call).uniform(shape, device) * (high - low) + low, type)};
}

using Draw = Outputs (*)(const Call&, at::IntArrayRef, ElementType, at::Device);

template <Draw Function>
Outputs of_shape(const Call& call) {
  const std::vector<std::int64_t> shape = call.node().ints_or("shape", {});
  return Function(call, shape, type_attribute(call, "dtype", ElementType::kFloat), at::kCPU);
}

template <Draw Function>
Outputs like(const Call& call) {
  return Function(call, call.tensor(0).sizes(), type_attribute(call, "dtype", call.type(0)),
                  call.tensor(0).device());
}

Outputs bernoulli(const Call& call) {
  const at::Tensor& p = call.tensor(0);
  const at::Tensor drawn = random_source(call).uniform(p.sizes(), p.device()) < p.to(at::kDouble);
  return {cast({drawn, ElementType::kBool}, type_attribute(call, "dtype", call.type(0)))};
}

Outputs multinomial(const Call& call) {
  const at::Tensor& x = call.tensor(0);
  const std::int64_t draws = call.int_or("sample_size", 1);
  if (x.dim() != 2 || x.size(1) == 0 || draws < 0) {
    call.fail("expected [rows, outcomes] with outcomes and 0 draws or more, found " + text_of(call.in(0)) +
              " and " + std::to_string(draws));
  }
  const at::Tensor drawn = random_source(call).choices(at::softmax(x.to(at::kDouble), -1), draws);
  return {cast({drawn, ElementType::kInt64}, type_attribute(call, "dtype", ElementType::kInt32))};
}

constexpr OperatorRow kRandomRows[] = {
    {"RandomNormal", of_shape<normal_of>},
    {"RandomNormalLike", like<normal_of>},
    {"RandomUniform", of_shape<uniform_of>},
    {"RandomUniformLike", like<uniform_of>},
    {"Bernoulli", bernoulli},
    {"Multinomial", multinomial},
};

}  // namespace

std::span<const OperatorRow> random_operators() { return kRandomRows; }

}  // namespace crumb::libtorch
