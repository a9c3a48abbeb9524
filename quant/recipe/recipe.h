// A recipe: which tensors of a checkpoint or graph are quantized, and how. A plain struct and its YAML.
//
//   version: 1
//   weights: int4:group=128         # linear and convolution weights: a spec, or keep
//   embeddings: int8:channel        # embedding tables: a spec, or keep
//   zstd: off                       # compression of the packed file: off, or a level from 1 to 19
//   layout: rows                    # how codes of weights are stored in it: rows, or tiles
//   rules:                          # later ones win
//     - {match: {name: ["stem", "head"]}, weights: int8:channel}
//     - {match: {name: "re:.*\\.(query|key)\\.weight", role: weight}, weights: int3:group=64}
//     - {match: {name: "lm_head"}, skip: true, optional: true}
//
// For graphs, in addition (graph/quantize says where quantizers go):
//
//   activations: uint8:tensor       # the inputs of operators with weights, residual adds, concatenations
//   inputs: int8:tensor             # the graph's inputs, where their spec differs
//   biases: int32                   # at scale_in * scale_weight, or keep
//   batch_norm: fold                # or keep
//   average_pools: quantize         # what they give, or truncate: whole sums without their lower bits
//   kv_cache: int8                  # keys and values that a decoder keeps (also in checkpoints), or keep
//   rules:
//     - {match: {op: Conv, depthwise: true}, weights: int8, activations: uint8}
//
// For training alone (quant/recipe/training.h):
//
//   accumulator: 16:a2q_plus        # the register of every layer between the first and the last, or none
//   scales: learned                 # how scales of weights are found: learned, statistics, weight_norm, mean
//   prune: 0.8:global               # weights that become zeros (quant/recipe/pruning.h), or none
//   learned_bits: 3.5bpw            # widths that training finds (quant/recipe/learned_bits.h), or none
//   stages: [block_wise, {end_to_end: {steps: 400}}]   # of language models (quant/recipe/stages.h)
//   rules:
//     - {match: {op: Conv, depthwise: true}, accumulator: {bits: 16, method: a2q}, scales: statistics}
//
// What a rule reaches: quant/recipe/rule_reach.h. match.op takes ONNX's names of operators; Linear is MatMul
// and Gemm, Embedding is Gather. A pattern that reaches nothing is an error unless the rule says `optional:
// true`.
//
// Each field is declared once, in quant/recipe/fields.cpp: reading, printing, messages and help derive from
// there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/quant_spec.h"
#include "quant/recipe/learned_bits.h"
#include "quant/recipe/pruning.h"
#include "quant/recipe/stages.h"
#include "quant/recipe/training.h"

namespace crumb {

/// A spec, or nothing: the tensor is kept as it is.
using SpecOrKeep = std::optional<QuantSpec>;

/// Parses a spec or the word "keep". Throws Error(kUsage).
SpecOrKeep parse_spec_or_keep(std::string_view text);

/// The same for activations.
SpecOrKeep parse_activations_or_keep(std::string_view text);

/// The same for caches of keys and values.
SpecOrKeep parse_cache_or_keep(std::string_view text);

/// Returns the canonical spec, or "keep".
std::string to_string(const SpecOrKeep& spec);

struct Rule {
  enum class Role { kWeight, kEmbedding, kAny };
  struct Match {
    std::vector<std::string> name;  ///< globs, or re:REGEX; empty: every tensor of the roles
    std::vector<Role> role;         ///< empty: see the head of this file
    std::vector<std::string> op;    ///< empty: any
    std::optional<bool> depthwise;  ///< true: convolutions with as many groups as channels; false: all others
    bool operator==(const Match&) const = default;
  };

  Match match;                            ///< at least one of its fields is given
  SpecOrKeep weights;                     ///< none: skip what matches
  bool leaves_weights = false;            ///< the rule has no `weights` and does not skip
  std::optional<SpecOrKeep> activations;  ///< none: the rule is about weights alone, unless it skips
  std::optional<std::optional<AccumulatorGoal>> accumulator;  ///< for layers that match
  std::optional<WeightScales> scales;                         ///< for weights that match
  std::optional<std::optional<PruneGoal>> prune;              ///< for weights that match
  std::optional<bool> learned_bits;  ///< whether the widths of weights that match are learned
  bool optional = false;

  bool skips() const { return !weights && !leaves_weights; }
  /// Whether only graphs can follow the rule.
  bool is_for_graphs() const { return activations || !match.op.empty() || match.depthwise; }
  /// Whether only training can follow the rule.
  bool is_for_training() const { return accumulator || scales || prune || learned_bits; }

  /// Where the rule comes from, for messages: "'mine.yaml' line 7", "--exclude". Ignored by ==.
  std::string origin;

  bool operator==(const Rule& other) const {
    return match == other.match && weights == other.weights && leaves_weights == other.leaves_weights &&
           activations == other.activations && accumulator == other.accumulator && scales == other.scales &&
           prune == other.prune && learned_bits == other.learned_bits && optional == other.optional;
  }
};

struct Recipe {
  static constexpr int kVersion = 1;
  static constexpr size_t kMaxBytes = size_t{4} << 20;  ///< of YAML
  enum class BatchNorm { kFold, kKeep };
  enum class AveragePools { kQuantize, kTruncate };

  SpecOrKeep weights;
  SpecOrKeep embeddings = QuantSpec::parse("int8:channel");
  int zstd = 0;  ///< 0: off
  CodeLayout layout = CodeLayout::kRows;
  std::vector<Rule> rules;

  SpecOrKeep activations = {};
  std::optional<SpecOrKeep> inputs = {};  ///< none: the spec of activations
  int bias_bits = 0;                      ///< 0: biases stay in floats
  BatchNorm batch_norm = BatchNorm::kFold;
  AveragePools average_pools = AveragePools::kQuantize;
  SpecOrKeep kv_cache = {};

  std::optional<AccumulatorGoal> accumulator = {};
  WeightScales scales = WeightScales::kLearned;
  std::optional<PruneGoal> prune = {};
  std::optional<BitBudget> learned_bits = {};
  std::vector<Stage> stages = {};  ///< empty: as the command says

  bool operator==(const Recipe&) const = default;

  /// Reads a file. Throws Error(kUsage), also for a file that cannot be read.
  static Recipe load(const std::filesystem::path& path);
};

/// Refuses fields that only training can follow, for commands that quantize without. Throws Error(kUsage)
/// naming what was found.
void refuse_training_fields(const Recipe& recipe);

/// Refuses stages, for commands that run none. Throws Error(kUsage) naming the first.
void refuse_stages(const Recipe& recipe);

/// Reads YAML; `name` is what messages call it. Throws Error(kUsage) that says file, line, key, what was
/// found and what was expected; throws nothing else, whatever the bytes.
Recipe parse_recipe(std::string_view text, const std::string& name);

/// Returns the whole recipe, defaults included; parse_recipe gives an equal one back.
std::string to_yaml(const Recipe& recipe);

/// The same with a comment before every field that says what it is.
std::string to_commented_yaml(const Recipe& recipe);

/// Returns the recipe that a scheme's name stands for. Throws as parse_scheme does.
Recipe preset_recipe(std::string_view scheme);

/// Returns a rule for exactly these tensors, whatever their names contain and whatever they are.
Rule rule_for_tensors(const std::vector<std::string>& names, const SpecOrKeep& spec);

}  // namespace crumb
