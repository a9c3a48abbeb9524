// AdamW (Loshchilov and Hutter, arXiv:1711.05101) whose two moments take two bytes each, or one (8-bit optimizers, Dettmers et al.,
// arXiv:2110.02861), instead of eight a parameter in all.
//
//   kBfloat16   bfloat16
//   kInt8       logarithmic codes in blocks of 256: level(c) = largest of the block * 2^-((top - c) / 8), of the first moment a
//               sign and c in 1..127, of the second c in 1..255, 0 is zero; one float32 a block beside
//
// A second moment changes by a thousandth of itself in a step, far less than two neighbours differ: rounded to the nearest it
// would never fall. Both moments are rounded up or down by chance, so that the mean is right; a second moment that is not zero
// stays so, since the step divides by its root. A step is computed with moments as they are before they are rounded: the first
// is AdamW's. What chance decides follows from the seed and the step.
#pragma once

#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace crumb::qat {

enum class MomentType : std::uint8_t { kBfloat16, kInt8 };

/// One moment of one parameter, as it is kept.
struct KeptMoment {
  at::Tensor codes;  ///< bfloat16, or int8 or uint8; one for each value, in a row
  at::Tensor most;   ///< float32, of each block; undefined in bfloat16

  std::vector<at::Tensor> tensors() const;
};

/// A moment of zeros.
KeptMoment zero_moment(MomentType type, std::int64_t values, bool is_signed, at::Device device);

/// float32. `first`, a multiple of 256, and `count` say which values.
at::Tensor values_of(const KeptMoment& kept, std::int64_t first, std::int64_t count);

/// Puts float32 values there, rounded by `noise`, as many numbers, each a whole one from 0 to 65535, int32. Of a moment that has no sign
/// values are at least 0.
void keep(KeptMoment& kept, std::int64_t first, const at::Tensor& values, const at::Tensor& noise);

class ShortAdamW : public torch::optim::Optimizer {
 public:
  /// `groups` with AdamWOptions (amsgrad is refused); parameters float32.
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
  std::vector<std::vector<Moments>> moments_;  ///< by group and parameter
  at::Tensor noise_;
};

}  // namespace crumb::qat
