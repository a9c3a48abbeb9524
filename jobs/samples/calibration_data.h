// Reads samples for calibration from files: --data X.npy, --data NAME=X.npy for each input, or a folder of
// .npy files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/batch_axes.h"
#include "graph/quantize/calibrate.h"

namespace crumb::jobs {

/// Throws usage Error for a file that is neither a text nor an array: archives of arrays (.npz), models, JSON
/// that is no .jsonl. `field`: the field that names the samples, for messages.
void refuse_foreign_samples(const std::string& path, const std::string& field);

/// Returns an .npy file itself, or those of a folder in the order of their names. Throws Error where a folder
/// has none or cannot be listed; `field` as above.
std::vector<std::filesystem::path> sample_files(const std::string& path, const std::string& field);

/// Adds the files that samples may name: each path as it is, and what follows NAME= in it.
void add_sample_paths(const std::vector<std::string>& samples, std::vector<std::filesystem::path>& paths);

/// Arrays hold samples along axis 0, or the input's own axis of samples; an array with one axis less than the
/// input is one sample. The files of a folder come in the order of their names; where a graph has several
/// inputs, each has as many files, and files of the same index belong together. One file (one for each input)
/// is in memory at a time.
class CalibrationData {
 public:
  /// Throws usage Error for names that are no input and inputs that have no data; Error where a folder holds
  /// no .npy. `field`: what gives them, and `what` they are there, for messages. `axes`: of samples.
  CalibrationData(const graph::Graph& graph, const std::vector<std::string>& requests,
                  const std::string& field, const std::string& what, graph::BatchAxes axes = {});

  /// Returns batches of at most 32 samples, fewer where these would take more than 64 MB together
  /// (ptq/samples/sample_bytes.h; what nodes compute in between is not counted). Where the graph has a fixed
  /// batch, batches are of that size: the samples left at the end of a file are dropped, and a file with
  /// fewer is filled up with its last one. Throws Error where a file does not fit the graph. Keeps a pointer
  /// to the graph.
  graph::Batches batches() const;

  /// Returns the graph's inputs from one of the files(). Throws Error where it cannot be read.
  std::vector<graph::Tensor> inputs(std::size_t file) const;

  const graph::BatchAxes& axes() const { return axes_; }

  std::size_t files() const { return files_.empty() ? 0 : files_.front().size(); }

 private:
  void visit(const std::function<void(const std::vector<graph::Tensor>&)>& batch) const;
  /// Returns how many samples run together; `usual` where the size of one sample is unknown.
  std::int64_t piece_of(const std::vector<graph::Tensor>& inputs, std::int64_t usual) const;
  graph::Tensor read(std::size_t input, const std::filesystem::path& path) const;
  /// Returns the axis of samples of the input.
  std::size_t axis_of(std::size_t input) const;

  const graph::Graph* graph_;
  std::string field_;
  graph::BatchAxes axes_;
  std::vector<std::vector<std::filesystem::path>> files_;  ///< for each input
};

}  // namespace crumb::jobs
