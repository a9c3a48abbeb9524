// Finds the tensors, nodes and inputs that the rules of a recipe reach. Checkpoints and graphs share this one
// engine, so that a rule means the same for a model whether it is read as tensors or as a network.
//
// A pattern (name_pattern.h) stands for names and for layers, which are names up to a dot: "encoder.layer.0"
// is a layer of the tensor "encoder.layer.0.query.weight", and so is "encoder".
//   - It reaches a tensor by the tensor's name or one of its layers, and a weight also by those of the nodes
//     that take it.
//   - It reaches a node by the node's name or one of its layers, or by those of a weight that the node takes.
//   - It reaches an input of the network by its name or one of its layers.
// match.op and match.depthwise narrow that to nodes of these kinds and the tensors that they take.
//
// Among tensors, a rule that gives `weights` reaches weights and embedding tables; with match.role only those
// roles, `any` being every floating tensor. A layer's name stands for the weights in it where there are some,
// not for biases and norms. A pattern without wildcards that is a tensor's full name reaches that tensor,
// whatever it is, unless match.role is given. `skip: true` reaches whatever matches.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "quant/recipe/recipe.h"

namespace crumb {

/// What rules can name.
struct RuleSubjects {
  struct Tensor {
    std::string name;
    Rule::Role role = Rule::Role::kAny;   ///< kAny: neither a weight nor an embedding table
    bool is_floating = true;              ///< others cannot be quantized
    std::vector<std::size_t> users = {};  ///< the indices of the nodes that take it
  };
  std::vector<Tensor> tensors;
  std::vector<std::string> nodes;   ///< names; "" where a node has none
  std::vector<std::string> inputs;  ///< of the network
  std::vector<std::string>
      left_out;  ///< tensors of the model's file that the network does not take: a rule may name them alone

  /// Whether a node is of the kinds that match.op and match.depthwise name. Null where there are no nodes.
  std::function<bool(const Rule::Match&, std::size_t node)> is_kind;
};

/// A rule, and how messages name it.
struct RuleReached {
  const Rule& rule;
  int number = 0;          ///< the rule's index, from 0
  const std::string& who;  ///< for people: "--exclude '*.query'", "the rule for 'head' ('mine.yaml' line 7)"
};

/// Called for whatever a rule reaches, by index in RuleSubjects. Each returns whether the rule says something
/// about it.
struct RuleEffects {
  std::function<bool(const RuleReached&, std::size_t tensor)> tensor;
  std::function<bool(const RuleReached&, std::size_t node)> node = {};    ///< null where there are none
  std::function<bool(const RuleReached&, std::size_t input)> input = {};  ///< the same
};

/// Calls the effects of every rule, in the order of the rules. Throws Error(kUsage) for a pattern that
/// reaches nothing, unless its rule is optional; the message has the rule and the nearest name.
void for_each_reached(std::span<const Rule> rules, const RuleSubjects& subjects, const RuleEffects& effects);

}  // namespace crumb
