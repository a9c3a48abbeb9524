#include "jobs/evaluate/sample_labels.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/text.h"
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

eval::SampleLabel SampleLabels::next(bool as_values) {
  if (!open_next())
    throw Error(field_ + " holds labels of " + count_text(given_, "sample") + ", and there are more samples");
  const std::size_t at = at_++;
  ++given_;
  if (are_texts_) return {.shape = {}, .text = texts_[at]};
  const graph::Tensor one = graph::samples_of(array_, static_cast<std::int64_t>(at), 1);
  shape_ = shape();
  classes_.clear();
  values_.clear();
  if (as_values || !are_classes())
    values_ = one.to_floats();
  else
    classes_ = one.to_ints();
  return {.shape = shape_, .classes = classes_, .values = values_};
}

void SampleLabels::check_end() {
  if (open_next())
    throw Error(field_ + " holds labels of more samples than the " + std::to_string(given_) + " of the data");
}

}  // namespace crumb::jobs
