// Measures networks side by side with their float baseline on a data set: what crumb eval does.
//
//   jobs::Observer silent;
//   const auto report = jobs::evaluate(
//       {.models = {"net4.crumb"}, .baseline = "net.onnx", .data = {"x.npy"}, .labels = "y.npy"}, silent);
//   report.models[0].metrics[0].figures.difference  // of top1, in percent
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eval/output_comparison.h"
#include "eval/paired/sample_metric.h"
#include "jobs/evaluate_layer.h"
#include "jobs/model_options.h"
#include "jobs/observer.h"
#include "jobs/report_file.h"

namespace crumb::jobs {

/// What can be asked of a metric: "top1_drop > 0.5".
struct EvaluateCondition {
  std::string text;  ///< as it was given
  std::string name;  ///< of a figure: "top1", "top1_drop", "kl_mean"
  std::string sign;  ///< one of > >= < <=
  double bound = 0;
};

/// Reads NAME SIGN NUMBER. Throws usage Error for other text and for names that no task has; `field`: what
/// gives it, for messages.
EvaluateCondition parse_evaluate_condition(const std::string& text, const std::string& field);

struct EvaluateRequest {
  /// ONNX, QONNX and QCDQ files, packed files, Hugging Face folders, TorchScript archives; one at least.
  std::vector<std::string> models;
  std::string baseline;           ///< another of these, the float one
  std::vector<std::string> data;  ///< samples (jobs/samples/calibration_data.h)
  std::string labels = {};        ///< an array or a folder of them, first axis: samples; or lines; "": none
  std::string task = {};          ///< one of evaluate_tasks(); "": guessed
  std::string labelled_output = {};  ///< the output that labels are of; "": the first
  std::vector<EvaluateCondition> fail_if = {};
  std::size_t worst = 10;  ///< how many samples are named
  ReportFile report = {};

  bool layers = false;  ///< measure what each layer costs (jobs/evaluate_layer.h)
  /// The first samples, on which it is measured; nothing: 64, and 2 windows of 512 tokens of the task lm.
  std::optional<std::size_t> layer_samples;

  // Of some tasks.
  std::optional<double> peak;       ///< image: the range of numbers; nothing: 255 of labels in bytes, else 1
  double threshold = 0.5;           ///< classify, segment: above it, an output of one float is class 1
  std::string alphabet = {};        ///< ctc: a file with the symbols of classes, one a line
  std::size_t blank = 0;            ///< ctc: its class
  std::size_t context = 1024;       ///< lm: tokens of a window
  std::size_t tokens = 0;           ///< lm: the first tokens of the text; 0: all
  ModelOptions model_options = {};  ///< lm: of the models, not of the baseline

  std::vector<std::string> batch_axes =
      {};                                   ///< NAME=AXIS: inputs and outputs whose samples are not on axis 0
  std::vector<std::string> arguments = {};  ///< NAME=VALUE of TorchScript archives

  // How it runs.
  std::string engine = "auto";  ///< runtime, libtorch, or auto: the first of them that has every operator
  std::string device = "";      ///< where networks run on LibTorch: "cuda"; "": the CPU
  int threads = 0;              ///< 0: as many as the machine has; the number never changes the result
};

struct TaskName {
  std::string_view name, what;  ///< "classify"; its labels and metrics, for help
};
const std::vector<TaskName>& evaluate_tasks();

struct EvaluateMetric {
  eval::MetricName name;
  eval::PairedFigures figures;
};

struct EvaluateOutput {
  std::string name;
  eval::OutputFigures figures;
};

/// What a sample gives an input, without the axis of samples.
struct SampleInput {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// A sample on which the model lost most.
struct WorstSample {
  std::size_t sample = 0;                      ///< from 0, in the order of the data
  std::optional<double> baseline, model;       ///< the first metric of this sample alone
  double distance = 0;                         ///< eval::OutputComparison::distance of the labels' output
  std::string baseline_answer, answer, label;  ///< where they are short

  // Where a report is asked for.
  std::vector<SampleInput> inputs = {};  ///< numbers, as pictures are
  std::string text = {};                 ///< of tasks of texts
};

struct EvaluateClass {
  std::size_t id = 0;
  std::uint64_t count = 0;
  double baseline = 0, model = 0;
};

struct ConditionResult {
  EvaluateCondition condition;
  double value = 0;
  bool holds = false;  ///< the condition is met (a value that is no number meets every condition): a failure
};

struct ModelEvaluation {
  std::string model;
  std::vector<EvaluateMetric> metrics;                ///< none without labels
  std::vector<EvaluateOutput> outputs;                ///< in the baseline's order
  std::vector<WorstSample> worst;                     ///< worst first
  std::vector<EvaluateClass> classes;                 ///< where the task has classes
  std::vector<std::vector<std::uint64_t>> confusion;  ///< [labels, found]; none where there is none
  std::vector<ConditionResult> conditions;            ///< in the request's order
  std::optional<EvaluateLayers> layers;               ///< where the request asks for them
};

struct EvaluateReport {
  std::string task;  ///< "" without labels
  std::size_t samples = 0;
  std::string samples_are = "samples";  ///< or lines, or pieces of a text
  bool interrupted = false;             ///< a person asked to stop: these are the samples that were done
  std::string first_metric;             ///< that says which samples are worst; "" without labels
  std::string distance;                 ///< what else says it: "kl" or "noise"
  std::string class_figure;             ///< what classes have
  std::vector<std::vector<std::uint64_t>> baseline_confusion;
  std::vector<ModelEvaluation> models;  ///< in the request's order

  /// Whether a condition holds for one of the models.
  bool fails() const;
};

/// Runs a few samples at a time through all models in turn. Memory: the models, one file of samples, and of
/// each sample a few numbers a metric. Where a person asks to stop after the first samples, the report is of
/// those that were done. Throws Error that names the file, of kind kUsage where the request makes no sense;
/// Interrupted before the first samples are done.
EvaluateReport evaluate(const EvaluateRequest& request, Observer& observer);

}  // namespace crumb::jobs
