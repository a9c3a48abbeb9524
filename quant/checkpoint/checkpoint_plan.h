// Which tensors of a checkpoint are quantized, with which spec, and which stay and why: a Recipe
// (quant/recipe/recipe.h) applied to the names, types and shapes of a checkpoint.
//
// Roles come first (formats/checkpoint/classify.h): linear and convolution weights get the recipe's
// `weights`, embedding tables its `embeddings`, everything else stays. Then the rules apply, in order; later
// ones win. Where the recipe asks for tiles, weights of at least kTileRows rows get them; embedding tables
// are read row by row and do not.
#pragma once

#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/classify.h"
#include "quant/recipe/recipe.h"

namespace crumb {

struct PlannedTensor {
  const TensorEntry* entry = nullptr;
  SpecOrKeep spec;
  std::string kept_because;  ///< empty where there is a spec
  TensorRole role = TensorRole::kKept;
  uint64_t stack_axes = 0;               ///< the number of leading axes that index the matrices of a stack
  bool inputs_first = false;             ///< whether these matrices are stored [in, out]
  CodeLayout codes = CodeLayout::kRows;  ///< the layout of the codes in the packed file

  /// Returns how the tensor is encoded in the file with this spec. Precondition: the spec fits the shape.
  Encoding encoding(const QuantSpec& with) const {
    Encoding made = with.encoding(entry->shape, stack_axes, inputs_first);
    made.codes = codes;
    return made;
  }
};

/// Returns what the tensor is for (classify.h). It is no stack where a matrix does not fill whole bytes.
TensorClass class_of(const TensorEntry& entry, const nlohmann::json* config);

/// Names the last field of the recipe that only a graph can follow, because it is about operators or what
/// flows between them; "" where there is none.
std::string graph_field_of(const Recipe& recipe);

/// Returns one entry a tensor, in the checkpoint's order. Throws Error(kUsage) for a pattern that reaches no
/// tensor, and Error(kFailed) that lists the tensors (at most 20, then a count) whose shapes their specs do
/// not fit.
std::vector<PlannedTensor> plan_checkpoint(const Checkpoint& checkpoint, const Recipe& recipe);

/// The same for tensors from any source; config may be null. The tensors must outlive the plan.
std::vector<PlannedTensor> plan_tensors(const std::vector<TensorEntry>& tensors, const nlohmann::json* config,
                                        const Recipe& recipe);

}  // namespace crumb
