// TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier: decision trees over rows of features, on
// the CPU.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "libtorch/execute/ops/families.h"
#include "libtorch/execute/ops/ml_scores.h"
#include "libtorch/execute/ops/shapes.h"

namespace crumb::libtorch {
namespace {

using graph::ElementType;

enum class Branch : std::uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember, kLeaf };

/// A vote of a leaf: how much for which target.
struct Vote {
  std::int64_t target;
  double weight;
};

struct TreeNode {
  Branch branch = Branch::kLeaf;
  std::int64_t feature = 0;
  double split = 0;
  bool missing_is_true = false;
  std::size_t if_true = 0, if_false = 0;  ///< nodes
  std::set<double> members;
  std::vector<Vote> votes;  ///< of a leaf
};

struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<std::size_t> roots;
};

enum class Aggregate { kAverage, kSum, kMin, kMax };

bool goes_true(const TreeNode& node, double x) {
  if (std::isnan(x) && node.missing_is_true) return true;
  switch (node.branch) {
    case Branch::kLeq: return x <= node.split;
    case Branch::kLt: return x < node.split;
    case Branch::kGte: return x >= node.split;
    case Branch::kGt: return x > node.split;
    case Branch::kEq: return x == node.split;
    case Branch::kNeq: return x != node.split;
    case Branch::kMember: return !std::isnan(x) && node.members.contains(x);
    case Branch::kLeaf: break;
  }
  return false;
}

/// Throws Error unless features, votes and children are inside.
void check_forest(const Call& call, const Forest& forest, std::int64_t features, std::int64_t targets) {
  for (const TreeNode& node : forest.nodes) {
    if (node.branch != Branch::kLeaf && (node.feature < 0 || node.feature >= features)) {
      call.fail("a tree asks for feature " + std::to_string(node.feature) + " of " +
                std::to_string(features));
    }
    if (std::max(node.if_true, node.if_false) >= forest.nodes.size())
      call.fail("a tree's child is not there");
    for (const Vote& vote : node.votes) {
      if (vote.target < 0 || vote.target >= targets) {
        call.fail("a leaf votes for target " + std::to_string(vote.target) + " of " +
                  std::to_string(targets));
      }
    }
  }
}

const TreeNode& leaf_of(const Call& call, const Forest& forest, std::size_t root, const double* row) {
  const TreeNode* node = &forest.nodes[root];
  for (std::size_t steps = 0; node->branch != Branch::kLeaf; ++steps) {
    if (steps > forest.nodes.size()) call.fail("a tree runs in a circle");
    node = &forest.nodes[goes_true(*node, row[node->feature]) ? node->if_true : node->if_false];
  }
  return *node;
}

struct Tally {
  at::Tensor scores;  ///< [rows, targets], double; 0 where nobody voted
  at::Tensor voted;   ///< the same shape, bool
};

Tally tally(const Call& call, const Forest& forest, const at::Tensor& features, std::int64_t targets,
            Aggregate aggregate) {
  const at::Tensor x = features.detach().to(at::kCPU, at::kDouble).contiguous();
  if (targets < 1 || targets > (1 << 30))
    call.fail("expected targets of 1 or more, found " + std::to_string(targets));
  check_forest(call, forest, x.size(1), targets);
  Tally made{at::zeros({x.size(0), targets}, x.options()),
             at::zeros({x.size(0), targets}, x.options().dtype(at::kBool))};
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    const double* row = x.const_data_ptr<double>() + r * x.size(1);
    double* scores = made.scores.data_ptr<double>() + r * targets;
    bool* voted = made.voted.data_ptr<bool>() + r * targets;
    for (const std::size_t root : forest.roots) {
      for (const Vote& vote : leaf_of(call, forest, root, row).votes) {
        double& score = scores[vote.target];
        const bool first = !voted[vote.target];
        if (aggregate == Aggregate::kMin) score = first ? vote.weight : std::min(score, vote.weight);
        if (aggregate == Aggregate::kMax) score = first ? vote.weight : std::max(score, vote.weight);
        if (aggregate == Aggregate::kSum || aggregate == Aggregate::kAverage) score += vote.weight;
        voted[vote.target] = true;
      }
    }
  }
  if (aggregate == Aggregate::kAverage && !forest.roots.empty()) {
    made.scores = made.scores / static_cast<double>(forest.roots.size());
  }
  return made;
}

std::vector<double> tensor_numbers(const Call& call, const std::string& name) {
  const auto found = call.node().attributes.find(name);
  if (found == call.node().attributes.end()) return {};
  const auto* held = std::get_if<graph::Tensor>(&found->second);
  if (!held) call.fail("expected a tensor in " + name);
  const at::Tensor values = to_typed(*held).tensor.to(at::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

/// The sets of the nodes that test for members, one after the other, each closed by a NaN.
void read_members(const Call& call, Forest& forest) {
  const std::vector<double> values = tensor_numbers(call, "membership_values");
  auto next = values.begin();
  for (TreeNode& node : forest.nodes) {
    if (node.branch != Branch::kMember) continue;
    const auto end = std::find_if(next, values.end(), [](double value) { return std::isnan(value); });
    if (end == values.end()) call.fail("membership_values hold less sets than nodes test");
    node.members = {next, end};
    next = end + 1;
  }
}

/// The trees of TreeEnsemble, whose leaves are counted apart from its nodes.
Forest forest_of_ensemble(const Call& call) {
  const Ints features = call.node().ints_or("nodes_featureids", {});
  const auto many = static_cast<std::int64_t>(features.size());
  const auto list = [&](const char* name) {
    Ints values = call.node().ints_or(name, {});
    expect_length(call, name, values.size(), many);
    return values;
  };
  const Ints if_true = list("nodes_truenodeids"), if_false = list("nodes_falsenodeids");
  const Ints true_leaves = list("nodes_trueleafs"), false_leaves = list("nodes_falseleafs");
  const Ints missing = call.node().has("nodes_missing_value_tracks_true")
                           ? list("nodes_missing_value_tracks_true")
                           : Ints(features.size());
  const std::vector<double> modes = tensor_numbers(call, "nodes_modes"),
                            splits = tensor_numbers(call, "nodes_splits");
  const std::vector<double> weights = tensor_numbers(call, "leaf_weights");
  const Ints targets = call.node().ints_or("leaf_targetids", {});
  expect_length(call, "nodes_modes", modes.size(), many);
  expect_length(call, "nodes_splits", splits.size(), many);
  expect_length(call, "leaf_weights", weights.size(), static_cast<std::int64_t>(targets.size()));
  Forest forest;
  const auto child = [&](std::int64_t id, std::int64_t is_leaf) {
    const std::size_t count = is_leaf != 0 ? targets.size() : features.size();
    if (id < 0 || static_cast<std::size_t>(id) >= count) call.fail("a tree's child is not there");
    return static_cast<std::size_t>(id) + (is_leaf != 0 ? features.size() : 0);
  };
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (!(modes[i] >= 0) || modes[i] > static_cast<double>(Branch::kMember)) {
      call.fail("expected nodes_modes from 0 to 6, found " + std::to_string(modes[i]));
    }
    forest.nodes.push_back({.branch = static_cast<Branch>(static_cast<int>(modes[i])),
                            .feature = features[i],
                            .split = splits[i],
                            .missing_is_true = missing[i] != 0,
                            .if_true = child(if_true[i], true_leaves[i]),
                            .if_false = child(if_false[i], false_leaves[i])});
  }
  for (std::size_t i = 0; i < targets.size(); ++i)
    forest.nodes.push_back({.votes = {{targets[i], weights[i]}}});
  for (const std::int64_t root : call.node().ints_or("tree_roots", {}))
    forest.roots.push_back(child(root, 0));
  read_members(call, forest);
  return forest;
}

Outputs tree_ensemble(const Call& call) {
  expect_rank(call, 0, 2);
  const std::int64_t aggregate = call.int_or("aggregate_function", 1);
  constexpr std::array kTransforms = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::int64_t transform = call.int_or("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) {
    call.fail("aggregate_function or post_transform is unknown");
  }
  const Tally votes = tally(call, forest_of_ensemble(call), call.tensor(0), call.int_or("n_targets", 1),
                            static_cast<Aggregate>(aggregate));
  const at::Tensor scores =
      post_transformed(call, votes.scores, kTransforms[static_cast<std::size_t>(transform)]);
  return like_input(call, scores.to(call.tensor(0).device()));
}

using NodeKey = std::pair<std::int64_t, std::int64_t>;  ///< tree, node

Branch branch_of(const Call& call, const std::string& name) {
  constexpr std::array kNames = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                 "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end() || name == "BRANCH_MEMBER") call.fail("a mode in nodes_modes is unknown");
  return static_cast<Branch>(found - kNames.begin());
}

/// The trees of the two older operators; what their leaves say stands in attributes that begin with `kind`.
Forest forest_of_tuples(const Call& call, const std::string& kind) {
  const Ints trees = call.node().ints_or("nodes_treeids", {});
  const auto many = static_cast<std::int64_t>(trees.size());
  const auto list = [&](const std::string& name, std::int64_t count) {
    Ints values = call.node().ints_or(name, {});
    expect_length(call, name, values.size(), count);
    return values;
  };
  const Ints ids = list("nodes_nodeids", many), features = list("nodes_featureids", many);
  const Ints if_true = list("nodes_truenodeids", many), if_false = list("nodes_falsenodeids", many);
  const Ints missing = call.node().has("nodes_missing_value_tracks_true")
                           ? list("nodes_missing_value_tracks_true", many)
                           : Ints(trees.size());
  const auto modes = call.node().texts_or("nodes_modes", {});
  const std::vector<double> splits = numbers_of(call, "nodes_values");
  expect_length(call, "nodes_modes", modes.size(), many);
  expect_length(call, "nodes_values", splits.size(), many);
  std::map<NodeKey, std::size_t> places;
  for (std::size_t i = 0; i < trees.size(); ++i) places.try_emplace({trees[i], ids[i]}, i);
  const auto place = [&](std::int64_t tree, std::int64_t id) {
    const auto found = places.find({tree, id});
    if (found == places.end())
      call.fail("node " + std::to_string(id) + " of tree " + std::to_string(tree) + " is not there");
    return found->second;
  };
  Forest forest;
  std::set<std::int64_t> seen;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    TreeNode node{.branch = branch_of(call, modes[i]), .feature = features[i], .split = splits[i]};
    node.missing_is_true = missing[i] != 0;
    if (node.branch != Branch::kLeaf) {
      node.if_true = place(trees[i], if_true[i]);
      node.if_false = place(trees[i], if_false[i]);
    }
    forest.nodes.push_back(std::move(node));
    if (seen.insert(trees[i]).second) forest.roots.push_back(i);
  }
  const std::vector<double> weights = numbers_of(call, kind + "_weights");
  const auto votes = static_cast<std::int64_t>(weights.size());
  const Ints vote_trees = list(kind + "_treeids", votes), vote_nodes = list(kind + "_nodeids", votes);
  const Ints vote_targets = list(kind + "_ids", votes);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    forest.nodes[place(vote_trees[i], vote_nodes[i])].votes.push_back({vote_targets[i], weights[i]});
  }
  return forest;
}

/// The scores with base_values, one for all targets or one for each.
at::Tensor with_base(const Call& call, const at::Tensor& scores) {
  const std::vector<double> base = numbers_of(call, "base_values");
  if (base.empty()) return scores;
  if (base.size() != 1) expect_length(call, "base_values", base.size(), scores.size(1));
  return scores + at::tensor(base, at::kDouble);
}

Outputs tree_ensemble_regressor(const Call& call) {
  const std::string name = call.text_or("aggregate_function", "SUM");
  constexpr std::array kNames = {"AVERAGE", "SUM", "MIN", "MAX"};
  const auto aggregate = std::find(kNames.begin(), kNames.end(), name);
  if (aggregate == kNames.end())
    call.fail("expected aggregate_function AVERAGE, SUM, MIN or MAX, found another");
  const Tally votes = tally(call, forest_of_tuples(call, "target"), features_of(call),
                            call.int_or("n_targets", 1), static_cast<Aggregate>(aggregate - kNames.begin()));
  const at::Tensor scores =
      post_transformed(call, with_base(call, votes.scores), call.text_or("post_transform", "NONE"));
  return one(scores.to(call.tensor(0).device(), at::kFloat), ElementType::kFloat);
}

/// Two classes of which only one is voted for. As they are, its scores stand beside their complement where
/// all weights are positive, else beside their negative; transforms work on the latter.
Outputs binary_classes(const Call& call, const at::Tensor& score, bool positive, const Ints& labels) {
  const std::string transform = call.text_or("post_transform", "NONE");
  const at::Tensor above = (positive ? score > 0.5 : score > 0).reshape({-1});
  const bool complement = transform == "PROBIT" || (transform == "NONE" && positive);
  const at::Tensor scores =
      with_second_class(score, complement ? SecondClass::kComplement : SecondClass::kNegative);
  return {{at::where(above, labels[1], labels[0]).to(at::kLong), ElementType::kInt64},
          {post_transformed(call, scores, transform).to(at::kFloat), ElementType::kFloat}};
}

Outputs tree_ensemble_classifier(const Call& call) {
  if (call.node().has("classlabels_strings")) call.fail("labels that are strings are not supported");
  const Ints labels = call.node().ints_or("classlabels_int64s", {});
  const auto classes = static_cast<std::int64_t>(labels.size());
  const Forest forest = forest_of_tuples(call, "class");
  const Tally votes = tally(call, forest, features_of(call), classes, Aggregate::kSum);
  const Ints ids = call.node().ints_or("class_ids", {});
  const bool one_class = classes == 2 && std::set<std::int64_t>(ids.begin(), ids.end()).size() == 1;
  Outputs made;
  if (one_class) {
    at::Tensor score = votes.scores.narrow(1, ids[0], 1);
    const std::vector<double> base = numbers_of(call, "base_values");
    if (!base.empty()) score = score + base.back();
    const std::vector<double> weights = numbers_of(call, "class_weights");
    const bool positive =
        std::all_of(weights.begin(), weights.end(), [](double weight) { return weight >= 0; });
    made = binary_classes(call, score, positive, labels);
  } else {
    const at::Tensor scores = with_base(call, votes.scores);
    const at::Tensor shown = post_transformed(call, scores, call.text_or("post_transform", "NONE"));
    made = {best_labels(call, scores, labels), {shown.to(at::kFloat), ElementType::kFloat}};
  }
  for (TypedTensor& output : made) output.tensor = output.tensor.to(call.tensor(0).device());
  return made;
}

constexpr OperatorRow kTreesRows[] = {
    {"TreeEnsemble", tree_ensemble, kMlDomain},
    {"TreeEnsembleRegressor", tree_ensemble_regressor, kMlDomain},
    {"TreeEnsembleClassifier", tree_ensemble_classifier, kMlDomain},
};

}  // namespace

std::span<const OperatorRow> tree_operators() { return kTreesRows; }

}  // namespace crumb::libtorch
