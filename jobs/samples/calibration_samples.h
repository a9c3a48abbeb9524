// Reads samples for calibration and for stages (--data) as the network takes them: arrays, a text or lines.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/engine.h"
#include "graph/graph.h"
#include "jobs/samples/calibration_data.h"
#include "jobs/samples/calibration_lines.h"
#include "jobs/samples/calibration_text.h"
#include "quant/tensor_source.h"

namespace crumb::jobs {

/// Whether a path for samples names a text: a file that is not an array.
bool names_text(const std::string& data);

class CalibrationSamples {
 public:
  /// `checkpoint`: the network's, or null; `graph`: the network; `prepared`: the graph that samples run
  /// through, which must outlive this object. Throws usage Error for paths that name no samples, and for
  /// texts where there is no tokenizer.
  /// `batch_axes`: NAME=AXIS for inputs, whose arrays have samples on another axis than 0. `pairs`: lines of
  /// texts hold two texts each, with a tab between them; throws usage Error where samples are no lines.
  CalibrationSamples(const std::vector<std::string>& data, std::size_t tokens, const TensorSource* checkpoint,
                     const graph::Graph& graph, const graph::Graph& prepared, Observer& observer,
                     const std::vector<std::string>& batch_axes = {}, bool pairs = false);

  graph::Batches batches() const;
  graph::BatchAxes batch_axes() const { return arrays_ ? arrays_->axes() : graph::BatchAxes(); }
  bool is_text() const { return text_.has_value(); }  ///< a decoder's

 private:
  /// Notes names of open dimensions for which the first file has several sizes.
  void note_symbols(const graph::Graph& graph, Observer& observer) const;

  std::optional<CalibrationData> arrays_;
  std::optional<CalibrationText> text_;
  std::optional<CalibrationLines> lines_;
};

}  // namespace crumb::jobs
