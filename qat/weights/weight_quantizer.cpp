#include "qat/weights/weight_quantizer.h"

#include <torch/utils.h>

#include <cmath>

#include "base/files/text.h"
#include "base/within.h"
#include "libtorch/fake_quantize.h"
#include "qat/weights/scales.h"
#include "qat/weights/weight_codes.h"
#include "quant/quantizer.h"

namespace crumb::qat {
namespace {

/// Returns the scale of each block, in the parameter's shape; 1 for a block of zeros.
at::Tensor scales_in(const QuantizedTensor& codes, const at::Tensor& parameter) {
  const RowDecoder decoder(codes.view());
  const at::Tensor scales = at::empty({parameter.numel()}, at::kFloat);
  for (std::int64_t block = 0; block < scales.numel(); ++block) {
    const float scale = decoder.scale(static_cast<std::uint64_t>(block));
    scales.mutable_data_ptr<float>()[block] = scale > 0 ? scale : 1;
  }
  return scales.view(parameter.sizes());
}

/// Returns combine(x, scales), each element with its block's scale. Where blocks divide the matrix, scales
/// are not expanded to its size.
template <class Combine>
at::Tensor by_blocks(const QuantSpec& spec, const at::Tensor& x, const at::Tensor& scales,
                     const Combine& combine) {
  const std::vector<std::uint64_t> sizes = shape_of(x);
  const Encoding encoding = spec.encoding(sizes);
  const EncodedLayout layout = encoded_layout(encoding, sizes).take("a weight");
  const auto whole = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  const std::int64_t down = whole(layout.block_rows), across = whole(layout.blocks_per_row),
                     rows = whole(layout.matrix.rows), columns = whole(layout.matrix.cols),
                     high = std::min(whole(encoding.block_rows), rows),
                     wide = std::min(whole(encoding.block_cols), columns);
  const at::Tensor of_blocks = scales.view({down, 1, across, 1});
  if (down * high == rows && across * wide == columns)
    return combine(x.reshape({down, high, across, wide}), of_blocks).reshape(x.sizes());
  const at::Tensor of_all = of_blocks.expand({down, high, across, wide})
                                .reshape({down * high, across * wide})
                                .narrow(0, 0, rows)
                                .narrow(1, 0, columns);
  return combine(x, of_all.reshape(x.sizes()));
}

class StatisticsQuantizer : public WeightQuantizer {
 public:
  explicit StatisticsQuantizer(const QuantSpec& spec) : spec_(spec) {}
  void start(at::Tensor&) override {}
  at::Tensor quantized(const at::Tensor& latent) override { return fake_quantize(latent, spec_); }
  QuantizedTensor freeze(const at::Tensor& latent) override {
    const at::Tensor x = plain(latent);
    return quantize(spec_, span_of(x), shape_of(x), {.threads = at::get_num_threads()});
  }
  at::Tensor scales(const at::Tensor& latent) override { return find_scales(latent.detach(), spec_).scale; }

 private:
  QuantSpec spec_;
};

/// BitNet b1.58: one scale for each block, the mean of its magnitudes.
class MeanQuantizer : public WeightQuantizer {
 public:
  explicit MeanQuantizer(const QuantSpec& spec) : spec_(spec) {}
  void start(at::Tensor&) override {}
  at::Tensor quantized(const at::Tensor& latent) override {
    return fake_quantize(latent, scales(latent), std::nullopt, spec_);
  }
  QuantizedTensor freeze(const at::Tensor& latent) override {
    return codes_under(spec_, latent, scales(latent));
  }
  at::Tensor scales(const at::Tensor& latent) override {
    return stored_scales(spec_, mean(latent.detach().abs()));
  }

 private:
  /// Returns the mean over the weights that are kept; one number, or one for each row.
  at::Tensor mean(const at::Tensor& x) const {
    const std::int64_t rows = spec_.granularity == Granularity::kTensor || x.dim() < 2 ? 1 : x.size(0);
    const at::Tensor sizes = x.reshape({rows, -1});
    if (!kept_.defined()) return sizes.mean(1);
    return sizes.sum(1) / kept_.to(x.device()).reshape({rows, -1}).sum(1).clamp_min(1);
  }

  QuantSpec spec_;
};

class LearnedQuantizer : public WeightQuantizer {
 public:
  explicit LearnedQuantizer(const QuantSpec& spec) : spec_(spec) {}

  void start(at::Tensor& latent) override {
    const torch::NoGradGuard no_gradients;
    const FoundScales found = find_scales(latent, spec_);
    // A block of zeros starts with scale 1: any positive scale gives zeros.
    set_parameter(*this, "scale", scale_,
                  at::where(found.scale > 0, found.scale, at::ones_like(found.scale)));
    if (found.zero_point) set_parameter(*this, "zero_point", zero_point_, *found.zero_point);
    factor_ = lsq_factor(spec_, latent.numel() / std::max<std::int64_t>(1, found.scale.numel()));
  }
  void take_scales(const QuantizedTensor& codes) override {
    const torch::NoGradGuard no_gradients;
    scale_.copy_(scales_in(codes, scale_));
    set_buffer("grid_scale", grid_scale_, scale_);
    if (!zero_point_.defined()) return;
    const RowDecoder decoder(codes.view());
    const at::Tensor zeros = at::empty({zero_point_.numel()}, at::kFloat);
    for (std::int64_t block = 0; block < zeros.numel(); ++block)
      zeros.mutable_data_ptr<float>()[block] = decoder.zero_point(static_cast<std::uint64_t>(block));
    zero_point_.copy_(zeros.view(zero_point_.sizes()));
  }
  bool fix_codes(const at::Tensor& latent) override {
    const torch::NoGradGuard no_gradients;
    set_buffer("levels", levels_, levels_of(latent, grid_scale_.defined() ? grid_scale_ : used()));
    if (zero_point_.defined()) zero_point_.set_requires_grad(false);
    return true;
  }
  at::Tensor quantized(const at::Tensor& latent) override {
    if (!levels_.defined() && !grid_scale_.defined()) return fake_quantize(latent, used(), zero(), spec_);
    const at::Tensor levels = levels_.defined() ? levels_ : levels_of(latent, grid_scale_);
    return by_blocks(spec_, levels, used(), [](const auto& a, const auto& b) { return a * b; });
  }
  QuantizedTensor freeze(const at::Tensor& latent) override {
    const torch::NoGradGuard no_gradients;
    const bool is_apart = levels_.defined() || grid_scale_.defined();
    const at::Tensor x = plain(is_apart ? quantized(latent) : latent), s = plain(scales(latent));
    const at::Tensor z = zero_point_.defined() ? plain(*zero()) : at::Tensor();
    return quantize_with_scales(
        spec_, span_of(x), shape_of(x),
        {.scales = span_of(s), .zeros = z.defined() ? span_of(z) : std::span<const float>()},
        at::get_num_threads());
  }
  at::Tensor scales(const at::Tensor&) override { return used_scales(spec_, scale_.detach(), factor_); }

 private:
  at::Tensor used() const { return used_scales(spec_, scale_, factor_); }

  /// Returns codes less zero points, under these scales: at scale 1 the values are the grid's own.
  at::Tensor levels_of(const at::Tensor& latent, const at::Tensor& scales) const {
    const at::Tensor shares =
        by_blocks(spec_, latent, scales, [](const auto& a, const auto& b) { return a / b; });
    return fake_quantize(shares, at::ones_like(scales), zero(), spec_);
  }

  void set_buffer(const char* name, at::Tensor& buffer, const at::Tensor& values) {
    if (buffer.defined())
      buffer.copy_(values);
    else
      buffer = register_buffer(name, values.detach().clone());
  }

  /// Returns the zero point, whole where the spec says so, and within the codes.
  std::optional<at::Tensor> zero() const {
    if (!zero_point_.defined()) return std::nullopt;
    return used_zero_points(spec_, zero_point_);
  }

  QuantSpec spec_;
  at::Tensor scale_, zero_point_;
  at::Tensor levels_;  ///< one code less zero point for each weight; undefined: codes follow from latent
  /// The scale by which codes follow from latent; undefined: the scale that learns. Where training starts on
  /// the grid itself there are no rounding errors, of which LSQ's gradient of a scale consists: such a scale
  /// would move by noise alone.
  at::Tensor grid_scale_;
  double factor_ = 1;
};

class NormQuantizer : public WeightQuantizer {
 public:
  explicit NormQuantizer(const QuantSpec& spec) : spec_(spec) {}

  void start(at::Tensor& latent) override {
    const torch::NoGradGuard no_gradients;
    const at::Tensor norm = rows_of(latent).norm(2, 1).clamp_min(1e-10);
    set_parameter(*this, "log2_norm", log2_norm_, at::log2(norm));
    const at::Tensor found = find_scales(latent, spec_).scale;
    set_parameter(*this, "log2_scale", log2_scale_,
                  at::log2(at::where(found > 0, found, at::ones_like(found))));
  }
  void take_scales(const QuantizedTensor& codes) override {
    const torch::NoGradGuard no_gradients;
    log2_scale_.copy_(at::log2(scales_in(codes, log2_scale_)));
  }
  at::Tensor quantized(const at::Tensor& latent) override {
    return fake_quantize(normalised(latent), stored_scales(spec_, at::exp2(log2_scale_)), std::nullopt,
                         spec_);
  }
  QuantizedTensor freeze(const at::Tensor& latent) override {
    const torch::NoGradGuard no_gradients;
    return codes_under(spec_, normalised(latent), scales(latent));
  }
  at::Tensor scales(const at::Tensor&) override {
    return stored_scales(spec_, at::exp2(log2_scale_.detach()));
  }

 private:
  static at::Tensor rows_of(const at::Tensor& latent) {
    return latent.reshape({latent.dim() < 2 ? 1 : latent.size(0), -1});
  }
  at::Tensor normalised(const at::Tensor& latent) const {
    const at::Tensor rows = rows_of(latent);
    const at::Tensor norm = rows.norm(2, 1, /*keepdim=*/true).clamp_min(1e-10);
    return (rows * (at::exp2(log2_norm_).unsqueeze(1) / norm)).view(latent.sizes());
  }

  QuantSpec spec_;
  at::Tensor log2_norm_, log2_scale_;
};

A2qSettings settings_of(const QuantSpec& spec, const AccumulatorConstraint& constraint) {
  return {.weight_bits = spec.number->bits,
          .centred = constraint.goal.method == AccumulatorGoal::Method::kA2qPlus,
          .tile = constraint.goal.tile,
          .accumulator_bits = constraint.goal.bits,
          .scale = spec.scale,
          .input = constraint.input};
}

}  // namespace

std::shared_ptr<WeightQuantizer> make_weight_quantizer(const QuantSpec& spec, WeightScales scales,
                                                       const std::string& what) {
  const bool plain_scales = !spec.block_format && !spec.number->learned;
  const auto needs = [&](bool good, const char* method) {
    if (good) return;
    throw Error(what + ": " + method +
                " needs a scale for each channel or for the tensor and no zero point, found " +
                spec.to_string());
  };
  const bool channels = spec.granularity == Granularity::kTensor || spec.granularity == Granularity::kChannel;
  switch (scales) {
    case WeightScales::kMean:
      needs(plain_scales && channels && spec.zero == ZeroPoint::kNone, "a scale from the mean magnitude");
      return std::make_shared<MeanQuantizer>(spec);
    case WeightScales::kNorm:
      needs(plain_scales && channels && spec.zero == ZeroPoint::kNone, "weight normalization");
      return std::make_shared<NormQuantizer>(spec);
    case WeightScales::kLearned:
      if (plain_scales) return std::make_shared<LearnedQuantizer>(spec);
      break;
    case WeightScales::kStatistics: break;
  }
  return std::make_shared<StatisticsQuantizer>(spec);
}

AccumulatorQuantizer::AccumulatorQuantizer(const QuantSpec& spec, const AccumulatorConstraint& constraint,
                                           const std::string& what)
    : spec_(spec), constraint_(constraint), settings_(settings_of(spec, constraint)), what_(what) {
  const bool channels = spec.granularity == Granularity::kTensor || spec.granularity == Granularity::kChannel;
  const bool integers =
      spec.number->grid == Grid::kInteger && spec.number->is_signed && spec.number->bits >= 2;
  if (integers && channels && spec.zero == ZeroPoint::kNone && !spec.block_format) return;
  const bool no_zero = spec.number->grid == Grid::kHalfInteger || spec.number->grid == Grid::kBinary;
  throw Error(
      what + ": an accumulator of " + std::to_string(constraint.goal.bits) +
      " bits cannot be kept by weights of " + spec.to_string() + (no_zero ? ", whose grid has no zero" : "") +
      "; expected signed integers with a scale for each channel or for the tensor, as in int4:channel");
}

void AccumulatorQuantizer::set_input(IntegerRange input) {
  constraint_.input = input;
  settings_.input = input;
}

void AccumulatorQuantizer::start(at::Tensor& latent) {
  const torch::NoGradGuard no_gradients;
  const at::Tensor rows = latent.reshape({latent.dim() < 2 ? 1 : latent.size(0), -1});
  const at::Tensor weights = plain(rows).to(at::kDouble);
  const std::int64_t columns = weights.size(1), tiles = settings_.tiles(columns);
  const std::int64_t tile = tiles == 1 ? columns : settings_.tile;
  const at::Tensor found = find_scales(latent, spec_).scale.to(at::kCPU, at::kDouble);
  const at::Tensor scale = at::where(found > 0, found, at::ones_like(found));
  const at::Tensor norms = at::empty({weights.size(0) * tiles}, at::kFloat);
  for (std::int64_t row = 0; row < weights.size(0); ++row) {
    const double s = scale.const_data_ptr<double>()[scale.numel() == 1 ? 0 : row];
    for (std::int64_t t = 0; t < tiles; ++t) {
      const std::int64_t first = t * tile, count = std::min(tile, columns - first);
      double* w = weights.mutable_data_ptr<double>() + row * columns + first;
      RowParameters parameters{.log2_norm = 0, .log2_scale = std::log2(s)};
      for (std::int64_t i = 0; i < count; ++i) parameters.log2_norm += std::fabs(w[i]);
      parameters.log2_norm = std::log2(std::max(parameters.log2_norm, 1e-10));
      const double bias =
          bias_.empty() || t > 0 ? 0 : static_cast<double>(std::abs(bias_[static_cast<std::size_t>(row)]));
      const std::span<double> piece(w, static_cast<std::size_t>(count));
      const double budget = settings_.budget(bias);
      parameters = settings_.centred ? a2q_plus_project(piece, parameters, budget)
                                     : a2q_project(piece, parameters, budget);
      norms.mutable_data_ptr<float>()[row * tiles + t] = static_cast<float>(parameters.log2_norm);
    }
  }
  latent.copy_(weights.to(latent.scalar_type()).view(latent.sizes()));
  set_parameter(*this, "log2_norm", log2_norm_, norms.to(latent.device()));
  set_parameter(*this, "log2_scale", log2_scale_, at::log2(scale).to(latent.device(), at::kFloat));
}

at::Tensor AccumulatorQuantizer::quantized(const at::Tensor& latent) {
  const at::Tensor rows = latent.reshape({latent.dim() < 2 ? 1 : latent.size(0), -1});
  try {
    const at::Tensor kept = kept_.defined() ? kept_.reshape(rows.sizes()) : at::Tensor();
    A2qResult made = a2q_values(rows, log2_norm_, log2_scale_, bias_, settings_, kept);
    repaired_ = made.repaired;
    return made.values.view(latent.sizes());
  } catch (const Error& error) {
    throw within(what_, error);
  }
}

QuantizedTensor AccumulatorQuantizer::freeze(const at::Tensor& latent) {
  const torch::NoGradGuard no_gradients;
  return codes_under(spec_, quantized(latent), scales(latent));
}

at::Tensor AccumulatorQuantizer::scales(const at::Tensor&) { return a2q_scales(log2_scale_, spec_.scale); }

at::Tensor AccumulatorQuantizer::penalty() const {
  return a2q_penalty(log2_norm_, log2_scale_, bias_, settings_);
}

}  // namespace crumb::qat
