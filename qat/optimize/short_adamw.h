// AdamW (Loshchilov and Hutter, arXiv:1711.05101) whose two moments take two bytes each, or one (8-bit
// optimizers, Dettmers et al., arXiv:2110.02861), instead of eight a parameter for both.
//
//   kBfloat16   bfloat16
//   kInt8       logarithmic codes in blocks of 256: level(c) = largest of the block * 2^-((top - c) / 8). The
//               first moment has a sign and c in 1..127, the second c in 1..255; 0 is zero. Each block also
//               has one float32
//
// A second moment changes by a thousandth of itself in a step, far less than the distance of two neighbours:
// rounded to the nearest it would never fall. So both moments are rounded up or down at random, with the
// right mean. A second moment that is not zero stays so, because the step divides by its root. A step is
// computed with the moments before they are rounded: the first step is AdamW's. The random numbers follow
// from the seed and the step.
#pragma once

#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace crumb::qat {

enum class MomentType : std::uint8_t { kBfloat16, kInt8 };

/// One moment of one parameter, as it is stored.
struct KeptMoment {
  at::Tensor codes;  ///< bfloat16, or int8 or uint8; one a value, one-dimensional
  at::Tensor most;   ///< float32, one a block; undefined in bfloat16

  std::vector<at::Tensor> tensors() const;
};

/// Returns a moment of zeros.
KeptMoment zero_moment(MomentType type, std::int64_t values, bool is_signed, at::Device device);

/// Returns `count` values from `first`, a multiple of 256, as float32.
at::Tensor values_of(const KeptMoment& kept, std::int64_t first, std::int64_t count);

/// Stores float32 values from `first` on, rounded by `noise`: as many int32 numbers, each from 0 to 65535.
/// The values of an unsigned moment are at least 0.
void keep(KeptMoment& kept, std::int64_t first, const at::Tensor& values, const at::Tensor& noise);

class ShortAdamW : public torch::optim::Optimizer {
 public:
  /// `groups` have AdamWOptions (amsgrad is refused); parameters are float32.
  ShortAdamW(std::vector<torch::optim::OptimizerParamGroup> groups,
             const torch::optim::AdamWOptions& defaults, MomentType type, std::uint64_t seed);

  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Moments {
    KeptMoment first, second;
  };
  void update(at::Tensor& parameter, const torch::optim::AdamWOptions& options, Moments& moments,
              std::uint64_t number);
  std::vector<at::Tensor> kept() const;
  const at::Tensor& noise_on(at::Device device);

  MomentType type_;
  std::uint64_t seed_;
  std::int64_t steps_ = 0;
  std::vector<std::vector<Moments>> moments_;  ///< indexed by group and parameter
  at::Tensor noise_;
};

}  // namespace crumb::qat
