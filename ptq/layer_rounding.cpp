#include "ptq/layer_rounding.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "ptq/descent.h"
#include "ptq/feedback.h"
#include "ptq/magnitude_reduction.h"
#include "ptq/output_error.h"
#include "ptq/weighed_codebook.h"
#include "ptq/weighed_scales.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr std::size_t kRowsAtATime = 32;
constexpr double kUsualDamping = 0.01;  // of what outputs are held against, where a walk asks for none
constexpr int kMagnitudeSteps = 100;

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// A matrix with something added to its diagonal, as long as this lives: of large ones there is no room for another.
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

/// Rows of W to rows of (V (G + d) - (V - W) (H + d)) (H + d)^-1; `beside`, rows of V - W, may be empty: V is W.
void shift(std::span<float> rows, std::span<const float> beside, MatrixXd& moments, MatrixXd& cross,
           double damping, int threads) {
  const Index size = moments.rows();
  const double share = damping * moments.diagonal().mean();
  Eigen::LLT<MatrixXd> factor;
  {
    const Damped damped(moments, share);
    factor.compute(moments);
  }
  const Damped target(cross, share);
  parallel_for(
      rows.size() / static_cast<std::size_t>(size), kRowsAtATime, threads,
      [&](std::size_t begin, std::size_t end) {
        using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
        const std::size_t first = begin * static_cast<std::size_t>(size);
        const auto count = static_cast<Index>(end - begin);
        Eigen::Map<Rows> part(rows.data() + first, count, size);
        MatrixXd wanted;
        if (beside.empty()) {
          wanted = (part.cast<double>() * cross).transpose();
        } else {
          const MatrixXd more = Eigen::Map<const Rows>(beside.data() + first, count, size).cast<double>();
          wanted = ((part.cast<double>() + more) * cross - more * moments - share * more).transpose();
        }
        part = factor.solve(wanted).transpose().cast<float>();
      });
}

/// By the spec, but for a codebook that was found before.
FixedScales scales_before(const QuantSpec& spec, const WeightRows& rows, const RoundingOptions& options,
                          const std::string& name) {
  FixedScales scales(spec, rows.values, rows.shape, name, options.threads);
  if (!options.codebook.empty()) scales.set_codebook(options.codebook);
  return scales;
}

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
      codes_ = nearest_codes(scales_, meant_, options_.threads);  // of groups that no sample reaches, too
    }
    for (std::size_t group = 0; group < layer_.groups; ++group) round(group);
    RoundedLayer made{
        .codes = {}, .before = share(before_), .after = share(after_), .notes = std::move(notes_)};
    const bool keeps_rounding = !budget_ && !(after_ < before_);
    if (unreached_ > 0)
      made.notes.push_back(std::string("no sample reaches ") +
                           (layer_.groups > 1 ? "some of its groups" : "it") +
                           (budget_ ? "" : ", which keeps rounding"));
    else if (keeps_rounding)
      made.notes.push_back("rounding loses less (" + short_text(made.before) + " of outputs, this " +
                           short_text(made.after) + "), and stays");
    made.codes = keeps_rounding ? by_spec_.with_codes(plain_) : scales_.with_codes(codes_);
    if (keeps_rounding) made.after = made.before;
    return made;
  }

 private:
  double damping() const { return options_.damping > 0 ? options_.damping : kUsualDamping; }

  double share(double lost) const { return all_ > 0 ? lost / all_ : 0; }

  void round(std::size_t group) {
    MatrixXd& moments = inputs_.moments[group];
    const RowRange rows{group * layer_.rows, layer_.rows};
    const std::size_t first = rows.first * layer_.columns, count = rows.count * layer_.columns;
    auto feedback = Feedback::of(moments, damping(), options_.by_size);
    const bool is_reached = feedback.has_value();
    if (!is_reached) {
      ++unreached_;
      if (!budget_) return;
      moments = MatrixXd::Identity(moments.rows(), moments.cols());  // each column for itself
      feedback = Feedback::of(moments, damping(), options_.by_size);
    } else if (feedback->damping() > damping()) {
      notes_.push_back("what it takes needs a damping of " + short_text(feedback->damping()));
    }
    const std::span<float> own(meant_.data() + first, count);
    MatrixXd* const cross = is_reached && !inputs_.cross.empty() ? &inputs_.cross[group] : nullptr;
    const std::vector<std::uint8_t> chosen = choose(rows, own, moments, cross, *feedback);
    std::ranges::copy(chosen, codes_.begin() + static_cast<std::ptrdiff_t>(first));
    if (!is_reached) return;
    all_ += output_squares(own, moments, options_.threads);
    before_ +=
        output_error(by_spec_, rows, own, std::span(plain_).subspan(first, count), moments, options_.threads);
    after_ += output_error(scales_, rows, own, chosen, moments, options_.threads);
  }

  /// Their codes; `own`, their weights, becomes what outputs are held against. Of `cross` and `feedback` nothing is left.
  std::vector<std::uint8_t> choose(RowRange rows, std::span<float> own, MatrixXd& moments, MatrixXd* cross,
                                   Feedback& feedback) {
    const double damping = feedback.damping();
    std::vector<std::uint8_t> chosen = walked(rows, own, moments, cross, feedback);
    if (options_.sweeps > 0 && !budget_) {
      const Damped damped(moments, damping * moments.diagonal().mean());
      descend(scales_, rows, own, chosen, moments, options_.sweeps, options_.threads);
    }
    return chosen;
  }

  std::vector<std::uint8_t> walked(RowRange rows, std::span<float> own, MatrixXd& moments, MatrixXd* cross,
                                   Feedback& feedback) {
    const double damping = feedback.damping();
    std::vector<float> weights(own.begin(), own.end()), smaller;
    const std::size_t first = rows.first * layer_.columns;
    const std::span<const float> beside =
        beside_.empty() ? std::span<const float>() : std::span(beside_).subspan(first, own.size());
    if (cross) shift(own, beside, moments, *cross, damping, options_.threads);
    std::span<const float> nearest = own;
    if (options_.magnitudes > 0) {
      reduce_magnitudes(weights, moments, scales_.encoding().block_cols, options_.magnitudes, kMagnitudeSteps,
                        options_.threads);
      nearest = smaller = weights;
      if (cross) shift(smaller, beside, moments, *cross, damping, options_.threads);
    }
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
    if (options_.own_scales) find_scales(scales_, rows, walk.meant, moments.diagonal(), options_.threads);
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
  std::size_t unreached_ = 0;  ///< groups
  std::vector<std::string> notes_;
};

}  // namespace

RoundedLayer round_layer(const QuantSpec& spec, WeightRows rows, const SampledLayer& layer,
                         LayerMoments inputs, const RoundingOptions& options,
                         const std::optional<Budget>& budget, const std::string& name) {
  if (const std::string fault = fault_of(inputs); !fault.empty())
    throw Error("what layer '" + name + "' takes, value '" + layer.input + "', " + fault +
                ": exclude that layer, or look at the data");
  if (budget &&
      (spec.number->grid != Grid::kInteger || !spec.number->is_signed || spec.zero != ZeroPoint::kNone))
    throw Error("layer '" + name + "' has " + spec.to_string() +
                ": a register's bits are for signed integers without zero points");
  return LayerRounding(spec, std::move(rows), layer, std::move(inputs), options, budget, name).run();
}

}  // namespace crumb::ptq
