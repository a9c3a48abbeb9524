// Quantizes one network in many ways and measures each: what crumb sweep does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "eval/grid_table.h"
#include "jobs/observer.h"
#include "jobs/report_file.h"
#include "quant/recipe/recipe.h"

namespace crumb::jobs {

struct SweepCell {
  std::string format, activations, method;  ///< as tables call them
  Recipe recipe;
};

struct SweepRequest {
  std::string input;   ///< an ONNX network, a TorchScript archive, or a checkpoint of a known architecture
  std::string output;  ///< the folder for sweep.json, sweep.csv, sweep.svg and the finished cells
  std::vector<SweepCell> cells;
  std::vector<std::string> data;  ///< samples for methods and activations (jobs/quantize.h)
  std::vector<std::string> batch_axes =
      {};                                   ///< NAME=AXIS: inputs and outputs whose samples are not on axis 0
  std::vector<std::string> arguments = {};  ///< of a TorchScript archive: NAME=VALUE, what is no tensor
  std::size_t tokens = 0;                   ///< the first tokens of a text as data; 0: all
  bool pairs = false;                       ///< lines of text hold two texts each, with a tab between
  std::string device;                       ///< where samples for methods run
  /// Of inputs, for costs, where open sizes are 1.
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::vector<std::string> include;  ///< patterns of weights that take the cell's format, for the folder's
                                     ///< record

  // What is measured.
  std::vector<std::string> valid;   ///< arrays, sentences or a text; none: those of `data`
  std::string labels;               ///< for arrays: classes, or the numbers to predict; "": none
  std::size_t valid_tokens = 0;     ///< the first tokens of a language model's text; 0: all
  std::size_t context = 0;          ///< tokens of its windows; 0: 1024
  std::optional<double> peak;       ///< the peak value of a psnr
  std::string metric = "accuracy";  ///< the table's metric; without labels: agreement with the float network
  std::string against = "bits";     ///< the other axis of the front

  // How it runs.
  int threads = 0;  ///< 0: as many as the machine has; the number never changes the result
  bool keep_files = false;
  bool restart = false;  ///< drops what another request left in the folder
  ReportFile report = {};
};

/// Takes each next row as a table of one row; the float network's comes first.
using RowSink = std::function<void(const eval::GridTable& table)>;

/// Continues after the last finished cell where the folder has cells of the same request. A cell that fails
/// becomes a row that says why. Throws Error, of kind kUsage where the request contradicts itself or the
/// input; throws Interrupted.
eval::GridTable sweep(const SweepRequest& request, Observer& observer, const RowSink& row = {});

}  // namespace crumb::jobs
