#include "jobs/evaluate/network_evaluation.h"

#include <algorithm>
#include <functional>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/within.h"
#include "graph/batches.h"
#include "jobs/evaluate/conditions.h"
#include "jobs/evaluate/evaluation_parts.h"
#include "jobs/evaluate/layers/layer_evaluation.h"
#include "jobs/evaluate/task_choice.h"

namespace crumb::jobs {
namespace {

using graph::Tensor;

constexpr std::int64_t kMostTogether = 32;
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;  // of inputs that run together

std::vector<EvaluatedNetwork> open_networks(const EvaluateRequest& request, Observer& observer) {
  std::vector<EvaluatedNetwork> networks;
  networks.reserve(request.models.size() + 1);
  check_arguments(request, observer);
  networks.emplace_back(request.baseline, request, nullptr, observer);
  for (const std::string& model : request.models)
    networks.emplace_back(model, request, &networks.front(), observer);
  return networks;
}

bool has_samples(const Tensor& output, std::int64_t axis, std::int64_t count) {
  return output.rank() > axis && output.shape()[static_cast<std::size_t>(axis)] == count;
}

/// Samples of one output, one at a time.
class OutputSamples {
 public:
  OutputSamples() = default;  ///< of an output that nobody asks for
  OutputSamples(const Tensor& output, std::int64_t axis, std::int64_t count, const std::string& name)
      : output_(&output), axis_(axis), are_whole_(!graph::is_float(output.type())) {
    if (!has_samples(output, axis, count))
      throw Error("output " + quote_text(name) + " is " + graph::text_of(std::span(output.shape())) +
                  " for " + count_text(static_cast<std::uint64_t>(count), "sample") +
                  ": expected them along axis " + std::to_string(axis) + "; --batch-axis " + name +
                  "=AXIS names another");
    shape_ = output.shape();
    shape_.erase(shape_.begin() + axis);
    if (axis == 0) all_ = output.to_floats();
    size_ = count == 0 ? 0 : output.size() / static_cast<std::size_t>(count);
  }

  const std::vector<std::int64_t>& shape() const { return shape_; }
  /// Lives until the next call.
  eval::SampleOutput sample(std::int64_t i) {
    if (axis_ == 0)
      return {.shape = shape_,
              .values = std::span(all_).subspan(static_cast<std::size_t>(i) * size_, size_),
              .are_whole = are_whole_};
    all_ = graph::samples_of(*output_, i, 1, axis_).to_floats();
    return {.shape = shape_, .values = all_, .are_whole = are_whole_};
  }

 private:
  const Tensor* output_ = nullptr;
  std::int64_t axis_ = 0;
  bool are_whole_ = false;
  std::vector<std::int64_t> shape_;
  std::size_t size_ = 0;
  std::vector<float> all_;
};

bool is_number(graph::ElementType type) {
  return type != graph::ElementType::kString && type != graph::ElementType::kComplex64 &&
         type != graph::ElementType::kComplex128;
}

}  // namespace

NetworkEvaluation::NetworkEvaluation(EvaluateRequest request, Observer& observer)
    : request_(std::move(request)),
      observer_(observer),
      networks_(open_networks(request_, observer)),
      data_(networks_.front().graph(), request_.data, observer.spelled("data"), "samples",
            networks_.front().axes()),
      task_(request_.task) {
  const std::vector<std::string>& names = networks_.front().graph().outputs;
  if (!request_.labelled_output.empty()) {
    const auto found = std::ranges::find(names, request_.labelled_output);
    if (found == names.end())
      throw usage_error(observer.spelled("labelled_output") + ": " +
                        unknown_name("output", request_.labelled_output, names));
    labelled_ = static_cast<std::size_t>(found - names.begin());
  }
  if (request_.labels.empty()) {
    if (!task_.empty())
      throw usage_error("the task " + quote_text(task_) + " needs " + observer.spelled("labels"));
  } else {
    labels_.emplace(request_.labels, observer.spelled("labels"));
  }
}

EvaluateReport NetworkEvaluation::run() {
  bool interrupted = false;
  {
    const ProgressScope scope(observer_);
    try {
      for (std::size_t file = 0; file < data_.files(); ++file) run_file(file);
    } catch (const Interrupted&) {
      if (samples_ == 0) throw;
      interrupted = true;
    }
  }
  if (samples_ == 0)
    throw Error(observer_.spelled("data") + " " + quote_text(request_.data.front()) + " holds no samples");
  if (labels_ && !interrupted) labels_->check_end();
  EvaluateReport made = report(interrupted);
  if (request_.layers) measure_layers(made);
  return made;
}

void NetworkEvaluation::measure_layers(EvaluateReport& made) const {
  const graph::Batches batches = data_.batches();
  for (std::size_t i = 0; i < made.models.size() && !made.interrupted; ++i)
    made.models[i].layers = evaluate_layers({.path = request_.models[i],
                                             .model = networks_[i + 1].graph(),
                                             .baseline = networks_.front().graph(),
                                             .batches = batches,
                                             .axes = networks_.front().axes(),
                                             .model_axes = networks_[i + 1].axes(),
                                             .most = request_.layer_samples.value_or(kUsualLayerSamples),
                                             .prepare = prepare_on(request_.engine, request_.threads),
                                             .threads = request_.threads},
                                            made.interrupted, observer_);
}

void NetworkEvaluation::check_labels(std::int64_t samples) const {
  if (!labels_ || data_.files() != 1 || !labels_->is_one_file()) return;
  if (labels_->samples() != static_cast<std::size_t>(samples))
    throw usage_error(observer_.spelled("labels") + " " + quote_text(request_.labels) + " has " +
                      count_text(labels_->samples(), "label") + ", and the data " +
                      count_text(static_cast<std::uint64_t>(samples), "sample"));
}

void NetworkEvaluation::run_file(std::size_t file) {
  const std::vector<Tensor> inputs = data_.inputs(file);
  const EvaluatedNetwork& baseline = networks_.front();
  const auto axis_of = [&](std::size_t i) {
    return graph::batch_axis_of(baseline.axes(), baseline.graph().inputs[i]);
  };
  const auto axis = static_cast<std::size_t>(axis_of(0));
  if (inputs.empty() || inputs[0].shape().size() <= axis)
    throw Error(observer_.spelled("data") + " " + quote_text(request_.data.front()) +
                " holds no axis of samples: expected an array whose axis " + std::to_string(axis) +
                " is the samples");
  const std::int64_t all = inputs[0].shape()[axis];
  check_labels(all);
  begins_.push_back(samples_);
  // A network that takes a fixed number of samples gets as many.
  const graph::Value* value = baseline.graph().find(baseline.graph().inputs[0]);
  const bool is_fixed = value && value->shape && value->shape->size() > axis && (*value->shape)[axis].known();
  std::uint64_t bytes = 1;
  for (const Tensor& input : inputs) bytes += input.byte_count();
  const std::uint64_t of_sample =
      std::max<std::uint64_t>(bytes / static_cast<std::uint64_t>(std::max<std::int64_t>(all, 1)), 1);
  const auto together = is_fixed ? std::max<std::int64_t>((*value->shape)[axis].size, 1)
                                 : std::clamp<std::int64_t>(static_cast<std::int64_t>(kMostBytes / of_sample),
                                                            1, kMostTogether);
  for (std::int64_t begin = 0; begin < all; begin += together) {
    check_interrupt();
    const std::int64_t count = std::min(together, all - begin);
    std::vector<Tensor> piece;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto own = static_cast<std::size_t>(axis_of(i));
      const bool has_samples = inputs[i].shape().size() > own && inputs[i].shape()[own] == all;
      piece.push_back(has_samples ? graph::samples_of(inputs[i], begin, count, axis_of(i)) : inputs[i]);
    }
    std::vector<std::vector<Tensor>> made;
    for (EvaluatedNetwork& network : networks_) made.push_back(network.run(piece, observer_));
    if (models_.empty()) begin_scores(made, count);
    add(made, count);
    tell(begin + count, all, file);
  }
}

void NetworkEvaluation::tell(std::int64_t done, std::int64_t all, std::size_t file) const {
  // Files that were not read yet are taken to be as long as this one.
  const std::size_t before = samples_ - static_cast<std::size_t>(done);
  const std::size_t later = (data_.files() - file) * static_cast<std::size_t>(all);
  observer_.progress({.what = "evaluating", .items = "samples", .done = samples_, .all = before + later});
}

std::string NetworkEvaluation::why_not_compared(const std::vector<std::vector<Tensor>>& made,
                                                std::size_t output, std::int64_t count) const {
  const EvaluatedNetwork& baseline = networks_.front();
  const std::int64_t axis = graph::batch_axis_of(baseline.axes(), baseline.graph().outputs[output]);
  const auto shape_of = [&](std::size_t m) { return graph::text_of(std::span(made[m][output].shape())); };
  for (std::size_t m = 0; m < made.size(); ++m) {
    const std::string whose = m == 0 ? "the baseline" : quote_text(networks_[m].path());
    if (!is_number(made[m][output].type()))
      return whose + " gives " + std::string(name_of(made[m][output].type()));
    if (!has_samples(made[m][output], axis, count))
      return "it is " + shape_of(m) + " of " + whose + " for " +
             count_text(static_cast<std::uint64_t>(count), "sample");
    if (made[m][output].shape() != made[0][output].shape())
      return "it is " + shape_of(0) + " of the baseline and " + shape_of(m) + " of " + whose;
  }
  return "";
}

void NetworkEvaluation::begin_scores(const std::vector<std::vector<Tensor>>& made, std::int64_t count) {
  const EvaluatedNetwork& baseline = networks_.front();
  const std::vector<std::string>& names = baseline.graph().outputs;
  const auto shape_of = [&](std::size_t output) {
    return OutputSamples(made[0][output], graph::batch_axis_of(baseline.axes(), names[output]), count,
                         names[output])
        .shape();
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string why = why_not_compared(made, i, count);
    if (!why.empty()) observer_.note("output " + quote_text(names[i]) + " is not compared: " + why);
    is_compared_.push_back(why.empty());
  }
  std::function<std::unique_ptr<eval::Scorer>()> make = [] { return nullptr; };
  if (labels_) {
    const Tensor& expected = made[0][labelled_];
    if (!is_number(expected.type()))
      throw Error("output " + quote_text(names[labelled_]) + " of the baseline holds " +
                  std::string(name_of(expected.type())) + ": " + observer_.spelled("labelled_output") +
                  " names another");
    const LabelledOutput output{
        .shape = shape_of(labelled_),
        .is_whole = !graph::is_float(expected.type()),
        .has_scores = std::ranges::none_of(
            made, [&](const std::vector<Tensor>& outputs) { return outputs[labelled_].size() <= count; })};
    if (task_.empty()) {
      task_ = guess_task(*labels_, output, observer_.spelled("task"));
      observer_.note("the labels are taken for those of the task " + task_ + "; " +
                     observer_.spelled("task") + " names another");
    }
    make = scorers_of(task_, request_, *labels_, output, observer_);
  }
  baseline_scorer_ = make();
  for (std::size_t m = 1; m < made.size(); ++m) {
    Compared& model = models_.emplace_back(Compared{.scorer = make(), .outputs = {}});
    for (std::size_t i = 0; i < names.size(); ++i)
      model.outputs.emplace_back(is_compared_[i] ? row_axis(i == labelled_ ? task_ : "", shape_of(i))
                                                 : eval::RowAxis::kNone);
  }
  std::vector<eval::MetricName> metrics;
  if (baseline_scorer_)
    for (const auto& metric : baseline_scorer_->metrics()) metrics.push_back(metric->name());
  check_conditions(
      request_.fail_if, metrics,
      {.are_there = is_compared_[labelled_], .have_rows = models_[0].outputs[labelled_].has_rows()},
      observer_.spelled("fail_if"));
}

void NetworkEvaluation::add(const std::vector<std::vector<Tensor>>& made, std::int64_t count) {
  const EvaluatedNetwork& baseline = networks_.front();
  const std::vector<std::string>& names = baseline.graph().outputs;
  std::vector<std::vector<OutputSamples>> samples(made.size());
  for (std::size_t m = 0; m < made.size(); ++m)
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!is_compared_[i] && !(labels_ && i == labelled_)) {
        samples[m].emplace_back();
        continue;
      }
      try {
        samples[m].emplace_back(made[m][i], graph::batch_axis_of(baseline.axes(), names[i]), count, names[i]);
      } catch (const Error& error) {
        throw within(quote_text(networks_[m].path()), error);
      }
    }
  for (std::int64_t s = 0; s < count; ++s) {
    const auto scored = [&](std::size_t m, const std::string& and_what, const auto& add_sample) {
      try {
        add_sample();
      } catch (const Error& error) {
        throw within(quote_text(networks_[m].path()) + and_what + ", sample " + std::to_string(samples_),
                     error);
      }
    };
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!is_compared_[i]) continue;
      const eval::SampleOutput expected = samples[0][i].sample(s);
      for (std::size_t m = 1; m < made.size(); ++m)
        scored(m, "", [&] { models_[m - 1].outputs[i].add(expected, samples[m][i].sample(s)); });
    }
    if (labels_) {
      const eval::SampleLabel label = labels_->next(label_kind(task_));
      for (std::size_t m = 0; m < made.size(); ++m)
        scored(m, ", " + labels_->name(), [&] {
          (m == 0 ? *baseline_scorer_ : *models_[m - 1].scorer).add(samples[m][labelled_].sample(s), label);
        });
    }
    ++samples_;
  }
}

std::vector<WorstSample> NetworkEvaluation::worst_of(const Compared& model) const {
  std::vector<double> distance(samples_);
  for (std::size_t i = 0; i < samples_ && is_compared_[labelled_]; ++i)
    distance[i] = model.outputs[labelled_].distance(i);
  const bool scores = baseline_scorer_ != nullptr;
  std::vector<WorstSample> worst =
      worst_samples(scores ? baseline_scorer_->metrics().front().get() : nullptr,
                    scores ? model.scorer->metrics().front().get() : nullptr, distance, request_.worst);
  for (WorstSample& one : worst) {
    if (!scores) break;
    one.baseline_answer = baseline_scorer_->answer(one.sample);
    one.answer = model.scorer->answer(one.sample);
    one.label = model.scorer->wanted(one.sample);
  }
  return worst;
}

ModelEvaluation NetworkEvaluation::evaluation_of(std::size_t number) const {
  const Compared& model = models_[number];
  ModelEvaluation made{.model = request_.models[number]};
  if (baseline_scorer_) {
    for (std::size_t i = 0; i < baseline_scorer_->metrics().size(); ++i)
      made.metrics.push_back(
          compare_metric(*baseline_scorer_->metrics()[i], *model.scorer->metrics()[i], request_.threads));
    const std::vector<eval::ClassFigure> before = baseline_scorer_->classes(),
                                         after = model.scorer->classes();
    for (std::size_t i = 0; i < before.size(); ++i)
      made.classes.push_back({.id = before[i].id,
                              .count = before[i].count,
                              .baseline = before[i].value,
                              .model = after[i].value});
    made.confusion = model.scorer->confusion();
  }
  std::optional<std::size_t> labelled;
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    if (!is_compared_[i]) continue;
    if (i == labelled_) labelled = made.outputs.size();
    made.outputs.push_back(
        {.name = networks_.front().graph().outputs[i], .figures = model.outputs[i].figures()});
  }
  made.worst = worst_of(model);
  made.conditions = hold(request_.fail_if, made, labelled);
  return made;
}

EvaluateReport NetworkEvaluation::report(bool interrupted) const {
  EvaluateReport made{.task = task_, .samples = samples_, .interrupted = interrupted};
  if (baseline_scorer_) {
    made.first_metric = baseline_scorer_->metrics().front()->name().name;
    made.class_figure = baseline_scorer_->class_figure();
    made.baseline_confusion = baseline_scorer_->confusion();
  }
  made.distance = models_.front().outputs[labelled_].has_rows() ? "kl" : "noise";
  for (std::size_t i = 0; i < models_.size(); ++i) made.models.push_back(evaluation_of(i));
  if (!request_.report.path.empty()) add_inputs(made);
  return made;
}

void NetworkEvaluation::add_inputs(EvaluateReport& report) const {
  const EvaluatedNetwork& baseline = networks_.front();
  for (std::size_t file = 0; file < begins_.size(); ++file) {
    const std::size_t end = file + 1 < begins_.size() ? begins_[file + 1] : samples_;
    std::vector<WorstSample*> wanted;
    for (ModelEvaluation& model : report.models)
      for (WorstSample& worst : model.worst)
        if (worst.sample >= begins_[file] && worst.sample < end) wanted.push_back(&worst);
    if (wanted.empty()) continue;
    const std::vector<Tensor> inputs = data_.inputs(file);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::string& name = baseline.graph().inputs[i];
      const std::int64_t axis = graph::batch_axis_of(baseline.axes(), name);
      if (!is_number(inputs[i].type()) || inputs[i].rank() <= axis) continue;
      for (WorstSample* worst : wanted) {
        const auto at = static_cast<std::int64_t>(worst->sample - begins_[file]);
        if (at >= inputs[i].shape()[static_cast<std::size_t>(axis)]) continue;
        const Tensor one = graph::samples_of(inputs[i], at, 1, axis);
        std::vector<std::int64_t> shape = one.shape();
        shape.erase(shape.begin() + axis);
        worst->inputs.push_back({.name = name, .shape = std::move(shape), .values = one.to_floats()});
      }
    }
  }
}

}  // namespace crumb::jobs
