#include "ptq/rounding/layer_rounding.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "ptq/rounding/descent.h"
#include "ptq/rounding/feedback.h"
#include "ptq/rounding/magnitude_reduction.h"
#include "ptq/rounding/output_error.h"
#include "ptq/rounding/weighed_codebook.h"
#include "ptq/rounding/weighed_scales.h"
#include "runtime/exact/double_products.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr std::size_t kRowsShifted = 64;
constexpr double kUsualDamping = 0.01;  // of the target, for walks without damping
constexpr int kMagnitudeSteps = 100;

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// Adds to a matrix' diagonal in place while this lives: memory has no room for a second large matrix.
class Damped {
 public:
  Damped(MatrixXd& matrix, double share) : matrix_(matrix), diagonal_(matrix.diagonal()) {
    matrix_.diagonal().array() += share;
  }
  ~Damped() { matrix_.diagonal() = diagonal_; }
  Damped(const Damped&) = delete;
  Damped& operator=(const Damped&) = delete;

 private:
  MatrixXd& matrix_;
  const Eigen::VectorXd diagonal_;
};

/// Replaces rows of W by rows of (V (G + d) - (V - W) (H + d)) (H + d)^-1, d being the feedback's damping.
/// `beside` has rows of V - W, or is empty: then V is W.
void shift(std::span<float> rows, std::span<const float> beside, const MatrixXd& moments, MatrixXd& cross,
           const Feedback& feedback, int threads) {
  const auto size = static_cast<std::size_t>(moments.rows());
  const double share = feedback.damping() * moments.diagonal().mean();
  const Damped target(cross, share);
  cross.transposeInPlace();  // so that its rows are contiguous
  parallel_for(rows.size() / size, kRowsShifted, threads, [&](std::size_t begin, std::size_t end) {
    const std::size_t first = begin * size, count = end - begin;
    const std::span<float> part = rows.subspan(first, count * size);
    std::vector<double> x(part.begin(), part.end()), wanted(part.size());
    const auto subtract = [&](const MatrixXd& w) {
      runtime::exact::subtract_products({.rows = count,
                                         .columns = size,
                                         .terms = size,
                                         .x = x.data(),
                                         .x_row = size,
                                         .w = w.data(),
                                         .w_row = size,
                                         .y = wanted.data(),
                                         .y_row = size});
    };
    if (!beside.empty())
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<double>(beside[first + i]);
    for (double& value : x) value = -value;
    subtract(cross);
    if (!beside.empty()) {
      std::ranges::copy(beside.subspan(first, x.size()), x.begin());
      subtract(moments);
      for (std::size_t i = 0; i < x.size(); ++i) wanted[i] -= share * x[i];
    }
    feedback.solve(wanted);
    std::ranges::transform(wanted, part.begin(), [](double value) { return static_cast<float>(value); });
  });
  cross.transposeInPlace();
}

/// Returns the spec's scales, with the codebook that was found before, if any.
FixedScales scales_before(const QuantSpec& spec, const WeightRows& rows, const RoundingOptions& options,
                          const std::string& name) {
  FixedScales scales(spec, rows.values, rows.shape, name, options.threads);
  if (!options.codebook.empty()) scales.set_codebook(options.codebook);
  return scales;
}

/// The distance of the codes' outputs from the float layer's. With W the codes' matrix, V the sum of W and
/// its branches, T the result of shift() for W and d its damping:
///
///   |V y - (V - W + Q) x|^2 = |(Q - T) x|^2 + 2 d tr((Q - T) (W - T)^T) + |V (y - x) - (T - W) x|^2.
class Loss {
 public:
  /// For a layer with the same inputs as in the float network: T is W.
  Loss(std::span<const float> target, const MatrixXd& moments, int threads)
      : target_(target),
        moments_(moments),
        all_(output_squares(target, moments, threads)),
        threads_(threads) {}

  /// For the matrix `rows`, with its branches added in `whole`; `late` is |V (y - x)|^2.
  Loss(std::span<const float> target, std::span<const float> rows, std::span<const float> whole, double late,
       double damping, const MatrixXd& moments, const MatrixXd& cross, int threads)
      : target_(target), moments_(moments), damping_(damping * moments.diagonal().mean()), threads_(threads) {
    const Eigen::MatrixXf between = (cross - moments).cast<float>();  // sum (y - x) x^T
    all_ =
        output_squares(whole, moments, threads) + 2 * output_products(whole, between, whole, threads) + late;
    moved_.resize(rows.size());
    std::ranges::transform(rows, target, moved_.begin(), std::minus());
    least_ = late + 2 * output_products(whole, between, moved_, threads) +
             output_squares(moved_, moments, threads);
  }

  double all() const { return all_; }  ///< squares of the float layer's outputs

  double of(const FixedScales& scales, RowRange range, std::span<const std::uint8_t> codes) const {
    const double lost = output_error(scales, range, target_, codes, moments_, threads_);
    if (moved_.empty()) return lost;
    const std::size_t columns = target_.size() / range.count;
    double along = 0;
    for (std::size_t i = 0; i < codes.size(); ++i)
      along +=
          static_cast<double>(scales.value(range.first + i / columns, i % columns, codes[i]) - target_[i]) *
          static_cast<double>(moved_[i]);
    return std::max(0.0, lost + 2 * damping_ * along + least_);
  }

 private:
  std::span<const float> target_;
  const MatrixXd& moments_;
  std::vector<float> moved_;  ///< W - T
  double damping_ = 0, all_ = 0, least_ = 0;
  int threads_;
};

class LayerRounding {
 public:
  LayerRounding(const QuantSpec& spec, WeightRows rows, const SampledLayer& layer, LayerMoments inputs,
                const RoundingOptions& options, const std::optional<Budget>& budget, const std::string& name)
      : layer_(layer),
        inputs_(std::move(inputs)),
        options_(options),
        budget_(budget),
        by_spec_(scales_before(spec, rows, options, name)),
        scales_(by_spec_),
        plain_(nearest_codes(by_spec_, rows.values, options.threads)),
        codes_(plain_),
        meant_(std::move(rows.values)),
        beside_(std::move(rows.beside)) {}

  RoundedLayer run() {
    if (options_.own_scales && !scales_.may_change() && options_.codebook.empty()) {
      find_codebook(scales_, meant_, layer_.rows, inputs_.moments);
      codes_ = nearest_codes(scales_, meant_, options_.threads);  // also for groups without samples
    }
    if (options_.own_scales && blocks_span_groups(scales_, layer_.rows)) {
      std::vector<Eigen::VectorXd> weights;
      for (const MatrixXd& moments : inputs_.moments) weights.emplace_back(moments.diagonal());
      find_scales(scales_, meant_, layer_.rows, weights, options_.threads);
      codes_ = nearest_codes(scales_, meant_, options_.threads);
    }
    for (std::size_t group = 0; group < layer_.groups; ++group) round(group);
    RoundedLayer made{
        .codes = {}, .before = share(before_), .after = share(after_), .notes = std::move(notes_)};
    made.tried = made.after;
    const bool keeps_rounding = !budget_ && !(after_ < before_);
    if (unreached_ > 0)
      made.notes.push_back(std::string("no sample reaches ") +
                           (layer_.groups > 1 ? "some of its groups" : "it") +
                           (budget_ ? "" : ", which keeps rounding"));
    else if (after_ > before_)
      made.notes.push_back("rounding loses less (" + short_text(made.before) + " of outputs, this " +
                           short_text(made.after) + "), and stays");
    made.codes = keeps_rounding ? by_spec_.with_codes(plain_) : scales_.with_codes(codes_);
    if (keeps_rounding) made.after = made.before;
    return made;
  }

 private:
  double damping() const {
    const double usual = options_.damping > 0 ? options_.damping : kUsualDamping;
    if (!(options_.few > 0) || inputs_.samples == 0) return usual;
    return std::max(
        usual, options_.few * static_cast<double>(layer_.columns) / static_cast<double>(inputs_.samples));
  }

  double share(double lost) const { return all_ > 0 ? lost / all_ : 0; }

  /// The rows of one group, and what is known about its inputs.
  struct Part {
    RowRange rows;
    std::span<float> own;           ///< weights; later the target
    std::span<const float> beside;  ///< may be empty
    MatrixXd& moments;
    MatrixXd* cross;  ///< null: the float network has the same inputs
    double late = 0;  ///< |V (y - x)|^2
  };

  Part part_of(std::size_t group) {
    const RowRange rows{group * layer_.rows, layer_.rows};
    const std::size_t first = rows.first * layer_.columns, count = rows.count * layer_.columns;
    Part part{.rows = rows,
              .own = std::span(meant_).subspan(first, count),
              .beside = beside_.empty() ? std::span<const float>() : std::span(beside_).subspan(first, count),
              .moments = inputs_.moments[group],
              .cross = inputs_.cross.empty() ? nullptr : &inputs_.cross[group]};
    if (!part.cross) return part;
    part.late = output_squares(whole_of(part), inputs_.apart[group], options_.threads);
    inputs_.apart[group].resize(0, 0);
    return part;
  }

  static std::vector<float> whole_of(const Part& part) {
    std::vector<float> whole(part.own.begin(), part.own.end());
    for (std::size_t i = 0; i < part.beside.size(); ++i) whole[i] += part.beside[i];
    return whole;
  }

  void round(std::size_t group) {
    Part part = part_of(group);
    auto feedback = Feedback::of(part.moments, damping(), options_.by_size, options_.threads);
    const bool is_reached = feedback.has_value();
    if (!is_reached) {
      ++unreached_;
      if (!budget_) return;
      part.moments = MatrixXd::Identity(part.moments.rows(), part.moments.cols());  // each column alone
      part.cross = nullptr;
      feedback = Feedback::of(part.moments, damping(), options_.by_size, options_.threads);
    } else if (feedback->damping() > damping()) {
      notes_.push_back("what it takes needs a damping of " + short_text(feedback->damping()));
    }
    std::optional<Loss> loss;
    const std::vector<std::uint8_t> chosen = choose(part, *feedback, loss);
    const std::size_t first = part.rows.first * layer_.columns;
    std::ranges::copy(chosen, codes_.begin() + static_cast<std::ptrdiff_t>(first));
    if (!is_reached) return;
    all_ += loss->all();
    before_ += loss->of(by_spec_, part.rows, std::span(plain_).subspan(first, chosen.size()));
    after_ += loss->of(scales_, part.rows, chosen);
  }

  /// Chooses the part's codes and sets their loss. Uses up the cross moments and `feedback`.
  std::vector<std::uint8_t> choose(const Part& part, Feedback& feedback, std::optional<Loss>& loss) {
    const double damping = feedback.damping();
    std::vector<float> weights(part.own.begin(), part.own.end());
    if (part.cross) {
      const std::vector<float> whole = whole_of(part);
      shift(part.own, part.beside, part.moments, *part.cross, feedback, options_.threads);
      loss.emplace(part.own, weights, whole, part.late, damping, part.moments, *part.cross, options_.threads);
    } else {
      feedback.forget_factors();  // not needed for a shift, and memory has no room for another large matrix
      loss.emplace(part.own, part.moments, options_.threads);
    }
    std::vector<std::uint8_t> chosen = walked(part, std::move(weights), feedback);
    if (options_.sweeps > 0 && !budget_) {
      const Damped damped(part.moments, damping * part.moments.diagonal().mean());
      descend(scales_, part.rows, part.own, chosen, part.moments, options_.sweeps, options_.threads);
    }
    return chosen;
  }

  std::vector<std::uint8_t> walked(const Part& part, std::vector<float> weights, Feedback& feedback) {
    const auto& [rows, own, beside, moments, cross, late] = part;
    std::vector<float> smaller;
    std::span<const float> nearest = own;
    if (options_.magnitudes > 0) {
      const Encoding& encoding = scales_.encoding();
      reduce_magnitudes(weights, moments, std::min<std::size_t>(encoding.block_rows, rows.count),
                        encoding.block_cols, options_.magnitudes, kMagnitudeSteps, options_.threads);
      nearest = smaller = weights;
      if (cross) shift(smaller, beside, moments, *cross, feedback, options_.threads);
    }
    feedback.forget_factors();
    std::vector<float> whole;
    if (cross && !beside.empty()) {
      whole = weights;
      for (std::size_t i = 0; i < whole.size(); ++i) whole[i] += beside[i];
    }
    const CodeWalk walk = options_.walk({.weights = weights,
                                         .whole = whole.empty() ? weights : whole,
                                         .nearest = nearest,
                                         .moments = moments,
                                         .cross = cross,
                                         .feedback = feedback,
                                         .damping = options_.damping,
                                         .by_size = options_.by_size,
                                         .threads = options_.threads});
    if (cross) cross->resize(0, 0);
    feedback = Feedback::none(0);
    if (options_.own_scales && !blocks_span_groups(scales_, layer_.rows))
      find_scales(scales_, rows, walk.meant, moments.diagonal(), options_.threads);
    std::optional<AccumulatorLimits> limits;
    if (budget_) limits.emplace(scales_, rows.first, walk.meant, budget_->input, budget_->accumulator);
    std::vector<std::uint8_t> chosen = codes_with_feedback(
        scales_, rows, walk.meant, walk.feedback, options_.threads, limits ? &*limits : nullptr, walk.starts);
    if (options_.soft.steps > 0)
      learn_rounding(scales_, rows, walk.meant, chosen, moments, options_.soft, options_.threads);
    return chosen;
  }

  const SampledLayer& layer_;
  LayerMoments inputs_;
  const RoundingOptions& options_;
  const std::optional<Budget>& budget_;
  FixedScales by_spec_, scales_;
  std::vector<std::uint8_t> plain_, codes_;
  std::vector<float> meant_, beside_;
  double all_ = 0, before_ = 0, after_ = 0;
  std::size_t unreached_ = 0;  ///< groups without samples
  std::vector<std::string> notes_;
};

}  // namespace

RoundedLayer round_layer(const QuantSpec& spec, WeightRows rows, const SampledLayer& layer,
                         LayerMoments inputs, const RoundingOptions& options,
                         const std::optional<Budget>& budget, const std::string& name) {
  if (const std::string fault = fault_of(inputs); !fault.empty()) {
    if (options.is_lenient) {
      const FixedScales scales = scales_before(spec, rows, options, name);
      return {.codes = scales.with_codes(nearest_codes(scales, rows.values, options.threads)),
              .notes = {"what it takes, value '" + layer.input + "', " + fault + "; it keeps rounding"}};
    }
    throw Error("what layer '" + name + "' takes, value '" + layer.input + "', " + fault +
                ": exclude that layer, or look at the data");
  }
  if (budget &&
      (spec.number->grid != Grid::kInteger || !spec.number->is_signed || spec.zero != ZeroPoint::kNone))
    throw Error("layer '" + name + "' has " + spec.to_string() +
                ": a register's bits are for signed integers without zero points");
  return LayerRounding(spec, std::move(rows), layer, std::move(inputs), options, budget, name).run();
}

}  // namespace crumb::ptq
