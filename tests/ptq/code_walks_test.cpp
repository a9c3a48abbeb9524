// Codes of a layer by GPFQ and Qronos: those that their papers' own definitions give, from inputs themselves, in double.
#include <doctest/doctest.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "ptq/rounding/gpfq.h"
#include "ptq/rounding/gptq.h"
#include "ptq/rounding/layer_rounding.h"
#include "ptq/rounding/qronos.h"
#include "tests/ptq/layers.h"

namespace {

using namespace crumb::ptq;
using crumb::FixedScales;
using crumb::QuantSpec;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using test::Rows;

/// A layer, inputs of the float network and of the quantized one.
struct TwoStreams {
  Rows weights;
  Rows beside;              ///< what nodes beside it add
  MatrixXd floats, inputs;  ///< Y and X~, [columns, samples]
  std::vector<std::size_t> order;
};

TwoStreams drawn_streams(std::mt19937& random, Index most_columns, bool by_size, bool with_floats) {
  const Index size = 1 + static_cast<Index>(random() % static_cast<unsigned>(most_columns)),
              samples = random() % 3 == 0 ? 1 + size / 2 : 2 * size + 8;
  const Rows y = test::drawn_samples(random, size, samples, std::array{0.0F, 0.5F, 0.9F}[random() % 3]);
  Rows x = with_floats ? Rows(y + 0.3F * test::drawn_matrix(random, size, samples)) : y;
  const Rows weights = test::drawn_matrix(random, 1 + static_cast<Index>(random() % 20), size);
  const bool is_alone = random() % 2 == 0;
  TwoStreams made{.weights = weights,
                  .beside = is_alone ? Rows(Rows::Zero(weights.rows(), size))
                                     : test::drawn_matrix(random, weights.rows(), size),
                  .floats = y.cast<double>(),
                  .inputs = {},
                  .order = std::vector<std::size_t>(static_cast<std::size_t>(size))};
  if (random() % 2 == 0 && size > 1) x.row(static_cast<Index>(random()) % size).setZero();
  made.inputs = x.cast<double>();
  if (!with_floats) made.floats = made.inputs;
  std::iota(made.order.begin(), made.order.end(), std::size_t{0});
  const VectorXd squares = made.inputs.rowwise().squaredNorm();
  if (by_size)
    std::ranges::stable_sort(made.order, [&](std::size_t a, std::size_t b) {
      return squares[static_cast<Index>(a)] > squares[static_cast<Index>(b)];
    });
  return made;
}

/// What each column was rounded from, and to.
struct Walked {
  MatrixXd targets, values;
};

/// Column by column in the order: target_of(row, place in the order, what the row has so far).
template <class TargetOf>
Walked walk_plainly(const FixedScales& scales, const TwoStreams& layer, const TargetOf& target_of) {
  Walked plain{.targets = layer.weights.cast<double>(), .values = layer.weights.cast<double>()};
  for (Index row = 0; row < layer.weights.rows(); ++row) {
    VectorXd weights = layer.weights.row(row).cast<double>(), values = weights;
    for (std::size_t k = 0; k < layer.order.size(); ++k) {
      const auto at = static_cast<Index>(layer.order[k]);
      const double target = target_of(row, weights, k, values);
      const auto r = static_cast<std::size_t>(row);
      values[at] = static_cast<double>(
          scales.value(r, layer.order[k], scales.code(r, layer.order[k], static_cast<float>(target))));
      plain.targets(row, at) = target;
    }
    plain.values.row(row) = values;
  }
  return plain;
}

/// q_t is what brings u = Y w - X~ q nearest to 0 after t columns: Lybrand & Saab 2021, equation (2), for two kinds of inputs.
Walked plain_gpfq(const FixedScales& scales, const TwoStreams& layer) {
  VectorXd path;
  return walk_plainly(scales, layer, [&](Index row, const VectorXd& w, std::size_t k, const VectorXd& q) {
    if (k == 0) {
      path = VectorXd::Zero(layer.inputs.cols());
    } else {
      const auto before = static_cast<Index>(layer.order[k - 1]);
      path -= q[before] * layer.inputs.row(before).transpose();
    }
    const auto at = static_cast<Index>(layer.order[k]);
    const double own = layer.inputs.row(at).squaredNorm();
    path += w[at] * layer.floats.row(at).transpose() +
            static_cast<double>(layer.beside(row, at)) *
                (layer.floats.row(at) - layer.inputs.row(at)).transpose();
    return own > 0 ? layer.inputs.row(at).dot(path) / own : w[at];
  });
}

/// Both lines of ptq/rounding/qronos.h as they stand, a problem of least squares for each column.
Walked plain_qronos(const FixedScales& scales, const TwoStreams& layer, double damping) {
  const MatrixXd moments = layer.inputs * layer.inputs.transpose();
  const double share = damping * moments.diagonal().mean();
  VectorXd behind;
  return walk_plainly(scales, layer, [&](Index row, const VectorXd& w, std::size_t k, const VectorXd& q) {
    if (k == 0) behind = w;
    // Those behind column k, found with the codes before it.
    const VectorXd meant =
        layer.floats.transpose() * w +
        (layer.floats - layer.inputs).transpose() * layer.beside.row(row).transpose().cast<double>();
    VectorXd left = meant;
    for (std::size_t j = 0; j < k; ++j) {
      const auto at = static_cast<Index>(layer.order[j]);
      left -= q[at] * layer.inputs.row(at).transpose();
    }
    const auto rest = static_cast<Index>(layer.order.size() - k);
    if (k > 0) {
      MatrixXd x(rest, layer.inputs.cols());
      VectorXd own(rest);
      for (Index i = 0; i < rest; ++i) {
        const auto at = static_cast<Index>(layer.order[k + static_cast<std::size_t>(i)]);
        x.row(i) = layer.inputs.row(at);
        own[i] = w[at];
      }
      MatrixXd square = x * x.transpose();
      square.diagonal().array() += share;
      const VectorXd found = square.ldlt().solve(x * left + share * own);
      for (Index i = 0; i < rest; ++i)
        behind[static_cast<Index>(layer.order[k + static_cast<std::size_t>(i)])] = found[i];
    }
    for (Index i = 1; i < rest; ++i) {
      const auto at = static_cast<Index>(layer.order[k + static_cast<std::size_t>(i)]);
      left -= behind[at] * layer.inputs.row(at).transpose();
    }
    const auto at = static_cast<Index>(layer.order[k]);
    return (layer.inputs.row(at).dot(left) + share * w[at]) / (layer.inputs.row(at).squaredNorm() + share);
  });
}

struct FoundCodes {
  MatrixXd values;
  bool keeps_rounding = false;
};

/// By what the stages call.
FoundCodes found_by(CodeWalkOf walk, const std::string& spec, const TwoStreams& layer, double damping,
                    bool by_size, bool with_floats) {
  const auto rows = static_cast<std::size_t>(layer.weights.rows()),
             columns = static_cast<std::size_t>(layer.weights.cols());
  const WeightRows weights{.axes = {0, 1},
                           .shape = {rows, columns},
                           .values = {layer.weights.data(), layer.weights.data() + layer.weights.size()},
                           .beside = {layer.beside.data(), layer.beside.data() + layer.beside.size()}};
  LayerMoments inputs{.moments = {layer.inputs * layer.inputs.transpose()}, .cross = {}, .apart = {}};
  if (with_floats) {
    const MatrixXd apart = layer.floats - layer.inputs;
    inputs.cross = {layer.floats * layer.inputs.transpose()};
    inputs.apart = {apart * apart.transpose()};
  }
  const RoundedLayer made =
      round_layer(QuantSpec::parse(spec), weights, {.input = "x", .rows = rows, .columns = columns}, inputs,
                  {.walk = walk, .damping = damping, .by_size = by_size, .own_scales = false, .sweeps = 0},
                  std::nullopt, "w");
  std::vector<float> values(rows * columns);
  crumb::dequantize(made.codes.view(), values);
  return {
      .values =
          Eigen::Map<const Rows>(values.data(), layer.weights.rows(), layer.weights.cols()).cast<double>(),
      .keeps_rounding = std::ranges::any_of(
          made.notes, [](const std::string& note) { return note.starts_with("rounding loses less"); })};
}

/// Rows without a difference. Where there is one, the first lies next to the middle between two codes: what follows hangs on it.
std::size_t count_alike(const TwoStreams& layer, const MatrixXd& found, const Walked& plain) {
  std::size_t alike = 0;
  for (Index row = 0; row < found.rows(); ++row) {
    const auto off = std::ranges::find_if(layer.order, [&](std::size_t column) {
      return found(row, static_cast<Index>(column)) != plain.values(row, static_cast<Index>(column));
    });
    alike += off == layer.order.end() ? 1 : 0;
    if (off == layer.order.end()) continue;
    const auto at = static_cast<Index>(*off);
    const double middle = (found(row, at) + plain.values(row, at)) / 2, target = plain.targets(row, at);
    // Sums of float32 of up to 90 terms of some units each.
    CHECK(std::fabs(target - middle) < 2e-4 * (std::fabs(target) + 1));
  }
  return alike;
}

const std::vector<std::string> kWalkedGrids = {
    "int4:channel",    "int3:group=8:pad", "int2h:group=4:pad:search=mse", "e2m1:group=8:pad",
    "mxfp4:pad",       "nvfp4:pad",        "ternary:channel:search=mse",   "uint4:group=16:pad:zero=int",
    "palette3:channel"};

}  // namespace

TEST_CASE("gpfq: the codes are those whose outputs follow the float layer's, column by column") {
  std::mt19937 random(101);
  std::size_t alike = 0, all = 0;
  int kept = 0;
  for (int i = 0; i < 180; ++i) {
    const std::string& spec = kWalkedGrids[static_cast<std::size_t>(i) % kWalkedGrids.size()];
    CAPTURE(spec);
    const bool by_size = random() % 2 == 0, with_floats = random() % 3 != 0;
    const TwoStreams layer = drawn_streams(random, 90, by_size, with_floats);
    if (layer.inputs.isZero()) continue;
    const FoundCodes found = found_by(gpfq_walk, spec, layer, 0, by_size, with_floats);
    kept += found.keeps_rounding ? 1 : 0;
    if (found.keeps_rounding) continue;
    all += static_cast<std::size_t>(layer.weights.rows());
    alike += count_alike(layer, found.values, plain_gpfq(test::scales_for(spec, layer.weights), layer));
  }
  CHECK(alike > all * 97 / 100);
  CHECK(all > 1000);
  MESSAGE(alike << " of " << all << " rows alike, " << kept << " layers keep rounding");
}

TEST_CASE("qronos: the codes are those of its two problems of least squares, column by column") {
  std::mt19937 random(103);
  std::size_t alike = 0, all = 0, as_gptq = 0;
  int kept = 0;
  for (int i = 0; i < 135; ++i) {
    const std::string& spec = kWalkedGrids[static_cast<std::size_t>(i) % kWalkedGrids.size()];
    CAPTURE(spec);
    const bool by_size = random() % 2 == 0, with_floats = random() % 3 != 0;
    const double damping = std::array{0.01, 0.1, 0.001}[random() % 3];
    const TwoStreams layer = drawn_streams(random, 24, by_size, with_floats);
    if (layer.inputs.isZero()) continue;
    const FoundCodes found = found_by(qronos_walk, spec, layer, damping, by_size, with_floats);
    kept += found.keeps_rounding ? 1 : 0;
    if (found.keeps_rounding) continue;
    const auto rows = static_cast<std::size_t>(layer.weights.rows());
    all += rows;
    alike +=
        count_alike(layer, found.values, plain_qronos(test::scales_for(spec, layer.weights), layer, damping));
    if (with_floats && found.values == found_by(gptq_walk, spec, layer, damping, by_size, true).values)
      as_gptq += rows;
  }
  CHECK(alike > all * 97 / 100);
  CHECK(all > 500);
  CHECK(as_gptq < all / 2);  // the first column makes a difference
  MESSAGE(alike << " of " << all << " rows alike, " << kept << " layers keep rounding");
}

TEST_CASE("gpfq, qronos: what a quantized network takes in as the float one does needs no float inputs") {
  std::mt19937 random(107);
  for (int i = 0; i < 40; ++i) {
    const TwoStreams layer = drawn_streams(random, 60, true, false);
    if (layer.inputs.isZero()) continue;
    for (const CodeWalkOf walk : {gpfq_walk, qronos_walk}) {
      const FoundCodes without = found_by(walk, "int3:channel", layer, 0.01, true, false);
      const FoundCodes with = found_by(walk, "int3:channel", layer, 0.01, true, true);
      // W (H + d) (H + d)^-1 is W up to rounding.
      CHECK((without.values - with.values).cwiseAbs().count() <= without.values.size() / 50 + 1);
    }
  }
  const TwoStreams layer = drawn_streams(random, 60, true, false);
  CHECK(found_by(qronos_walk, "int3:channel", layer, 0.01, true, false).values ==
        found_by(gptq_walk, "int3:channel", layer, 0.01, true, false).values);
}
