// A2Q and A2Q+ as an operator: the codes of the reference, exact bounds, and gradients of the composed form.
#include "qat/weights/a2q.h"

#include <doctest/doctest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "quant/accumulator/accumulator_quantizers.h"
#include "quant/loops/loops.h"

namespace {

using crumb::IntegerRange;
using crumb::qat::A2qResult;
using crumb::qat::A2qSettings;

/// brevitas.md, section 6.
const std::vector<float> kGolden{.5F, -1.25F, .3F,  .9F,   -.05F, .7F,  -.33F, .12F,
                                 2.F, .01F,   -.6F, -1.1F, .45F,  -.2F, .8F,   -1.6F};

struct Rows {
  at::Tensor weights, log2_norm, log2_scale;
};

Rows rows_of(const std::vector<float>& values, std::int64_t rows, int bits, std::int64_t tiles = 1) {
  Rows made;
  made.weights = torch::tensor(values).view({rows, -1});
  const at::Tensor w = made.weights.to(at::kDouble);
  made.log2_norm = at::log2(w.abs().sum(1)).repeat_interleave(tiles).to(at::kFloat);
  made.log2_scale = at::log2(std::get<0>(w.abs().max(1)) / (std::exp2(bits - 1) - 1)).to(at::kFloat);
  return made;
}

std::vector<std::int64_t> codes_of(const Rows& rows, const A2qSettings& settings,
                                   std::int64_t* repaired = nullptr,
                                   const std::vector<std::int64_t>& bias = {}) {
  const A2qResult made =
      crumb::qat::a2q_values(rows.weights, rows.log2_norm, rows.log2_scale, bias, settings);
  if (repaired) *repaired = made.repaired;
  const at::Tensor scale = crumb::qat::a2q_scales(rows.log2_scale, settings.scale).view({-1, 1});
  const at::Tensor codes = (made.values / scale).round().to(at::kLong).contiguous();
  CHECK(at::equal(codes.to(at::kFloat) * scale, made.values));
  return {codes.const_data_ptr<std::int64_t>(), codes.const_data_ptr<std::int64_t>() + codes.numel()};
}

/// In the order of quant/loops: 16 lanes, folded, then what is left over.
double sum_in_lanes(const std::vector<double>& values) {
  std::array<double, 16> lanes{};
  const std::size_t whole = values.size() / 16 * 16;
  for (std::size_t i = 0; i < whole; ++i) lanes[i % 16] += values[i];
  double sum = crumb::fold_lanes(lanes);
  for (std::size_t i = whole; i < values.size(); ++i) sum += values[i];
  return sum;
}

/// The weights that share a register: q = clamp(trunc((w - mean) / pre)), pre = n / min(2^t / s, T).
struct Register {
  std::vector<double> latent;  ///< (w - mean) / pre
  std::vector<std::int64_t> codes;
  double shift = 0;  ///< |mean| / pre
  std::int64_t repaired = 0;
};

Register register_of(std::span<const float> weights, double log2_norm, float scale,
                     const A2qSettings& settings, std::int64_t bias) {
  std::vector<double> v(weights.begin(), weights.end());
  const double mean = settings.centred ? sum_in_lanes(v) / static_cast<double>(v.size()) : 0;
  std::vector<double> sizes;
  for (const double w : v) sizes.push_back(std::fabs(w - mean));
  const double budget = settings.budget(static_cast<double>(std::abs(bias)));
  const double pre = std::max(sum_in_lanes(sizes), 1e-10) /
                     std::min(std::exp2(log2_norm) / static_cast<double>(scale), budget);
  const double most = std::exp2(settings.weight_bits - 1) - 1;
  Register made{.shift = std::fabs(mean) / pre};
  for (const double w : v) {
    made.latent.push_back((w - mean) / pre);
    made.codes.push_back(static_cast<std::int64_t>(std::trunc(std::clamp(made.latent.back(), -most, most))));
  }
  made.repaired = crumb::repair_row(made.codes, made.latent, settings.input, settings.accumulator_bits, bias);
  return made;
}

A2qSettings settings_for(int bits, int accumulator, IntegerRange input, bool centred, std::int64_t tile = 0) {
  return {
      .weight_bits = bits, .centred = centred, .tile = tile, .accumulator_bits = accumulator, .input = input};
}

TEST_CASE("a2q: what is pruned is as if it were not there") {
  std::mt19937 engine(31);
  std::normal_distribution<float> normal;
  for (const bool centred : {false, true}) {
    for (const int accumulator : {8, 11, 20}) {
      for (int round = 0; round < 30; ++round) {
        const std::int64_t columns = 1 + static_cast<std::int64_t>(engine() % 40);
        std::vector<float> whole, left;
        std::vector<std::uint8_t> kept;
        for (std::int64_t i = 0; i < columns; ++i) {
          whole.push_back(normal(engine));
          kept.push_back(engine() % 3 != 0);
          if (kept.back()) left.push_back(whole.back());
        }
        if (left.empty()) continue;
        const A2qSettings settings = settings_for(4, accumulator, {-3, 12}, centred);
        const at::Tensor mask = torch::tensor(kept).to(at::kBool).view({1, -1});
        const at::Tensor places = mask.view({-1}).nonzero().view({-1});
        const Rows small = rows_of(left, 1, 4);
        const auto run = [&](const std::vector<float>& values, const at::Tensor& with,
                             const at::Tensor& slope) {
          const at::Tensor w = torch::tensor(values).view({1, -1}).requires_grad_();
          const at::Tensor t = small.log2_norm.clone().requires_grad_();
          const at::Tensor d = small.log2_scale.clone().requires_grad_();
          const at::Tensor made = crumb::qat::a2q_values(w, t, d, {}, settings, with).values;
          (made * slope).sum().backward();
          return std::vector<at::Tensor>{made.detach(), w.grad(), t.grad(), d.grad()};
        };
        const at::Tensor slope = torch::randn({1, columns});
        const auto masked = run(whole, mask, slope);
        const auto alone = run(left, {}, slope.index_select(1, places));
        CHECK(at::equal(masked[0].index_select(1, places), alone[0]));
        CHECK(at::equal(masked[1].index_select(1, places), alone[1]));
        CHECK(at::equal(masked[2], alone[2]));
        CHECK(at::equal(masked[3], alone[3]));
        CHECK(masked[0].masked_select(mask.logical_not()).eq(0).all().item<bool>());
        CHECK(masked[1].masked_select(mask.logical_not()).eq(0).all().item<bool>());
      }
    }
  }
  // Nothing left at all.
  const Rows rows = rows_of(kGolden, 2, 4);
  const at::Tensor none = at::zeros({2, 8}, at::kBool);
  CHECK(crumb::qat::a2q_values(rows.weights, rows.log2_norm, rows.log2_scale, {},
                               settings_for(4, 8, {0, 15}, true), none)
            .values.eq(0)
            .all()
            .item<bool>());
}

TEST_CASE("a2q: the golden codes") {
  const Rows rows = rows_of(kGolden, 2, 4);
  // The paper's T counts 2^N for an unsigned input of N bits; 16 is what gives it.
  CHECK(codes_of(rows, settings_for(4, 8, {0, 16}, false)) ==
        std::vector<std::int64_t>{0, -2, 0, 1, 0, 1, 0, 0, 2, 0, 0, -1, 0, 0, 0, -1});
  CHECK(codes_of(rows, settings_for(4, 8, {0, 15}, true)) ==
        std::vector<std::int64_t>{1, -5, 0, 3, 0, 2, -1, 0, 5, 0, -1, -2, 1, 0, 2, -3});
}

TEST_CASE("a2q: the reference's codes, and every worst sum fits") {
  std::mt19937 random(7);
  std::int64_t compared = 0, at_edges = 0;
  for (int round = 0; round < 300; ++round) {
    const auto pick = [&](int least, int most) {
      return std::uniform_int_distribution<int>(least, most)(random);
    };
    const int bits = pick(2, 8), input_bits = pick(1, 8), accumulator = pick(input_bits + 2, 20);
    const std::int64_t rows = pick(1, 5), columns = pick(1, 70), tile = pick(0, 2) == 0 ? pick(1, 40) : 0;
    const bool centred = pick(0, 1) == 1, is_signed = pick(0, 1) == 1;
    CAPTURE(round);
    const IntegerRange input = crumb::integer_range(input_bits, is_signed && input_bits > 1);
    const A2qSettings settings = settings_for(bits, accumulator, input, centred, tile);
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (float& value : values) value = std::normal_distribution<float>(0.1F, 1)(random);
    const std::int64_t tiles = settings.tiles(columns), width = tiles == 1 ? columns : tile;
    const Rows made = rows_of(values, rows, bits, tiles);
    std::vector<std::int64_t> bias;
    if (pick(0, 2) == 0) {
      for (std::int64_t row = 0; row < rows; ++row) bias.push_back(pick(-3, 3));
    }
    std::int64_t repaired = 0, expected_repairs = 0;
    const std::vector<std::int64_t> codes = codes_of(made, settings, &repaired, bias);
    const at::Tensor scales = crumb::qat::a2q_scales(made.log2_scale, settings.scale);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<const std::int64_t> own(codes.data() + row * columns,
                                              static_cast<std::size_t>(columns));
      const std::int64_t start = bias.empty() ? 0 : bias[static_cast<std::size_t>(row)];
      const auto sums = crumb::worst_sums_of_tiles(own, static_cast<std::size_t>(tile), input, start);
      REQUIRE(sums);
      for (const crumb::WorstSums& one : *sums) CHECK(crumb::fits(one, accumulator));

      // By the formulas, with the same scale and order of summation: the same codes.
      Register first;
      for (std::int64_t i = 0; i < tiles; ++i) {
        const auto begin = static_cast<std::size_t>(i * width);
        const std::size_t count = std::min(static_cast<std::size_t>(width), own.size() - begin);
        const std::span<const float> weights(values.data() + row * columns + i * width, count);
        Register one = register_of(weights, made.log2_norm[row * tiles + i].item<double>(),
                                   scales[row].item<float>(), settings, i == 0 ? start : 0);
        CHECK(std::ranges::equal(own.subspan(begin, count), one.codes));
        expected_repairs += one.repaired;
        if (i == 0) first = std::move(one);
      }

      // The reference of quant/ takes log2 of the scale, and adds up one after another. A code may be another only where
      // the number that is cut off lies within that of a whole one: K + 2 operations in either order, and a logarithm
      // of at most 2^5 that goes there and back.
      if (tiles > 1 || first.repaired > 0 || !bias.empty()) continue;
      const std::vector<double> exact(values.begin() + row * columns, values.begin() + (row + 1) * columns);
      const crumb::RowParameters parameters{.log2_norm = made.log2_norm[row].item<double>(),
                                            .log2_scale = std::log2(scales[row].item<double>())};
      const auto reference = centred ? crumb::a2q_plus_codes_ref(exact, parameters, bits, settings.budget())
                                     : crumb::a2q_codes_ref(exact, parameters, bits, settings.budget());
      const double share = 4 * (static_cast<double>(columns) + 2 + 32) * 0x1p-53;
      for (std::size_t i = 0; i < own.size(); ++i) {
        const double u = first.latent[i], error = share * (std::fabs(u) + first.shift);
        const bool is_at_edge = std::fabs(u - std::round(u)) <= error && std::round(u) != 0;
        ++compared;
        at_edges += is_at_edge;
        if (is_at_edge) {
          CHECK(std::abs(own[i] - reference[i]) <= 1);
        } else {
          CHECK(own[i] == reference[i]);
        }
      }
    }
    CHECK(repaired == expected_repairs);
  }
  CHECK(compared > 5000);
  CHECK_MESSAGE(at_edges * 100 <= compared, at_edges, " of ", compared, " lie at the edge of a code");
}

/// The same values by LibTorch's operators in float64, with straight-through rounding and clamping. The scale is the one
/// that is stored, in float32: where the norm decides, the largest weight of a row stands at the edge of its code.
at::Tensor composed(const at::Tensor& w, const at::Tensor& t, const at::Tensor& d,
                    const A2qSettings& settings) {
  const at::Tensor real = at::exp2(d);
  const at::Tensor s = (real + (real.to(at::kFloat).to(at::kDouble) - real).detach()).unsqueeze(1);
  const at::Tensor v = settings.centred ? w - w.mean(1, true) : w;
  // |x| with gradient +1 at 0.
  const at::Tensor norm = (v * at::where(v >= 0, 1.0, -1.0).to(v.scalar_type())).sum(1, true);
  const at::Tensor factor = at::minimum(at::exp2(t).unsqueeze(1) / s, at::full_like(s, settings.budget()));
  const at::Tensor u = v * factor / norm;
  const double most = std::exp2(settings.weight_bits - 1) - 1;
  const at::Tensor q = u + (u.trunc().clamp(-most, most) - u).detach();
  return q * s;
}

TEST_CASE("a2q: gradients are those of the composed operators") {
  torch::manual_seed(3);
  for (const bool centred : {false, true}) {
    for (const int accumulator : {7, 9, 24}) {  // the budget decides; some rows; the norm decides
      CAPTURE(centred);
      CAPTURE(accumulator);
      const A2qSettings settings = settings_for(4, accumulator, {0, 15}, centred);
      const at::Tensor w = torch::randn({6, 13});
      const Rows start = rows_of({w.const_data_ptr<float>(), w.const_data_ptr<float>() + w.numel()}, 6, 4);
      const at::Tensor grad = torch::randn({6, 13});
      std::vector<at::Tensor> fused, wide;
      for (const at::Tensor& x : {start.weights, start.log2_norm, start.log2_scale}) {
        fused.push_back(x.clone().requires_grad_());
        wide.push_back(x.to(at::kDouble).clone().requires_grad_());
      }
      const A2qResult made = crumb::qat::a2q_values(fused[0], fused[1], fused[2], {}, settings);
      const at::Tensor expected = composed(wide[0], wide[1], wide[2], settings);
      CHECK(at::allclose(made.values.to(at::kDouble), expected, 1e-5, 1e-5));
      made.values.backward(grad);
      expected.backward(grad.to(at::kDouble));
      for (std::size_t i = 0; i < 3; ++i) {
        CAPTURE(i);
        CHECK(at::allclose(fused[i].grad().to(at::kDouble), wide[i].grad(), 1e-4, 1e-4));
      }
    }
  }
}

TEST_CASE("a2q: the penalty is what the norms pass the budget by") {
  const A2qSettings settings = settings_for(4, 8, {0, 15}, true, 4);
  const Rows rows = rows_of(kGolden, 2, 4, 2);
  const std::vector<std::int64_t> bias{5, -9};
  double expected = 0;
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t tile = 0; tile < 2; ++tile) {
      const double limit =
          settings.budget(tile == 0 ? static_cast<double>(std::abs(bias[static_cast<std::size_t>(row)])) : 0);
      expected += std::max(0.0, std::exp2(rows.log2_norm[row * 2 + tile].item<double>()) -
                                    limit * std::exp2(rows.log2_scale[row].item<double>()));
    }
  }
  CHECK(crumb::qat::a2q_penalty(rows.log2_norm, rows.log2_scale, bias, settings).item<double>() ==
        doctest::Approx(expected));
}

}  // namespace
