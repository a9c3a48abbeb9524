// A run before it begins: the packed file's layout to the byte, how tensors are cut into slices, and how much
// memory that takes. Made from names, types, shapes and specs alone; no tensor is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/crumb_file/crumb_file.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/slices/slice_reader.h"

namespace crumb {

struct RunPlan {
  CrumbHeader header;              ///< blobs have the offsets that they get without compression
  std::string recipe;              ///< resolved, as YAML; the file kRecipePath of the packed file
  std::string structure;           ///< the contents of the file kCrumbGraphFile; empty: there is none
  uint64_t output_bytes = 0;       ///< of the packed file; with zstd an upper bound
  std::vector<SliceJob> jobs;      ///< one a tensor, in the plan's order
  std::vector<uint64_t> slices;    ///< values a slice, for each tensor; 0 for tensors that are kept
  uint64_t most_waiting = 0;       ///< bytes of the read-ahead, and of what waits to be written
  uint64_t peak_memory_bytes = 0;  ///< resident memory that the run stays below
};

/// The name under which a packed file holds the recipe that made it.
inline constexpr std::string_view kRecipePath = "crumb_recipe.yaml";

/// Plans a run. memory: the most bytes that the process may hold resident; 0 for twice the largest tensor
/// plus 200 MB. threads: as in RunOptions. base: the process's baseline_bytes() without what earlier work of
/// the same kind left behind, which this run uses again; 0 for all of it. structure: RunPlan's. Throws
/// Error(kUsage) where that is too little memory, naming the least.
RunPlan plan_run(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan, const Recipe& recipe,
                 uint64_t memory = 0, int threads = 0, uint64_t base = 0, std::string structure = {});

}  // namespace crumb
