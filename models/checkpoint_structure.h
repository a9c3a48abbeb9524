// The graph that a packed file of a checkpoint stores beside its tensors (docs/crumb_file.md, "Graphs"): what
// its configuration means, so that whoever runs the file needs to know no architecture.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "formats/checkpoint/checkpoint.h"
#include "quant/checkpoint/checkpoint_plan.h"

namespace crumb::models {

/// The bytes of graph.onnx, made from names, types, shapes and the configuration alone; no tensor is read.
/// Tensors that will be encoded are float32 inputs; those that are kept have their own type, and a Cast where
/// it is no float32. What the network keeps of keys and values is quantized by `kv_cache`. A Failure where
/// the architecture is none that models/ builds, the tensors are not those of its configuration, or it keeps
/// no keys and values.
Result<std::string> structure_of(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                                 const SpecOrKeep& kv_cache);

}  // namespace crumb::models
