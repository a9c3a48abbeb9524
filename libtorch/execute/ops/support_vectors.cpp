// SVMRegressor and SVMClassifier.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/ml_scores.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

at::Tensor floats_attribute(const Call& call, const char* name, const at::Tensor& like) {
  return at::tensor(call.node().floats_or(name, {}), like.options());
}

/// The kernel of every row of x with every row of `vectors`.
at::Tensor kernel_of(const Call& call, const at::Tensor& x, const at::Tensor& vectors) {
  const std::string kind = call.text_or("kernel_type", "LINEAR");
  auto parameters = call.node().floats_or("kernel_params", {0, 0, 0});
  if (parameters.empty()) parameters = {0, 0, 0};
  expect_length(call, "kernel_params", parameters.size(), 3);
  const double gamma = parameters[0], offset = parameters[1], degree = std::trunc(parameters[2]);
  if (kind == "RBF") {
    const at::Tensor square = (x.unsqueeze(1) - vectors.unsqueeze(0)).square().sum(-1);
    return (square * -gamma).exp();
  }
  const at::Tensor product = x.matmul(vectors.t());
  if (kind == "LINEAR") return product;
  if (kind == "POLY") return (product * gamma + offset).pow(degree);
  if (kind == "SIGMOID") return (product * gamma + offset).tanh();
  call.fail("expected kernel_type LINEAR, POLY, RBF or SIGMOID, found another");
}

at::Tensor vectors_of(const Call& call, const at::Tensor& x, std::int64_t count) {
  const at::Tensor vectors = floats_attribute(call, "support_vectors", x);
  if (count < 1 || vectors.numel() != count * x.size(1)) {
    call.fail("expected " + std::to_string(count) + " support vectors of " + std::to_string(x.size(1)) +
              " numbers, found " + std::to_string(vectors.numel()) + " numbers");
  }
  return vectors.reshape({count, x.size(1)});
}

/// At least so many numbers of an attribute.
std::vector<float> least_floats(const Call& call, const char* name, std::int64_t count) {
  auto values = call.node().floats_or(name, {});
  if (static_cast<std::int64_t>(values.size()) < count) expect_length(call, name, values.size(), count);
  return values;
}

Outputs svm_regressor(const Call& call) {
  const at::Tensor x = features_of(call);
  const std::int64_t count = call.int_or("n_supports", 0);
  const at::Tensor coefficients = floats_attribute(call, "coefficients", x);
  const float rho = least_floats(call, "rho", 1)[0];
  expect_length(call, "coefficients", static_cast<std::size_t>(coefficients.numel()),
                count > 0 ? count : x.size(1));
  const at::Tensor from = count > 0 ? kernel_of(call, x, vectors_of(call, x, count)) : x;
  at::Tensor scores = from.matmul(coefficients.unsqueeze(1)) + rho;
  if (call.int_or("one_class", 0) != 0) scores = at::where(scores > 0, 1.0, -1.0);
  return one(post_transformed(call, scores, call.text_or("post_transform", "NONE")).to(at::kFloat),
             ElementType::kFloat);
}

/// Scores of each pair of classes, and the votes for each class that they make.
struct Contest {
  at::Tensor scores;  ///< [rows, classes * (classes - 1) / 2]
  at::Tensor votes;   ///< [rows, classes]
};

Contest contest_of(const Call& call, const at::Tensor& x, const Ints& per_class) {
  const auto classes = static_cast<std::int64_t>(per_class.size());
  Ints starts;
  std::int64_t count = 0;
  for (const std::int64_t vectors : per_class) {
    if (vectors < 0 || vectors > (1 << 30)) call.fail("expected vectors_per_class of 0 and more");
    starts.push_back(count);
    count += vectors;
  }
  const at::Tensor kernel = kernel_of(call, x, vectors_of(call, x, count));
  at::Tensor coefficients = floats_attribute(call, "coefficients", x);
  expect_length(call, "coefficients", static_cast<std::size_t>(coefficients.numel()), (classes - 1) * count);
  coefficients = coefficients.reshape({classes - 1, count});
  const auto rho = least_floats(call, "rho", classes * (classes - 1) / 2);
  Contest made{{}, at::zeros({x.size(0), classes}, x.options())};
  std::vector<at::Tensor> scores;
  const auto part = [&](std::int64_t row, std::int64_t of) {
    const std::int64_t start = starts[static_cast<std::size_t>(of)],
                       size = per_class[static_cast<std::size_t>(of)];
    return kernel.narrow(1, start, size).matmul(coefficients[row].narrow(0, start, size));
  };
  for (std::int64_t i = 0; i < classes; ++i) {
    for (std::int64_t j = i + 1; j < classes; ++j) {
      scores.push_back(part(j - 1, i) + part(i, j) + rho[scores.size()]);
      const at::Tensor won = (scores.back() > 0).to(x.scalar_type());
      made.votes.select(1, i).add_(won);
      made.votes.select(1, j).add_(1 - won);
    }
  }
  made.scores = at::stack(scores, 1);
  return made;
}

/// Probabilities of the classes from those of the pairs, [classes, classes], as LIBSVM's iteration finds
/// them.
std::vector<double> coupled(const std::vector<double>& pairs, std::size_t classes) {
  const double limit = 0.005 / static_cast<double>(classes);
  std::vector<double> q(classes * classes), p(classes, 1 / static_cast<double>(classes)), qp(classes);
  for (std::size_t t = 0; t < classes; ++t) {
    for (std::size_t j = 0; j < classes; ++j) {
      if (j == t) continue;
      q[t * classes + t] += pairs[j * classes + t] * pairs[j * classes + t];
      q[t * classes + j] = -pairs[j * classes + t] * pairs[t * classes + j];
    }
  }
  for (std::size_t round = 0; round < std::max<std::size_t>(100, classes); ++round) {
    double both = 0, worst = 0;
    for (std::size_t t = 0; t < classes; ++t) {
      qp[t] = 0;
      for (std::size_t j = 0; j < classes; ++j) qp[t] += q[t * classes + j] * p[j];
      both += p[t] * qp[t];
    }
    for (const double value : qp) worst = std::max(worst, std::abs(value - both));
    if (worst < limit) break;
    for (std::size_t t = 0; t < classes; ++t) {
      const double own = q[t * classes + t], step = (both - qp[t]) / own;
      p[t] += step;
      both = (both + step * (step * own + 2 * qp[t])) / (1 + step) / (1 + step);
      for (std::size_t j = 0; j < classes; ++j) {
        qp[j] = (qp[j] + step * q[t * classes + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

at::Tensor probabilities_of(const Call& call, const at::Tensor& scores, std::int64_t classes) {
  const at::Tensor rows = scores.detach().to(at::kCPU, at::kDouble).contiguous();
  const auto a = least_floats(call, "prob_a", rows.size(1)), b = least_floats(call, "prob_b", rows.size(1));
  const auto many = static_cast<std::size_t>(classes);
  std::vector<double> made;
  for (std::int64_t r = 0; r < rows.size(0); ++r) {
    std::vector<double> pairs(many * many);
    std::size_t index = 0;
    for (std::size_t i = 0; i < many; ++i) {
      for (std::size_t j = i + 1; j < many; ++j, ++index) {
        const double score =
            rows.const_data_ptr<double>()[r * rows.size(1) + static_cast<std::int64_t>(index)];
        const double value = std::clamp(1 / (1 + std::exp(score * a[index] + b[index])), 1e-7, 1 - 1e-7);
        pairs[i * many + j] = value;
        pairs[j * many + i] = 1 - value;
      }
    }
    for (const double value : coupled(pairs, many)) made.push_back(value);
  }
  return at::tensor(made, at::kDouble).reshape({-1, classes}).to(scores.options());
}

/// The scores as output: a single score gets a second one.
at::Tensor written(const Call& call, at::Tensor scores, bool two_labels) {
  const std::string transform = call.text_or("post_transform", "NONE");
  if (scores.size(1) == 1 && two_labels && transform != "PROBIT") {
    scores = with_second_class(scores, SecondClass::kNegative);
  } else if (scores.size(1) == 1 && transform != "PROBIT") {
    return scores;
  }
  return post_transformed(call, scores, transform);
}

Outputs svm_classifier(const Call& call) {
  if (call.node().has("classlabels_strings")) call.fail("labels that are strings are not supported");
  const at::Tensor x = features_of(call);
  const Ints labels = call.node().ints_or("classlabels_ints", {});
  const Ints per_class = call.node().ints_or("vectors_per_class", {});
  const auto classes = std::max<std::int64_t>(static_cast<std::int64_t>(labels.size()), 1);
  const auto coefficients = call.node().floats_or("coefficients", {});
  const bool with_vectors =
      std::any_of(per_class.begin(), per_class.end(), [](std::int64_t n) { return n > 0; });
  at::Tensor scores, ballot;
  if (with_vectors) {
    if (classes < 2) call.fail("expected two classes or more, found " + std::to_string(classes));
    expect_length(call, "vectors_per_class", per_class.size(), classes);
    const Contest contest = contest_of(call, x, per_class);
    ballot = contest.votes;
    scores = call.node().has("prob_a") ? probabilities_of(call, contest.scores, classes) : contest.scores;
  } else {
    expect_length(call, "coefficients", coefficients.size(), classes * x.size(1));
    const at::Tensor rows = at::tensor(coefficients, x.options()).reshape({classes, x.size(1)});
    scores = x.matmul(rows.t()) + least_floats(call, "rho", 1)[0];
    ballot = scores;
  }
  TypedTensor best;
  if (classes == 1) {
    best = {(ballot.select(1, 0) > 0).to(at::kLong), ElementType::kInt64};
  } else {
    best = best_labels(call, ballot, labels);
    const bool all_positive =
        std::all_of(coefficients.begin(), coefficients.end(), [](float c) { return c >= 0; });
    if (classes == 2 && all_positive && !(with_vectors && call.node().has("prob_a"))) {
      best.tensor = best.tensor.masked_fill(ballot.amax(1) >= 0.5, labels[1]);
    }
  }
  return {best, {written(call, scores, labels.size() == 2).to(at::kFloat), ElementType::kFloat}};
}

constexpr OperatorRow kSupportVectorsRows[] = {
    {"SVMRegressor", svm_regressor, kMlDomain},
    {"SVMClassifier", svm_classifier, kMlDomain},
};

}  // namespace

std::span<const OperatorRow> support_vector_operators() { return kSupportVectorsRows; }

}  // namespace crumb::libtorch
