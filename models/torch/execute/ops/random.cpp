// Random numbers.
#include "models/torch/execute/ops/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <bit>

#include "models/torch/execute/ops/cast.h"
#include "models/torch/execute/ops/families.h"
#include "models/torch/execute/ops/integers.h"

namespace crumb::torch_ops {

at::Tensor RandomSource::uniform(at::IntArrayRef shape, at::Device device) const {
  return at::rand(shape, generator_, at::TensorOptions().dtype(at::kDouble)).to(device);
}

at::Tensor RandomSource::normal(at::IntArrayRef shape, at::Device device) const {
  return at::randn(shape, generator_, at::TensorOptions().dtype(at::kDouble)).to(device);
}

at::Tensor RandomSource::choices(const at::Tensor& weights, std::int64_t draws) const {
  return at::multinomial(weights.to(at::kCPU), draws, true, generator_).to(weights.device());
}

RandomSource random_source(const Call& call) {
  if (!call.node().has("seed")) return RandomSource(std::nullopt);
  // The attribute is a float (an integer for Dropout); its bits tell seeds apart that a conversion would not.
  const auto& seed = call.node().attributes.at("seed");
  const auto* whole = std::get_if<std::int64_t>(&seed);
  const std::uint64_t bits =
      whole ? static_cast<std::uint64_t>(*whole) : std::bit_cast<std::uint32_t>(call.float_or("seed", 0));
  return RandomSource(at::detail::createCPUGenerator(bits));
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
  const at::Tensor weights = at::softmax(call.tensor(0).to(at::kDouble), -1);
  const at::Tensor drawn = random_source(call).choices(weights, call.int_or("sample_size", 1));
  return {cast({drawn, ElementType::kInt64}, type_attribute(call, "dtype", ElementType::kInt32))};
}

constexpr OperatorRow kRows[] = {
    {"RandomNormal", of_shape<normal_of>},
    {"RandomNormalLike", like<normal_of>},
    {"RandomUniform", of_shape<uniform_of>},
    {"RandomUniformLike", like<uniform_of>},
    {"Bernoulli", bernoulli},
    {"Multinomial", multinomial},
};

}  // namespace

std::span<const OperatorRow> random_operators() { return kRows; }

}  // namespace crumb::torch_ops
