// Quantizes a checkpoint into a packed file: reads, quantizes and writes at the same time, with a few slices
// of tensors in memory, and keeps a journal from which another run can go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/checkpoint/run_journal.h"
#include "quant/checkpoint/run_plan.h"

namespace crumb {

struct TensorReport {
  std::string name;
  std::vector<uint64_t> shape;
  DType dtype = DType::kF32;
  std::string spec;          ///< canonical; empty where the tensor was kept
  uint64_t bytes = 0;        ///< in the packed file
  bool is_measured = false;  ///< whether the errors are known; not after a dry run
  double sqnr_db = 0;        ///< of the stored values against the original; +inf where they are equal
  double max_abs_error = 0;
  std::string kept_because;  ///< empty where the tensor was quantized
  uint64_t saturated_scales = 0;
};

struct CheckpointReport {
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  double bits_per_weight = 0;  ///< of the quantized tensors, before zstd; 0 where there are none
  std::vector<TensorReport> tensors;
};

struct RunOptions {
  int threads = 0;      ///< 0: those the machine has
  bool resume = false;  ///< continue what an earlier run left, and leave what this one does not finish
  std::string version;  ///< of the program: a run continues only what the same version began
  /// Called before each tensor and once at the end, with tensors and input bytes done so far.
  std::function<void(size_t tensors, uint64_t bytes)> progress;
  /// With resume, called once, with the number of tensors that an earlier run had finished.
  std::function<void(size_t tensors)> continuing;
};

/// Predicts from the plan alone what quantize_checkpoint() will report: errors are 0, and bytes are upper
/// bounds where the recipe compresses.
CheckpointReport foresee_report(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                                const RunPlan& run);

/// Quantizes as planned and writes the packed file, with configuration, tokenizer and recipe. The file
/// appears under its name when it is complete. Throws Error where the output is one of the inputs or another
/// run is writing it, for inf or NaN weights (naming the tensor), where reading or writing fails, and, with
/// resume, where input, recipe or version are not those of the run that began (naming which).
CheckpointReport quantize_checkpoint(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                                     const RunPlan& run, const std::filesystem::path& output,
                                     const RunOptions& options = {});

/// Throws Error(kUsage) where the output, or a temporary file next to it, is one of the inputs, lies in an
/// input that is a folder, or is a folder that holds an input. Compares by device and inode, through links.
void refuse_overwriting_inputs(const std::vector<std::filesystem::path>& inputs,
                               const std::filesystem::path& output);

}  // namespace crumb
