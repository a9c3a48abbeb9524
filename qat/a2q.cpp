#include "qat/a2q.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "formats/error.h"

namespace crumb::qat {
namespace {

constexpr double kLeastNorm = 1e-10;
constexpr double kLn2 = 0.693147180559945309417;

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

/// What the norm of a register's weights is, and how far the weights are scaled.
struct Norm {
  double mean = 0, norm = kLeastNorm, factor = 0;  ///< factor: c
  bool free = false;                               ///< 2^t / s, not the budget, decides
};

/// A register's weights, without those that are pruned.
struct Weights {
  std::span<const float> values;
  const bool* kept = nullptr;  ///< null: all

  std::size_t size() const { return values.size(); }
  bool has(std::size_t i) const { return !kept || kept[i]; }
  std::size_t count() const {
    return kept ? static_cast<std::size_t>(std::count(kept, kept + size(), true)) : size();
  }
  /// Less the mean; 0 where pruned.
  double centred(std::size_t i, double mean) const {
    return has(i) ? static_cast<double>(values[i]) - mean : 0;
  }
};

Norm norm_of(const Weights& weights, double log2_norm, double scale, double budget, bool centred) {
  Norm found;
  const std::size_t count = weights.count();
  if (centred && count > 0) {
    for (std::size_t i = 0; i < weights.size(); ++i) found.mean += weights.centred(i, 0);
    found.mean /= static_cast<double>(count);
  }
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += std::fabs(weights.centred(i, found.mean));
  found.norm = std::max(sum, kLeastNorm);
  const double wished = std::exp2(log2_norm) / scale;
  found.free = wished <= budget;
  found.factor = std::min(wished, budget);
  return found;
}

std::int64_t bias_of(const std::vector<std::int64_t>& bias, const Piece& piece) {
  return bias.empty() || !piece.starts_with_bias ? 0 : bias[static_cast<std::size_t>(piece.row)];
}

/// Everything that forward and backward share: plain tensors on the CPU.
struct Operands {
  at::Tensor weights, log2_norm, scale, kept;
  const A2qSettings& settings;
  const std::vector<std::int64_t>& bias;
  Pieces pieces;

  Operands(const at::Tensor& w, const at::Tensor& t, const at::Tensor& d, const at::Tensor& mask,
           const std::vector<std::int64_t>& b, const A2qSettings& of)
      : weights(on_cpu(w, at::kFloat)),
        log2_norm(on_cpu(t, at::kDouble)),
        scale(a2q_scales(d, of.scale).to(at::kDouble)),
        kept(mask.defined() ? on_cpu(mask, at::kBool) : at::Tensor()),
        settings(of),
        bias(b),
        pieces(w.size(1), of) {}

  std::int64_t count() const { return weights.size(0) * pieces.tiles; }
  Weights of(const Piece& piece) const {
    const std::int64_t first = piece.row * pieces.columns + piece.first;
    return {.values = {weights.const_data_ptr<float>() + first, static_cast<std::size_t>(piece.count)},
            .kept = kept.defined() ? kept.const_data_ptr<bool>() + first : nullptr};
  }
  double scale_of(std::int64_t row) const {
    return scale.const_data_ptr<double>()[scale.numel() == 1 ? 0 : row];
  }
  Norm norm(std::int64_t index, const Piece& piece) const {
    const auto size = static_cast<double>(std::abs(bias_of(bias, piece)));
    return norm_of(of(piece), log2_norm.const_data_ptr<double>()[index], scale_of(piece.row),
                   settings.budget(size), settings.centred);
  }
};

/// The codes of a register, repaired; how many steps that took.
std::int64_t codes_of(const Operands& operands, std::int64_t index, std::vector<std::int64_t>& codes,
                      std::vector<double>& latent) {
  const Piece piece = operands.pieces.at(index);
  const Weights weights = operands.of(piece);
  const Norm norm = operands.norm(index, piece);
  const std::int64_t most = (std::int64_t{1} << (operands.settings.weight_bits - 1)) - 1;
  codes.resize(weights.size());
  latent.resize(weights.size());
  const double pre = norm.norm / norm.factor;  // as a2q_codes_ref divides
  std::int64_t positive = 0, negative = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double v = weights.centred(i, norm.mean);
    latent[i] = norm.factor > 0 ? v / pre : 0;
    const double limit = static_cast<double>(most);
    codes[i] = static_cast<std::int64_t>(std::trunc(std::clamp(latent[i], -limit, limit)));
    (codes[i] > 0 ? positive : negative) += codes[i];
  }
  const IntegerRange range = operands.settings.input.with_zero();
  const std::int64_t start = bias_of(operands.bias, piece);
  // Codes are at most 2^7 and inputs at most 2^32: no overflow for rows below 2^23; repair_row checks the others.
  const WorstSums sums{
      .max = std::max<std::int64_t>(start, 0) + positive * range.high + negative * range.low,
      .min = std::min<std::int64_t>(start, 0) + positive * range.low + negative * range.high};
  if (weights.size() < (std::size_t{1} << 22) && fits(sums, operands.settings.accumulator_bits)) return 0;
  try {
    return repair_row(codes, latent, operands.settings.input, operands.settings.accumulator_bits, start);
  } catch (const Error& error) {
    throw Error("output channel " + std::to_string(piece.row) + ": " + error.what());
  }
}

struct A2qFunction : torch::autograd::Function<A2qFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& weights,
                            const at::Tensor& log2_norm, const at::Tensor& log2_scale,
                            const std::vector<std::int64_t>& bias, const A2qSettings& settings,
                            const std::optional<at::Tensor>& kept, std::int64_t* repaired) {
    const Operands operands(weights, log2_norm, log2_scale, kept.value_or(at::Tensor()), bias, settings);
    const at::Tensor values = at::empty_like(operands.weights);
    std::atomic<std::int64_t> steps{0};
    at::parallel_for(0, operands.count(), 16, [&](std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t> codes;
      std::vector<double> latent;
      for (std::int64_t index = begin; index < end; ++index) {
        steps += codes_of(operands, index, codes, latent);
        const Piece piece = operands.pieces.at(index);
        const auto scale = static_cast<float>(operands.scale_of(piece.row));
        float* out = values.mutable_data_ptr<float>() + piece.row * operands.pieces.columns + piece.first;
        for (std::size_t i = 0; i < codes.size(); ++i) out[i] = static_cast<float>(codes[i]) * scale;
      }
    });
    *repaired = steps;
    context->save_for_backward({weights, log2_norm, log2_scale, values});
    context->saved_data["bias"] = bias;
    // A copy: the mask may change before the backward pass.
    if (kept) context->saved_data["kept"] = operands.kept.clone();
    context->saved_data["settings"] = std::vector<std::int64_t>{settings.weight_bits,
                                                                settings.centred ? 1 : 0,
                                                                settings.tile,
                                                                settings.accumulator_bits,
                                                                settings.input.low,
                                                                settings.input.high,
                                                                static_cast<std::int64_t>(settings.scale)};
    return values.to(weights.device());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto kept = context->saved_data["settings"].toIntVector();
    const std::vector<std::int64_t> bias = context->saved_data["bias"].toIntVector();
    const A2qSettings settings{.weight_bits = static_cast<int>(kept[0]),
                               .centred = kept[1] != 0,
                               .tile = kept[2],
                               .accumulator_bits = static_cast<int>(kept[3]),
                               .scale = static_cast<ScaleFormat>(kept[6]),
                               .input = {kept[4], kept[5]}};
    const bool prunes = context->saved_data.count("kept") > 0;
    const Operands operands(saved[0], saved[1], saved[2],
                            prunes ? context->saved_data["kept"].toTensor() : at::Tensor(), bias, settings);
    const at::Tensor grad = on_cpu(gradients[0], at::kFloat), values = on_cpu(saved[3], at::kFloat);
    const at::Tensor of_weights = at::empty_like(operands.weights);
    const at::Tensor of_norm = at::empty_like(operands.log2_norm);
    const at::Tensor of_scale = at::empty({operands.count()}, at::kDouble);
    at::parallel_for(0, operands.count(), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t index = begin; index < end; ++index) {
        const Piece piece = operands.pieces.at(index);
        const Weights w = operands.of(piece);
        const Norm norm = operands.norm(index, piece);
        const double scale = operands.scale_of(piece.row);
        const std::int64_t at = piece.row * operands.pieces.columns + piece.first;
        const float* g = grad.const_data_ptr<float>() + at;
        const float* y = values.const_data_ptr<float>() + at;
        float* out = of_weights.mutable_data_ptr<float>() + at;
        double along = 0, of_codes = 0;  // sum(H v), sum(q dL/dy)
        for (std::size_t i = 0; i < w.size(); ++i) {
          along += static_cast<double>(g[i]) * w.centred(i, norm.mean);
          of_codes += static_cast<double>(g[i]) * static_cast<double>(y[i]);
        }
        along *= scale;
        of_codes /= scale;
        const double shrink = norm.factor / norm.norm, share = along / norm.norm;
        double mean = 0;
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double sign = w.centred(i, norm.mean) >= 0 ? 1 : -1;
          const double one = w.has(i) ? shrink * (scale * static_cast<double>(g[i]) - sign * share) : 0;
          out[i] = static_cast<float>(one);
          mean += one;
        }
        if (settings.centred) {
          mean /= static_cast<double>(std::max<std::size_t>(w.count(), 1));
          for (std::size_t i = 0; i < w.size(); ++i)
            if (w.has(i)) out[i] = static_cast<float>(static_cast<double>(out[i]) - mean);
        }
        const double free_norm =
            norm.free ? std::exp2(operands.log2_norm.const_data_ptr<double>()[index]) : 0;
        of_norm.mutable_data_ptr<double>()[index] = free_norm * kLn2 * share / scale;
        of_scale.mutable_data_ptr<double>()[index] =
            scale * kLn2 * (of_codes - free_norm / (scale * scale) * share);
      }
    });
    at::Tensor scales = of_scale.view({-1, operands.pieces.tiles}).sum(1);
    if (saved[2].numel() == 1) scales = scales.sum().view({1});
    return {of_weights.to(saved[0].device()),
            of_norm.to(saved[1].options()).view(saved[1].sizes()),
            scales.to(saved[2].options()).view(saved[2].sizes()),
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
  if (!at::isfinite(weights.detach()).all().item<bool>()) {
    throw Error("the weights hold inf or NaN; only finite values can be quantized");
  }
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
