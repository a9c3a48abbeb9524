#include "libtorch/capture/aliases.h"

#include <map>
#include <set>

#include "base/error.h"

namespace crumb::libtorch {
namespace {

namespace jit = torch::jit;

bool writes(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

/// Whether a result shares the memory of the input: a view, or what may be one.
bool shares(const c10::Argument& input, const c10::Argument& result) {
  if (!input.alias_info() || !result.alias_info()) return false;
  for (const auto& one : input.alias_info()->beforeSets()) {
    if (result.alias_info()->beforeSets().contains(one)) return true;
  }
  return false;
}

}  // namespace

void refuse_shared_changes(const jit::Graph& graph, const std::vector<const jit::Node*>& wanted) {
  const std::set<const jit::Node*> needed(wanted.begin(), wanted.end());
  std::map<const jit::Value*, const jit::Value*> root;                  // of values that share memory
  std::map<const jit::Value*, std::vector<const jit::Value*>> members;  // by root
  const auto root_of = [&](const jit::Value* value) {
    const auto [known, fresh] = root.try_emplace(value, value);
    if (fresh) members[value] = {value};
    return known->second;
  };
  for (const jit::Node* node : graph.nodes()) {
    const auto* schema = node->maybeSchema();
    if (!schema) continue;
    for (std::size_t i = 0; i < schema->arguments().size() && i < node->inputs().size(); ++i) {
      const jit::Value* input = node->input(i);
      const bool changes = writes(schema->arguments()[i]);
      if (changes) {
        for (const jit::Value* stale : members[root_of(input)]) {
          for (const jit::Use& use : stale->uses()) {
            const bool later =
                use.user == graph.return_node() || (needed.contains(use.user) && use.user->isAfter(node));
            if (later) {
              throw Error(
                  std::string(node->kind().toQualString()) +
                  " changes a tensor in place whose memory a later operator uses through another view (" +
                  use.user->kind().toQualString() + "): use the form that gives a new tensor");
            }
          }
        }
      }
      for (std::size_t k = 0; k < schema->returns().size() && k < node->outputs().size(); ++k) {
        if (!changes && !shares(schema->arguments()[i], schema->returns()[k])) continue;
        const jit::Value* of = root_of(input);
        root[node->output(k)] = of;
        members[of].push_back(node->output(k));
      }
    }
  }
}

}  // namespace crumb::libtorch
