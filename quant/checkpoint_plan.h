// Which tensors of a checkpoint are quantized, with which spec, and which stay and why.
//
// Rules apply in this order, later ones win:
//   1. by role (formats/checkpoint/classify.h): linear and convolution weights get `weights`, embeddings get
//   int8 per
//      row, everything else stays
//   2. include: tensors that a glob names get `weights`, whatever their role
//   3. exclude: tensors that a glob names stay
//   4. embeddings, when given: embedding tables get that spec, or stay
//   5. set: tensors that a glob names get that spec, or stay
//
// In globs * stands for any characters, dots among them, ? for one, [abc] for one of several (POSIX fnmatch).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "quant/quant_spec.h"

namespace crumb {

/// A spec, or the wish to keep a tensor as it is.
using SpecOrKeep = std::optional<QuantSpec>;

/// Parses a spec or the word "keep". Throws Error(kUsage).
SpecOrKeep parse_spec_or_keep(std::string_view text);

struct PlanOptions {
  QuantSpec weights;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::optional<SpecOrKeep> embeddings;
  struct Set {
    std::string glob;
    SpecOrKeep spec;
  };
  std::vector<Set> set;
};

struct PlannedTensor {
  const TensorEntry* entry = nullptr;
  SpecOrKeep spec;
  std::string kept_because;  ///< empty where there is a spec
};

/// One entry a tensor, in the checkpoint's order. Throws Error(kUsage) for a glob that matches nothing,
/// Error(kFailed) that lists the tensors (at most 20, then a count) whose shapes their specs do not fit.
std::vector<PlannedTensor> plan_checkpoint(const Checkpoint& checkpoint, const PlanOptions& options);

}  // namespace crumb
