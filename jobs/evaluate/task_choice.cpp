#include "jobs/evaluate/task_choice.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "eval/tasks/classification.h"
#include "eval/tasks/pictures.h"
#include "eval/tasks/regression.h"
#include "eval/tasks/same_shape.h"
#include "eval/tasks/segmentation.h"
#include "eval/tasks/transcription.h"
#include "graph/graph.h"
#include "jobs/samples/read_lines.h"

namespace crumb::jobs {
namespace {

using MakeScorer = std::function<std::unique_ptr<eval::Scorer>()>;
using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kMostChannels = 4;

/// Whether a sample is a picture of one to four channels.
bool is_picture(const Sizes& shape) {
  constexpr std::size_t kAxes = 3;
  return shape.size() == kAxes && (shape.front() <= kMostChannels || shape.back() <= kMostChannels) &&
         eval::long_axes(shape).size() >= 2;
}

/// The symbols of all classes: lines of the file for those that are not the blank, and a space behind them
/// where there is one class more, as PaddleOCR has it.
eval::Alphabet alphabet_of(const EvaluateRequest& request, std::size_t classes, const Observer& observer) {
  const std::string field = observer.spelled("alphabet");
  if (request.alphabet.empty())
    throw usage_error("the task ctc needs " + field + ", a file with the symbol of each class on a line");
  std::vector<std::string> symbols = read_lines(request.alphabet);
  if (symbols.size() + 2 == classes) symbols.emplace_back(" ");
  if (symbols.size() + 1 != classes)
    throw usage_error(field + " " + quote_text(request.alphabet) + " has " +
                      count_text(symbols.size(), "line") + ", and the output " +
                      count_text(classes, "class", "classes") +
                      ": expected a line for each, but for the blank and perhaps the space");
  if (request.blank >= classes)
    throw usage_error(observer.spelled("blank") + " is " + std::to_string(request.blank) +
                      "; expected a class from 0 to " + std::to_string(classes - 1));
  symbols.insert(symbols.begin() + static_cast<std::ptrdiff_t>(request.blank), "");
  return {.symbols = std::move(symbols), .blank = request.blank};
}

}  // namespace

const std::vector<TaskName>& evaluate_tasks() {
  static const std::vector<TaskName> tasks = {
      {"classify", "classes [N]: top-1, top-5, balanced accuracy, confusion matrix"},
      {"segment", "classes [N, H, W]: mean IoU, pixel accuracy"},
      {"regress", "numbers of the output's shape: RMSE, MAE, R^2"},
      {"image", "pictures of the output's shape: PSNR, SSIM"},
      {"ctc", "texts, one a line: character and word error rate"},
      {"embed", "the data are sentences, labels how alike the two of a line are: Spearman"},
      {"lm", "the data are a text: perplexity"},
  };
  return tasks;
}

std::string guess_task(const SampleLabels& labels, const LabelledOutput& output, const std::string& field) {
  const Sizes label = labels.shape(), axes = eval::long_axes(label), given = eval::long_axes(output.shape);
  if (labels.are_texts() && given.size() == 2) return "ctc";
  // A class for a row of scores; whole numbers in an array of floats, too.
  if (axes.empty() && given.size() == 1) return "classify";
  const bool are_classes = labels.are_classes() || labels.are_texts();
  if (axes.empty() && given.empty() && are_classes && output.is_whole) return "classify";
  if (labels.are_classes()) {
    const bool has_classes =
        given.size() == axes.size() + 1 && std::equal(axes.begin(), axes.end(), given.begin() + 1);
    if (axes.size() >= 2 && (has_classes || (axes == given && !is_picture(output.shape)))) return "segment";
  }
  if (axes == given) return is_picture(output.shape) ? "image" : "regress";
  throw usage_error(labels.name() + " has labels of shape " + graph::text_of(std::span(label)) +
                    " and the baseline outputs of shape " + graph::text_of(std::span(output.shape)) +
                    " a sample, which fit no task; " + field + " names one");
}

MakeScorer scorers_of(const std::string& task, const EvaluateRequest& request, const SampleLabels& labels,
                      const LabelledOutput& output, const Observer& observer) {
  const Sizes& shape = output.shape;
  const bool takes_texts = task == "ctc",
             takes_lines = takes_texts || task == "classify" || task == "regress";
  if (labels.are_texts() ? !takes_lines : takes_texts)
    throw usage_error(labels.name() + (labels.are_texts()
                                           ? " is a text, and the task " + task + " takes arrays"
                                           : " is an array, and the task ctc takes a text"));
  if (!request.alphabet.empty() && task != "ctc")
    throw usage_error(observer.spelled("alphabet") + " is for the task ctc, and this is " + task);
  if (request.peak && task != "image")
    throw usage_error(observer.spelled("peak") + " is for the task image, and this is " + task);
  if (task == "classify")
    return [has_scores = output.has_scores, threshold = request.threshold] {
      return std::make_unique<eval::Classification>(has_scores, threshold);
    };
  if (task == "segment")
    return [threshold = request.threshold] { return std::make_unique<eval::Segmentation>(threshold); };
  std::size_t numbers = 1;
  for (const std::int64_t size : shape) numbers *= static_cast<std::size_t>(size);
  if (task == "regress") return [numbers] { return std::make_unique<eval::Regression>(numbers); };
  constexpr double kOfBytes = 255;
  const double peak = request.peak ? *request.peak : labels.are_bytes() ? kOfBytes : 1;
  if (task == "image") return [peak] { return std::make_unique<eval::Pictures>(peak); };
  if (task == "ctc") {
    const std::size_t classes = shape.empty() ? 0 : static_cast<std::size_t>(shape.back());
    return [alphabet = alphabet_of(request, classes, observer)] {
      return std::make_unique<eval::Transcription>(alphabet);
    };
  }
  throw usage_error("the task " + task + " takes a text as data");
}

LabelKind label_kind(const std::string& task) {
  if (task == "ctc") return LabelKind::kTexts;
  return task == "regress" || task == "image" ? LabelKind::kValues : LabelKind::kClasses;
}

eval::RowAxis row_axis(const std::string& task, const Sizes& shape) {
  if (task == "regress" || task == "image" || shape.empty()) return eval::RowAxis::kNone;
  if (task == "segment") return shape.front() > 1 ? eval::RowAxis::kFirst : eval::RowAxis::kNone;
  if (task == "classify") return shape.back() > 1 ? eval::RowAxis::kLast : eval::RowAxis::kFirst;
  // Three axes and more are pictures and maps, whose rows mean nothing.
  constexpr std::size_t kMostAxes = 2;
  return shape.size() <= kMostAxes ? eval::RowAxis::kLast : eval::RowAxis::kNone;
}

}  // namespace crumb::jobs
