// Samples for calibration from files: --data X.npy, --data NAME=X.npy for each input, or a folder of .npy
// files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/quantize/calibrate.h"

namespace crumb::jobs {

/// Arrays whose axis 0 is the samples, or that are one sample where they have one axis less than the input.
/// The files of a folder come in the order of their names; where a graph has several inputs, each has as many
/// files, and the files that stand at the same place belong together. One file (one of each input) is in
/// memory at a time. Throws usage Error of a file that is neither a text nor an array: archives of arrays
/// (.npz), models, JSON that is no .jsonl. `field`: what gives them, for messages.
void refuse_foreign_samples(const std::string& path, const std::string& field);

/// Adds the files that samples may name: each as it is, and behind NAME=.
void add_sample_paths(const std::vector<std::string>& samples, std::vector<std::filesystem::path>& paths);

class CalibrationData {
 public:
  /// Throws usage Error for names that are no input and inputs that have no data; Error where a folder holds
  /// no .npy. `field`: what gives them, and `what` they are there, for messages.
  CalibrationData(const graph::Graph& graph, const std::vector<std::string>& requests,
                  const std::string& field, const std::string& what);

  /// Batches of at most 32 samples, fewer where these together would take more than 64 MB
  /// (ptq/samples/sample_bytes.h; what nodes compute on the way comes on top), or as many as a fixed batch of the
  /// graph holds: what is left over of a file is left out, and fewer are filled up with the last one. Throws
  /// Error where a file does not fit the graph. Keeps a pointer to the graph.
  graph::Batches batches() const;

  /// What the graph takes of one of the files(). Throws Error where it cannot be read.
  std::vector<graph::Tensor> inputs(std::size_t file) const;

  std::size_t files() const { return files_.empty() ? 0 : files_.front().size(); }

 private:
  void visit(const std::function<void(const std::vector<graph::Tensor>&)>& batch) const;
  /// Samples side by side; `usual` where nothing is known of one alone.
  std::int64_t piece_of(const std::vector<graph::Tensor>& inputs, std::int64_t usual) const;
  graph::Tensor read(std::size_t input, const std::filesystem::path& path) const;

  const graph::Graph* graph_;
  std::string field_;
  std::vector<std::vector<std::filesystem::path>> files_;  ///< of each input
};

}  // namespace crumb::jobs
