#include "jobs/evaluate/sample_labels.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/text/number.h"
#include "graph/batches.h"
#include "graph/onnx/array_files.h"
#include "jobs/samples/calibration_data.h"
#include "jobs/samples/calibration_samples.h"
#include "jobs/samples/read_lines.h"

namespace crumb::jobs {

SampleLabels::SampleLabels(const std::string& path, const std::string& field)
    : field_(field + " " + quote_text(path)) {
  std::error_code error;
  are_texts_ = !std::filesystem::is_directory(path, error) && names_text(path);
  files_ = sample_files(path, field);
  if (are_texts_)
    texts_ = read_lines(path);
  else
    open(0);
}

void SampleLabels::open(std::size_t file) {
  file_ = file;
  at_ = 0;
  array_ = graph::read_array(files_[file]);
  const graph::ElementKind kind = graph::info(array_.type()).kind;
  if (kind == graph::ElementKind::kNone || kind == graph::ElementKind::kComplex)
    throw Error(field_ + ": " + quote_text(files_[file].string()) + " holds " +
                std::string(name_of(array_.type())) + "; expected integers, floats or booleans");
  if (array_.rank() == 0)
    throw Error(field_ + ": " + quote_text(files_[file].string()) +
                " holds one number; expected an array whose first axis is samples");
}

bool SampleLabels::open_next() {
  while (at_ == samples()) {
    if (are_texts_ || file_ + 1 == files_.size()) return false;
    open(file_ + 1);
  }
  return true;
}

bool SampleLabels::are_classes() const { return !are_texts_ && !graph::is_float(array_.type()); }

bool SampleLabels::are_bytes() const { return !are_texts_ && array_.type() == graph::ElementType::kUint8; }

std::vector<std::int64_t> SampleLabels::shape() const {
  if (are_texts_) return {};
  return {array_.shape().begin() + 1, array_.shape().end()};
}

std::size_t SampleLabels::samples() const {
  return are_texts_ ? texts_.size() : static_cast<std::size_t>(array_.shape()[0]);
}

Error SampleLabels::wrong(const std::string& what) const {
  return Error(field_ +
               (are_texts_ ? ", line " + std::to_string(given_) : ", sample " + std::to_string(given_ - 1)) +
               ": " + what);
}

eval::SampleLabel SampleLabels::line(const std::string& line, LabelKind kind) {
  if (kind == LabelKind::kTexts) return {.shape = {}, .text = line};
  if (kind == LabelKind::kClasses) {
    const auto number = parse_number<std::int64_t>(line);
    if (!number) throw wrong("found " + quote_text(line) + ", expected a class (a whole number)");
    classes_ = {*number};
    return {.shape = {}, .classes = classes_};
  }
  const auto number = parse_number<double>(line);
  if (!number || !std::isfinite(*number))
    throw wrong("found " + quote_text(line) + ", expected a finite number");
  values_ = {static_cast<float>(*number)};
  return {.shape = {}, .values = values_};
}

eval::SampleLabel SampleLabels::next(LabelKind kind) {
  if (!open_next())
    throw Error(field_ + " holds labels of " + count_text(given_, "sample") + ", and there are more samples");
  const std::size_t at = at_++;
  ++given_;
  if (are_texts_) return line(texts_[at], kind);
  const graph::Tensor one = graph::samples_of(array_, static_cast<std::int64_t>(at), 1);
  shape_ = shape();
  if (kind == LabelKind::kClasses && are_classes()) {
    classes_ = one.to_ints();
    return {.shape = shape_, .classes = classes_};
  }
  values_ = one.to_floats();
  const auto is_wrong = [&](float value) {
    return !std::isfinite(value) || (kind == LabelKind::kClasses && value != std::trunc(value));
  };
  if (const auto found = std::ranges::find_if(values_, is_wrong); found != values_.end())
    throw wrong(
        "number " + std::to_string(found - values_.begin()) + " is " + number_text(*found) +
        (kind == LabelKind::kClasses ? "; expected a class (a whole number)" : "; expected finite numbers"));
  if (kind == LabelKind::kValues) return {.shape = shape_, .values = values_};
  constexpr float kMost = 1e9F;
  classes_.clear();
  for (const float value : values_)
    classes_.push_back(static_cast<std::int64_t>(std::clamp(value, -kMost, kMost)));
  return {.shape = shape_, .classes = classes_};
}

void SampleLabels::check_end() {
  if (open_next())
    throw Error(field_ + " holds labels of more samples than the " + std::to_string(given_) + " of the data");
}

}  // namespace crumb::jobs
