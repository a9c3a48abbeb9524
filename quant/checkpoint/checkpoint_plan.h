// Which tensors of a checkpoint are quantized, with which spec, and which stay and why: a Recipe
// (quant/recipe/recipe.h) applied to the names, types and shapes of a checkpoint.
//
// By role first (formats/checkpoint/classify.h): linear and convolution weights get the recipe's `weights`,
// embedding tables its `embeddings`, everything else stays. Then the rules, in order; later ones win. Tiles, where the
// recipe wants them, are for weights of at least kTileRows rows: embedding tables are read row by row.
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
  uint64_t stack_axes = 0;               ///< leading axes that number matrices
  bool inputs_first = false;             ///< which lie [in, out]
  CodeLayout codes = CodeLayout::kRows;  ///< how they will lie

  /// Of the tensor in the file, with this spec. Precondition: it fits the shape.
  Encoding encoding(const QuantSpec& with) const {
    Encoding made = with.encoding(entry->shape, stack_axes, inputs_first);
    made.codes = codes;
    return made;
  }
};

/// What the tensor is for (classify.h); no stack where a matrix is no whole bytes.
TensorClass class_of(const TensorEntry& entry, const nlohmann::json* config);

/// What a recipe says of operators and what flows between them, the last of it; "" where it says nothing such: what only a
/// graph can follow.
std::string graph_field_of(const Recipe& recipe);

/// One entry a tensor, in the checkpoint's order. Throws Error(kUsage) for a pattern that reaches no tensor,
/// Error(kFailed) that lists the tensors (at most 20, then a count) whose shapes their specs do not fit.
std::vector<PlannedTensor> plan_checkpoint(const Checkpoint& checkpoint, const Recipe& recipe);

/// The same for the tensors of anything; config may be null. The entries must outlive the plan.
std::vector<PlannedTensor> plan_tensors(const std::vector<TensorEntry>& tensors, const nlohmann::json* config,
                                        const Recipe& recipe);

}  // namespace crumb
