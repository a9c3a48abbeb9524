// Labels of samples, one after the other, from arrays.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "eval/tasks/scorer.h"
#include "graph/graph.h"

namespace crumb::jobs {

/// What a task takes of a sample's label.
enum class LabelKind : std::uint8_t { kTexts, kClasses, kValues };

/// An .npy file, or a folder of them in the order of their names; the first axis is samples. One file is in
/// memory at a time. Or a text with a label on each line.
class SampleLabels {
 public:
  /// Throws Error where there is no such file, the folder holds no .npy, or an array holds no numbers.
  /// `field`: what gives it, for messages.
  SampleLabels(const std::string& path, const std::string& field);

  const std::string& name() const { return field_; }  ///< "--labels 'y.npy'"
  bool are_texts() const { return are_texts_; }
  /// Whether they are classes: whole numbers or yes and no.
  bool are_classes() const;
  /// Whether they are numbers of one byte, as of pictures.
  bool are_bytes() const;
  /// Of a sample of the first file; empty for texts.
  std::vector<std::int64_t> shape() const;
  bool is_one_file() const { return files_.size() == 1; }
  /// Of the file that is open.
  std::size_t samples() const;
  /// The next sample's; lives until the next call. A line of a text is a number where classes or values are
  /// wanted, and floats are classes where they are whole. Throws Error where there is no sample left, and for
  /// labels that are no such number; values are finite. Precondition: arrays are no texts.
  eval::SampleLabel next(LabelKind kind);
  /// Throws Error where some are left.
  void check_end();

 private:
  void open(std::size_t file);
  bool open_next();
  eval::SampleLabel line(const std::string& line, LabelKind kind);
  /// An Error that names the file and the sample that next() gives.
  Error wrong(const std::string& what) const;

  std::string field_;
  std::vector<std::filesystem::path> files_;
  bool are_texts_ = false;
  std::vector<std::string> texts_;
  std::size_t file_ = 0, at_ = 0, given_ = 0;
  graph::Tensor array_;
  std::vector<std::int64_t> shape_, classes_;
  std::vector<float> values_;
};

}  // namespace crumb::jobs
