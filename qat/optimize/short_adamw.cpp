#include "qat/optimize/short_adamw.h"

#include <ATen/ATen.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "base/split_mix.h"

namespace crumb::qat {
namespace {

constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kAtOnce = std::int64_t{1}
                                 << 20;  ///< values of a parameter in one piece: bounds a step's extra memory
constexpr double kStepsOfOctave = 8;
constexpr int kMostNoise = 1 << 16;

bool is_logarithmic(const KeptMoment& kept) { return kept.most.defined(); }
bool has_sign(const KeptMoment& kept) { return kept.codes.scalar_type() != at::kByte; }
double top_of(const KeptMoment& kept) { return has_sign(kept) ? 127 : 255; }

std::int64_t blocks_of(std::int64_t values) { return (values + kBlock - 1) / kBlock; }

/// Returns [blocks, 256], the last block filled up with zeros.
at::Tensor in_blocks(const at::Tensor& values) {
  const std::int64_t blocks = blocks_of(values.numel());
  return at::constant_pad_nd(values, {0, blocks * kBlock - values.numel()}).view({blocks, kBlock});
}

/// Returns level(c) of the header as a share of the largest; 0 for 0.
at::Tensor level(const at::Tensor& code, double top) {
  return at::where(code > 0, at::exp2((code - top) / kStepsOfOctave), 0.0);
}

/// Returns the codes of shares: magnitudes over the largest.
at::Tensor codes_of(const at::Tensor& share, const at::Tensor& noise, double top,
                    bool keeps_apart_from_zero) {
  const at::Tensor below = (top + kStepsOfOctave * at::log2(share)).floor().clamp(0, top - 1);  // -inf for 0
  const at::Tensor lower = level(below, top);
  const at::Tensor chance = (share - lower) / (level(below + 1, top) - lower);
  at::Tensor code = below + (noise < chance * kMostNoise).to(at::kFloat);
  if (keeps_apart_from_zero) code = at::where(share > 0, code.clamp_min(1), code);
  return code;
}

}  // namespace

std::vector<at::Tensor> KeptMoment::tensors() const {
  return most.defined() ? std::vector{codes, most} : std::vector{codes};
}

KeptMoment zero_moment(MomentType type, std::int64_t values, bool is_signed, at::Device device) {
  if (type == MomentType::kBfloat16)
    return {.codes = at::zeros({values}, at::TensorOptions(at::kBFloat16).device(device)), .most = {}};
  return {.codes = at::zeros({values}, at::TensorOptions(is_signed ? at::kChar : at::kByte).device(device)),
          .most = at::zeros({blocks_of(values)}, at::TensorOptions(at::kFloat).device(device))};
}

at::Tensor values_of(const KeptMoment& kept, std::int64_t first, std::int64_t count) {
  const at::Tensor codes = kept.codes.narrow(0, first, count).to(at::kFloat);
  if (!is_logarithmic(kept)) return codes;
  const at::Tensor most = kept.most.narrow(0, first / kBlock, blocks_of(count)).unsqueeze(1);
  const at::Tensor shares = in_blocks(level(codes.abs(), top_of(kept)) * codes.sign());
  return (shares * most).view({-1}).narrow(0, 0, count);
}

void keep(KeptMoment& kept, std::int64_t first, const at::Tensor& values, const at::Tensor& noise) {
  const std::int64_t count = values.numel();
  at::Tensor part = kept.codes.narrow(0, first, count);
  if (!is_logarithmic(kept)) {
    // The upper half of the bits, plus one where the noise carries.
    const at::Tensor bits = values.view(at::kInt) + noise;
    part.copy_((bits - bits.bitwise_and(kMostNoise - 1)).view(at::kFloat));
    return;
  }
  const at::Tensor blocks = in_blocks(values.abs());
  const at::Tensor most = std::get<0>(blocks.max(1, /*keepdim=*/true));
  kept.most.narrow(0, first / kBlock, most.numel()).copy_(most.view({-1}));
  const at::Tensor share = at::where(most > 0, blocks / most, 0.0).view({-1}).narrow(0, 0, count);
  part.copy_(codes_of(share, noise, top_of(kept), !has_sign(kept)) * values.sign());
}

ShortAdamW::ShortAdamW(std::vector<torch::optim::OptimizerParamGroup> groups,
                       const torch::optim::AdamWOptions& defaults, MomentType type, std::uint64_t seed)
    : Optimizer(std::move(groups), std::make_unique<torch::optim::AdamWOptions>(defaults)),
      type_(type),
      seed_(seed) {
  for (const auto& group : param_groups()) {
    if (static_cast<const torch::optim::AdamWOptions&>(group.options()).amsgrad())
      throw Error("short moments are for AdamW without amsgrad");
    moments_.emplace_back();
    for (const at::Tensor& parameter : group.params())
      moments_.back().push_back({zero_moment(type, parameter.numel(), true, parameter.device()),
                                 zero_moment(type, parameter.numel(), false, parameter.device())});
  }
}

const at::Tensor& ShortAdamW::noise_on(at::Device device) {
  if (noise_.defined() && noise_.device() == device) return noise_;
  std::mt19937_64 random(seed_);
  const at::Tensor made = at::empty({2 * kAtOnce}, at::kInt);
  for (std::int64_t i = 0; i < made.numel(); ++i)
    made.mutable_data_ptr<int>()[i] = static_cast<int>(random() % kMostNoise);
  return noise_ = made.to(device);
}

void ShortAdamW::update(at::Tensor& parameter, const torch::optim::AdamWOptions& options, Moments& moments,
                        std::uint64_t number) {
  const auto [beta1, beta2] = options.betas();
  const auto steps = static_cast<double>(steps_);
  const double correction1 = 1 - std::pow(beta1, steps), root2 = std::sqrt(1 - std::pow(beta2, steps));
  const at::Tensor gradient = parameter.grad().contiguous().view({-1});
  at::Tensor flat = parameter.is_contiguous() ? parameter.view({-1}) : parameter.flatten();
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, flat.numel() - begin);
    const at::Tensor g = gradient.narrow(0, begin, count);
    const at::Tensor m = at::lerp(values_of(moments.first, begin, count), g, 1 - beta1);
    const at::Tensor v = values_of(moments.second, begin, count).mul_(beta2).addcmul_(g, g, 1 - beta2);
    const at::Tensor scale = (v.sqrt() / root2).add_(options.eps());
    at::Tensor part = flat.narrow(0, begin, count);
    part.mul_(1 - options.lr() * options.weight_decay());
    part.addcdiv_(m, scale, -options.lr() / correction1);
    const std::uint64_t chance =
        split_mix(split_mix(split_mix(seed_ ^ static_cast<std::uint64_t>(steps_)) ^ number) ^
                  static_cast<std::uint64_t>(begin));
    const at::Tensor& noise = noise_on(flat.device());
    const auto offset = [](std::uint64_t bits) { return static_cast<std::int64_t>(bits % kAtOnce); };
    keep(moments.first, begin, m, noise.narrow(0, offset(chance), count));
    keep(moments.second, begin, v, noise.narrow(0, offset(chance >> 32), count));
  }
  if (!parameter.is_contiguous()) parameter.copy_(flat.view(parameter.sizes()));
}

at::Tensor ShortAdamW::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  const torch::NoGradGuard no_gradients;
  ++steps_;
  std::uint64_t number = 0;
  for (std::size_t group = 0; group < moments_.size(); ++group) {
    const auto& options = static_cast<const torch::optim::AdamWOptions&>(param_groups()[group].options());
    auto& parameters = param_groups()[group].params();
    for (std::size_t i = 0; i < parameters.size(); ++i, ++number)
      if (parameters[i].grad().defined()) update(parameters[i], options, moments_[group][i], number);
  }
  return loss;
}

std::vector<at::Tensor> ShortAdamW::kept() const {
  std::vector<at::Tensor> all;
  for (const auto& group : moments_)
    for (const Moments& one : group)
      for (const KeptMoment* moment : {&one.first, &one.second})
        for (const at::Tensor& tensor : moment->tensors()) all.push_back(tensor);
  return all;
}

void ShortAdamW::save(torch::serialize::OutputArchive& archive) const {
  archive.write("steps", c10::IValue(steps_));
  archive.write("moments", c10::IValue(kept()));
}

void ShortAdamW::load(torch::serialize::InputArchive& archive) {
  c10::IValue steps, moments;
  archive.read("steps", steps);
  archive.read("moments", moments);
  const std::vector<at::Tensor> from = moments.toTensorVector(), into = kept();
  bool fits = from.size() == into.size();
  for (std::size_t i = 0; fits && i < into.size(); ++i)
    fits = from[i].sizes() == into[i].sizes() && from[i].scalar_type() == into[i].scalar_type();
  if (!fits) throw Error("the kept moments are none of these parameters, or of another type");
  for (std::size_t i = 0; i < into.size(); ++i) into[i].copy_(from[i]);
  steps_ = steps.toInt();
}

}  // namespace crumb::qat
