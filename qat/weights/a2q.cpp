#include "qat/weights/a2q.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <list>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/within.h"
#include "libtorch/parallel.h"
#include "quant/loops/loops.h"

namespace crumb::qat {
namespace {

constexpr double kLeastNorm = 1e-10;
constexpr double kLn2 = 0.693147180559945309417;
constexpr std::size_t kPiece = 1 << 15;   // columns at a time, so that sums of codes fit the loops' lanes
constexpr std::int64_t kGrain = 1 << 14;  // weights that a thread takes at a time
constexpr std::int64_t kNormFields = 4;   // numbers that the backward pass needs again

at::Tensor on_cpu(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.detach().to(at::kCPU, type).contiguous();
}

/// One register's weights: columns [first, first + count) of a row.
struct Piece {
  std::int64_t row, first, count;
  bool starts_with_bias;
};

struct Pieces {
  std::int64_t columns, tiles, tile;
  Pieces(std::int64_t columns_of, const A2qSettings& settings)
      : columns(columns_of),
        tiles(settings.tiles(columns_of)),
        tile(tiles == 1 ? columns_of : settings.tile) {}
  Piece at(std::int64_t index) const {
    const std::int64_t row = index / tiles, first = index % tiles * tile;
    return {row, first, std::min(tile, columns - first), index % tiles == 0};
  }
};

/// The norm of a register's weights, and the factor that scales the weights.
struct Norm {
  double mean = 0, norm = kLeastNorm, factor = 0;  ///< factor: c
  double free = 0;                                 ///< 2^t where 2^t / s, not the budget, decides; else 0
};

Norm norm_of(std::span<const float> weights, double log2_norm, double scale, double budget, bool centred) {
  Norm found;
  const auto count = static_cast<double>(weights.size());
  if (centred && !weights.empty()) found.mean = loops().row_sum(weights.data(), weights.size()) / count;
  const double sum = loops().row_norm(weights.data(), weights.size(), found.mean);
  if (!std::isfinite(sum)) {
    throw Error("the weights hold inf or NaN; only finite values can be quantized");
  }
  found.norm = std::max(sum, kLeastNorm);
  const double norm = std::exp2(log2_norm), requested = norm / scale;
  if (requested <= budget) found.free = norm;
  found.factor = std::min(requested, budget);
  return found;
}

std::int64_t bias_of(const std::vector<std::int64_t>& bias, const Piece& piece) {
  return bias.empty() || !piece.starts_with_bias ? 0 : bias[static_cast<std::size_t>(piece.row)];
}

/// The parameters as plain tensors on the CPU.
struct Operands {
  at::Tensor weights, log2_norm, scale, kept;
  const A2qSettings& settings;
  const std::vector<std::int64_t>& bias;
  Pieces pieces;

  Operands(const at::Tensor& w, const at::Tensor& t, const at::Tensor& d, const at::Tensor& mask,
           const std::vector<std::int64_t>& b, const A2qSettings& of)
      : weights(on_cpu(w, at::kFloat)),
        log2_norm(on_cpu(t, at::kDouble)),
        scale(a2q_scales(d, of.scale)),
        kept(mask.defined() ? on_cpu(mask, at::kBool) : at::Tensor()),
        settings(of),
        bias(b),
        pieces(w.size(1), of) {}

  std::int64_t count() const { return weights.size(0) * pieces.tiles; }
  float scale_of(std::int64_t row) const {
    return scale.const_data_ptr<float>()[scale.numel() == 1 ? 0 : row];
  }
  Norm norm(std::int64_t index, const Piece& piece, std::span<const float> row) const {
    const auto size = static_cast<double>(std::abs(bias_of(bias, piece)));
    return norm_of(row, log2_norm.const_data_ptr<double>()[index], static_cast<double>(scale_of(piece.row)),
                   settings.budget(size), settings.centred);
  }
};

/// Moves codes, in exact integers, until they fit the register. Returns the number of steps.
std::int64_t repaired(const Operands& operands, const Piece& piece, const Norm& norm,
                      std::span<const float> weights, std::span<float> values) {
  const float scale = operands.scale_of(piece.row);
  const double most = std::ldexp(1.0, operands.settings.weight_bits - 1) - 1;
  const double pre = norm.norm / norm.factor;
  std::vector<std::int64_t> codes(weights.size());
  std::vector<double> latent(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    latent[i] = (static_cast<double>(weights[i]) - norm.mean) / pre;
    codes[i] = static_cast<std::int64_t>(std::clamp(latent[i], -most, most));
  }
  try {
    const std::int64_t steps = repair_row(codes, latent, operands.settings.input,
                                          operands.settings.accumulator_bits, bias_of(operands.bias, piece));
    for (std::size_t i = 0; i < codes.size(); ++i) values[i] = static_cast<float>(codes[i]) * scale;
    return steps;
  } catch (const Error& error) {
    throw within("output channel " + std::to_string(piece.row), error);
  }
}

/// Computes the values of a register's weights, repaired. Returns the number of repair's steps.
std::int64_t quantize_piece(const Operands& operands, const Piece& piece, const Norm& norm,
                            std::span<const float> weights, std::span<float> values) {
  const int most = (1 << (operands.settings.weight_bits - 1)) - 1;
  const double pre = norm.norm / norm.factor;  // divided as in a2q_codes_ref
  SignedSums sums;
  for (std::size_t first = 0; first < weights.size(); first += kPiece) {
    const std::size_t count = std::min(kPiece, weights.size() - first);
    const SignedSums some = loops().row_codes(weights.data() + first, count, norm.mean, pre, most,
                                              operands.scale_of(piece.row), values.data() + first);
    sums.positive += some.positive;
    sums.negative += some.negative;
  }
  const IntegerRange range = operands.settings.input.with_zero();
  const std::int64_t start = bias_of(operands.bias, piece);
  // Codes are at most 2^7 and inputs at most 2^32: no overflow for rows below 2^23; repair_row checks others.
  const WorstSums worst{
      .max = std::max<std::int64_t>(start, 0) + sums.positive * range.high + sums.negative * range.low,
      .min = std::min<std::int64_t>(start, 0) + sums.positive * range.low + sums.negative * range.high};
  if (weights.size() < (std::size_t{1} << 22) && fits(worst, operands.settings.accumulator_bits)) return 0;
  return repaired(operands, piece, norm, weights, values);
}

/// Gathers those of a register's numbers that are not pruned, and scatters them back.
class Kept {
 public:
  Kept(const at::Tensor& mask, std::int64_t first, std::int64_t count)
      : mask_(mask.defined() ? mask.const_data_ptr<bool>() + first : nullptr),
        count_(static_cast<std::size_t>(count)) {}

  std::span<const float> packed(const float* numbers) {
    if (!mask_) return {numbers, count_};
    std::vector<float>& packed = packed_.emplace_back();
    for (std::size_t i = 0; i < count_; ++i) {
      if (mask_[i]) packed.push_back(numbers[i]);
    }
    return packed;
  }

  /// Calls f with room for as many numbers as are kept; pruned ones become 0.
  template <class Function>
  void unpacked(float* numbers, std::size_t kept, const Function& f) {
    if (!mask_) return f(std::span(numbers, count_));
    std::vector<float> made(kept);
    f(std::span(made));
    std::size_t next = 0;
    for (std::size_t i = 0; i < count_; ++i) numbers[i] = mask_[i] ? made[next++] : 0.0F;
  }

 private:
  const bool* mask_;
  std::size_t count_;
  std::list<std::vector<float>> packed_;  // the results of packed()
};

/// Calls f(index) for the registers, on LibTorch's threads.
template <class Function>
void for_pieces(std::int64_t count, const Pieces& pieces, const Function& f) {
  const std::int64_t at_once = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, pieces.tile));
  torch_parallel_for((count + at_once - 1) / at_once, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin * at_once; index < std::min(count, end * at_once); ++index) f(index);
  });
}

struct A2qFunction : torch::autograd::Function<A2qFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& weights,
                            const at::Tensor& log2_norm, const at::Tensor& log2_scale,
                            const std::vector<std::int64_t>& bias, const A2qSettings& settings,
                            const std::optional<at::Tensor>& mask, std::int64_t* repaired) {
    const Operands operands(weights, log2_norm, log2_scale, mask.value_or(at::Tensor()), bias, settings);
    const at::Tensor values = at::empty_like(operands.weights);
    const at::Tensor norms = at::empty({operands.count(), kNormFields}, at::kDouble);
    float* first = values.mutable_data_ptr<float>();
    double* fields = norms.mutable_data_ptr<double>();
    std::atomic<std::int64_t> steps{0};
    for_pieces(operands.count(), operands.pieces, [&](std::int64_t index) {
      const Piece piece = operands.pieces.at(index);
      const std::int64_t at = piece.row * operands.pieces.columns + piece.first;
      Kept kept(operands.kept, at, piece.count);
      const std::span<const float> row = kept.packed(operands.weights.const_data_ptr<float>() + at);
      const Norm norm = operands.norm(index, piece, row);
      std::copy_n(std::array{norm.mean, norm.norm, norm.factor, norm.free}.begin(), kNormFields,
                  fields + index * kNormFields);
      kept.unpacked(first + at, row.size(), [&](std::span<float> made) {
        const std::int64_t moved = quantize_piece(operands, piece, norm, row, made);
        if (moved > 0) steps += moved;
      });
    });
    *repaired = steps;
    context->save_for_backward({weights, log2_norm, log2_scale, values, norms, operands.scale});
    context->saved_data["centred"] = settings.centred;
    context->saved_data["tile"] = settings.tile;
    // A copy: the mask may change before the backward pass.
    if (mask) context->saved_data["kept"] = operands.kept.clone();
    return values.to(weights.device());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const bool centred = context->saved_data["centred"].toBool();
    const Pieces pieces(saved[0].size(1), {.tile = context->saved_data["tile"].toInt()});
    const at::Tensor weights = on_cpu(saved[0], at::kFloat), grad = on_cpu(gradients[0], at::kFloat);
    const at::Tensor values = on_cpu(saved[3], at::kFloat);
    const at::Tensor of_weights = at::empty_like(weights);
    const std::int64_t count = weights.size(0) * pieces.tiles;
    const at::Tensor of_norm = at::empty({count}, at::kDouble), of_scale = at::empty({count}, at::kDouble);
    const float* scales = saved[5].const_data_ptr<float>();
    const bool one_scale = saved[5].numel() == 1;
    const auto mask = context->saved_data.find("kept");
    const at::Tensor of_mask = mask == context->saved_data.end() ? at::Tensor() : mask->second.toTensor();
    for_pieces(count, pieces, [&](std::int64_t index) {
      const Piece piece = pieces.at(index);
      const double* fields = saved[4].const_data_ptr<double>() + index * kNormFields;
      const Norm norm{fields[0], fields[1], fields[2], fields[3]};
      const auto scale = static_cast<double>(scales[one_scale ? 0 : piece.row]);
      const std::int64_t at = piece.row * pieces.columns + piece.first;
      Kept kept(of_mask, at, piece.count);
      const std::span<const float> w = kept.packed(weights.const_data_ptr<float>() + at);
      const std::span<const float> g = kept.packed(grad.const_data_ptr<float>() + at);
      const std::span<const float> made = kept.packed(values.const_data_ptr<float>() + at);
      const RowSums sums = loops().row_sums(w.data(), g.data(), made.data(), w.size(), norm.mean);
      const double share = scale * sums.along / norm.norm, shrink = norm.factor / norm.norm;
      const double mean = shrink * (scale * sums.grad - share * sums.sign) /
                          static_cast<double>(std::max<std::size_t>(w.size(), 1));
      kept.unpacked(of_weights.mutable_data_ptr<float>() + at, w.size(), [&](std::span<float> out) {
        loops().row_gradients(w.data(), g.data(), w.size(), norm.mean, shrink * scale, shrink * share,
                              centred ? mean : 0, out.data());
      });
      of_norm.mutable_data_ptr<double>()[index] = norm.free * kLn2 * share / scale;
      of_scale.mutable_data_ptr<double>()[index] = kLn2 * (sums.values - norm.free / scale * share);
    });
    at::Tensor of_scales = of_scale.view({-1, pieces.tiles}).sum(1);
    if (saved[2].numel() == 1) of_scales = of_scales.sum().view({1});
    return {of_weights.to(saved[0].device()),
            of_norm.to(saved[1].options()).view(saved[1].sizes()),
            of_scales.to(saved[2].options()).view(saved[2].sizes()),
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

at::Tensor a2q_scales(const at::Tensor& log2_scale, ScaleFormat format) {
  const at::Tensor scales = at::exp2(on_cpu(log2_scale, at::kDouble)).to(at::kFloat);
  float* s = scales.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < scales.numel(); ++i) {
    s[i] =
        decode_scale(format, encode_scale(format, std::max(s[i], std::numeric_limits<float>::min())).pattern);
  }
  return scales;
}

A2qResult a2q_values(const at::Tensor& weights, const at::Tensor& log2_norm, const at::Tensor& log2_scale,
                     const std::vector<std::int64_t>& bias, const A2qSettings& settings,
                     const at::Tensor& kept) {
  A2qResult result;
  const auto mask = kept.defined() ? std::optional(kept) : std::nullopt;
  result.values = A2qFunction::apply(weights, log2_norm, log2_scale, bias, settings, mask, &result.repaired);
  return result;
}

at::Tensor a2q_penalty(const at::Tensor& log2_norm, const at::Tensor& log2_scale,
                       const std::vector<std::int64_t>& bias, const A2qSettings& settings) {
  const at::Tensor scale = at::exp2(log2_scale);
  const std::int64_t rows = bias.empty() ? 1 : static_cast<std::int64_t>(bias.size());
  const std::int64_t tiles = bias.empty() ? 1 : log2_norm.numel() / rows;
  std::vector<float> budgets;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const double size =
          bias.empty() || tile > 0 ? 0 : static_cast<double>(std::abs(bias[static_cast<std::size_t>(row)]));
      budgets.push_back(static_cast<float>(settings.budget(size)));
    }
  }
  const at::Tensor budget = at::tensor(budgets).view({rows, tiles}).to(log2_norm.device());
  const std::int64_t scales = scale.numel();
  const at::Tensor norms = at::exp2(log2_norm).view({scales, -1});
  const at::Tensor limits =
      rows == 1 ? scale.view({scales, 1}) * budget : scale.view({scales, 1}).expand({rows, 1}) * budget;
  return at::relu(norms.view({limits.size(0), -1}) - limits).sum();
}

}  // namespace crumb::qat
