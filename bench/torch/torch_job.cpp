#include "bench/torch_job.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>

namespace crumb::bench {
namespace {

class IntegerJob : public TorchJob {
 public:
  IntegerJob(const QuantSpec& spec, const std::vector<float>& values, int64_t rows, int64_t cols)
      : values_(torch::from_blob(const_cast<float*>(values.data()), {rows, cols}, torch::kFloat32)),
        rows_(rows),
        group_(spec.granularity == Granularity::kChannel ? cols : static_cast<int64_t>(spec.block_cols)),
        bits_(spec.number->bits),
        lo_(spec.number->least_code(spec.range)),
        hi_(spec.number->greatest_code(spec.range)),
        half_(spec.scale == ScaleFormat::kF16) {}

  void quantize(int threads) override {
    const c10::InferenceMode guard;
    at::set_num_threads(threads);
    const at::Tensor groups = values_.view({-1, group_});
    scales_ = groups.abs().amax(1, true).div_(static_cast<double>(hi_));
    if (half_) scales_ = scales_.to(torch::kFloat16);
    const at::Tensor codes =
        groups.div(scales_.to(torch::kFloat32)).round_().clamp_(lo_, hi_).to(torch::kInt8).view({rows_, -1});
    if (bits_ != 4) {
      codes_ = codes;
      return;
    }
    const at::Tensor nibbles = codes.bitwise_and(15).view(torch::kUInt8).view({rows_, -1, 2});
    codes_ = nibbles.select(2, 0).bitwise_or(nibbles.select(2, 1).bitwise_left_shift(4));
  }

  void dequantize(int threads) override {
    const c10::InferenceMode guard;
    at::set_num_threads(threads);
    if (!restored_.defined()) restored_ = at::empty_like(values_);
    at::Tensor codes = codes_;
    if (bits_ == 4) {
      const at::Tensor pairs = codes_.view(torch::kInt8);
      if (!unpacked_.defined()) unpacked_ = at::empty({rows_, pairs.size(1), 2}, torch::kInt8);
      at::Tensor low = unpacked_.select(2, 0), high = unpacked_.select(2, 1);
      at::bitwise_left_shift_out(low, pairs, 4).bitwise_right_shift_(4);
      at::bitwise_right_shift_out(high, pairs, 4);
      codes = unpacked_;
    }
    at::Tensor groups = restored_.view({-1, group_});
    groups.copy_(codes.view({-1, group_})).mul_(scales_.to(torch::kFloat32));
  }

  uint64_t differing_values(std::span<const float> values) const override {
    return differing(std::as_bytes(values), restored_) / sizeof(float);
  }

  uint64_t differing_bytes(std::span<const std::byte> codes,
                           std::span<const std::byte> scales) const override {
    const bool whole = bits_ == 4 || bits_ == 8;
    return (whole ? differing(codes, codes_) : 0) + differing(scales, scales_);
  }

 private:
  static uint64_t differing(std::span<const std::byte> ours, const at::Tensor& tensor) {
    const at::Tensor flat = tensor.contiguous();
    if (flat.nbytes() != ours.size()) return std::max<uint64_t>(flat.nbytes(), ours.size());
    const auto* theirs = static_cast<const std::byte*>(flat.data_ptr());
    const size_t width = flat.element_size();
    uint64_t count = 0;
    for (size_t i = 0; i < ours.size(); i += width) {
      if (std::memcmp(&ours[i], theirs + i, width) != 0) count += width;
    }
    return count;
  }

  at::Tensor values_, scales_, codes_, unpacked_, restored_;
  int64_t rows_, group_;
  int bits_, lo_, hi_;
  bool half_;
};

}  // namespace

bool has_torch() { return true; }

std::unique_ptr<TorchJob> make_torch_job(const QuantSpec& spec, const std::vector<float>& values,
                                         uint64_t rows, uint64_t cols) {
  const bool by_row = spec.granularity == Granularity::kChannel ||
                      (spec.granularity == Granularity::kGroup && cols % spec.block_cols == 0);
  const bool plain = spec.number->grid == Grid::kInteger && spec.number->is_signed && !spec.block_format &&
                     spec.search == Search::kAbsmax && spec.zero == ZeroPoint::kNone &&
                     spec.round.rounding == Rounding::kHalfEven &&
                     (spec.scale == ScaleFormat::kF32 || spec.scale == ScaleFormat::kF16);
  const bool whole = spec.number->bits != 4 || cols % 2 == 0;
  if (!by_row || !plain || !whole || values.empty()) return nullptr;
  return std::make_unique<IntegerJob>(spec, values, static_cast<int64_t>(rows), static_cast<int64_t>(cols));
}

}  // namespace crumb::bench
