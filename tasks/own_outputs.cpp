#include "tasks/own_outputs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "base/files/text.h"
#include "libtorch/execute/typed_tensor.h"

namespace crumb::tasks {
namespace {

/// Returns the axis of the classes in the scores: the one that labels do not have. Labels [N] or [N, ...].
std::int64_t class_axis(const std::string& gives, const OwnArray& given, at::IntArrayRef scores,
                        at::IntArrayRef labels) {
  const auto without = [&](std::int64_t axis) {
    std::vector<std::int64_t> left(scores.begin(), scores.end());
    left.erase(left.begin() + axis);
    return left == std::vector<std::int64_t>(labels.begin(), labels.end());
  };
  if (scores.size() == labels.size() + 1 && scores.size() >= 2) {
    const auto last = static_cast<std::int64_t>(scores.size()) - 1;
    if (without(1)) return 1;
    if (without(last)) return last;
  }
  throw Error(given.from + " of shape " + graph::text_of(given.values.shape()) +
              " does not fit scores of shape " + graph::text_of(scores.vec()) + ", which " + gives +
              " gives: expected one class for each place, [N] for scores [N, classes]");
}

at::Tensor whole_labels(const OwnArray& given, std::int64_t axis, std::size_t score_axes) {
  const at::Tensor labels = samples_first(given.values, axis);
  if (labels.is_floating_point() || labels.scalar_type() == at::kBool) {
    throw Error(given.from + " of type " + std::string(graph::name_of(given.values.type())) +
                ": cross entropy (--loss ce) needs the numbers of classes, whole numbers");
  }
  at::Tensor whole = labels.to(at::kLong);
  while (whole.dim() > 1 && static_cast<std::size_t>(whole.dim()) >= score_axes &&
         whole.size(whole.dim() - 1) == 1) {
    whole = whole.squeeze(whole.dim() - 1);  // [N, 1]
  }
  return whole.contiguous();
}

void check_labels(const at::Tensor& labels, const OwnArray& given, std::int64_t classes) {
  const at::Tensor wrong = labels.ne(kIgnored).logical_and(labels.lt(0).logical_or(labels.ge(classes)));
  if (!wrong.any().item<bool>()) return;
  const at::Tensor place = wrong.view({-1}).nonzero()[0][0];
  throw Error(given.from + " holds class " + std::to_string(labels.view({-1})[place].item<std::int64_t>()) +
              ", expected 0 to " + std::to_string(classes - 1) + ", at index " +
              std::to_string(place.item<std::int64_t>()) + " of " + graph::text_of(given.values.shape()) +
              " (the network gives " + std::to_string(classes) + " scores; -100 is for what does not count)");
}

OutputLabels classes_of(const std::string& gives, const OwnArray& given, std::int64_t axis,
                        const at::Tensor& example) {
  OutputLabels found{.targets = whole_labels(given, axis, static_cast<std::size_t>(example.dim()))};
  std::vector<std::int64_t> scores = example.sizes().vec();
  scores[0] = found.targets.size(0);
  found.class_axis = class_axis(gives, given, scores, found.targets.sizes());
  const std::int64_t classes = scores[static_cast<std::size_t>(found.class_axis)];
  if (classes < 2) {
    throw Error(gives + " gives one score: cross entropy (--loss ce) needs one for each class, two at least");
  }
  check_labels(found.targets, given, classes);
  return found;
}

at::Tensor values_of(const std::string& gives, const OwnArray& given, std::int64_t axis,
                     const at::Tensor& example) {
  at::Tensor values = samples_first(given.values, axis).to(at::kFloat);
  std::vector<std::int64_t> wanted = example.sizes().vec();
  wanted[0] = values.size(0);
  std::int64_t each = 1;
  for (std::size_t i = 1; i < wanted.size(); ++i) each *= wanted[i];
  const bool only_ones = values.numel() == wanted[0] * each &&
                         std::ranges::count_if(values.sizes(), [](std::int64_t n) { return n != 1; }) ==
                             std::ranges::count_if(wanted, [](std::int64_t n) { return n != 1; });
  if (values.sizes() == at::IntArrayRef(wanted)) return values;
  if (only_ones) return values.reshape(wanted);  // [N] for [N, 1]
  throw Error(given.from + " of shape " + graph::text_of(given.values.shape()) +
              " does not fit outputs of shape " + graph::text_of(wanted) + ", which " + gives + " gives");
}

at::Tensor logarithms(const at::Tensor& made, std::int64_t axis, bool are_shares) {
  constexpr double kLeastShare = 1e-12;
  return are_shares ? made.clamp_min(kLeastShare).log() : at::log_softmax(made, axis);
}

/// The mean over places of the divergence of `made` from `wanted`.
at::Tensor divergence(const at::Tensor& made, const at::Tensor& wanted, std::int64_t axis, bool are_shares) {
  const at::Tensor meant = logarithms(wanted, axis, are_shares);
  const at::Tensor shares = are_shares ? wanted : meant.exp();
  return (shares * (meant - logarithms(made, axis, are_shares))).sum(axis).mean();
}

}  // namespace

std::string text_of_output(const OwnNetwork& own, const OwnOutput& output) {
  const std::string network = quote_text(own.name);
  return own.outputs.size() == 1 ? network : "output " + quote_text(output.name) + " of " + network;
}

at::Tensor samples_first(const graph::Tensor& array, std::int64_t axis) {
  const at::Tensor tensor = libtorch::to_typed(array).tensor;
  return axis == 0 || tensor.dim() <= axis ? tensor : tensor.movedim(axis, 0).contiguous();
}

OutputLabels labels_of(const OwnNetwork& own, const OwnOutput& output, const OwnArray& labels,
                       const at::Tensor& example) {
  const std::int64_t axis = own.axis_of(output.name);
  const std::string gives = text_of_output(own, output);
  if (output.loss == "mse") return {.targets = values_of(gives, labels, axis, example)};
  return classes_of(gives, labels, axis, example);
}

void expect_counting(const at::Tensor& labels, const std::string& from, const std::string& which) {
  if (labels.ne(kIgnored).any().item<bool>()) return;
  throw Error(from + ": none of the " + std::to_string(labels.numel()) + " labels " + which +
              " counts, all are -100");
}

void use_classes(TaskOutput& output, std::int64_t axis, bool are_shares) {
  output.metric = "accuracy";
  output.loss = [axis, are_shares](const at::Tensor& scores_now, const at::Tensor& labels) {
    const at::Tensor in_place = scores_now.movedim(axis, 1);
    if (!labels.ne(kIgnored).any().item<bool>()) return in_place.sum() * 0;  // no mean over no labels
    return at::cross_entropy_loss(are_shares ? in_place.clamp_min(1e-12).log() : in_place, labels, {},
                                  at::Reduction::Mean, kIgnored);
  };
  output.score = [axis](const at::Tensor& scores_now, const at::Tensor& labels) {
    const at::Tensor counts = labels.ne(kIgnored);
    const at::Tensor right = scores_now.argmax(axis).eq(labels).logical_and(counts);
    return static_cast<double>(right.sum().item<std::int64_t>()) /
           static_cast<double>(std::max<std::int64_t>(counts.sum().item<std::int64_t>(), 1));
  };
}

void use_values(TaskOutput& output) {
  output.metric = "mse";
  output.loss = [](const at::Tensor& made, const at::Tensor& wanted) {
    return (made - wanted).square().mean();
  };
  output.score = [](const at::Tensor& made, const at::Tensor& wanted) {
    return (made - wanted).to(at::kDouble).square().mean().item<double>();
  };
}

void use_float_outputs(TaskOutput& output, const at::Tensor& given) {
  const double square = given.to(at::kDouble).square().mean().item<double>();
  const double share = square > 0 ? 1 / square : 1;
  output.is_held = true;
  output.metric = "relative error";
  output.loss = [share](const at::Tensor& made, const at::Tensor& wanted) {
    return (made - wanted).square().mean() * share;
  };
  output.score = [share](const at::Tensor& made, const at::Tensor& wanted) {
    return (made - wanted).to(at::kDouble).square().mean().item<double>() * share;
  };
}

std::int64_t held_class_axis(const OwnNetwork& own, const OwnOutput& output, const at::Tensor& example) {
  const std::int64_t batch = own.axis_of(output.name), rank = example.dim();
  const std::string gives = text_of_output(own, output) + " gives " +
                            graph::text_of(example.movedim(0, std::min(batch, rank - 1)).sizes().vec()) +
                            " for one sample";
  const std::int64_t axis = output.class_axis.value_or(batch == rank - 1 ? rank - 2 : rank - 1);
  if (axis < 0 || axis >= rank || axis == batch)
    throw Error(gives + ": expected classes on another axis than that of samples, " + std::to_string(batch) +
                (output.class_axis ? ", found axis " + std::to_string(axis) : ""));
  const std::int64_t moved = axis < batch ? axis + 1 : axis;  // behind that of samples, which is the first
  if (example.size(moved) < 2)
    throw Error(gives + ", one number on axis " + std::to_string(axis) +
                ": the divergence of distributions (kl) needs two classes at least");
  return moved;
}

void use_float_distributions(TaskOutput& output, std::int64_t axis, bool are_shares) {
  output.is_held = true;
  output.metric = "kl";
  output.loss = [axis, are_shares](const at::Tensor& made, const at::Tensor& wanted) {
    return divergence(made, wanted, axis, are_shares);
  };
  output.score = [axis, are_shares](const at::Tensor& made, const at::Tensor& wanted) {
    return divergence(made.to(at::kDouble), wanted.to(at::kDouble), axis, are_shares).item<double>();
  };
}

}  // namespace crumb::tasks
