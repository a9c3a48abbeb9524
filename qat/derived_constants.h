// Weights that a network computes from its parameters before it uses them: the transpose of a linear layer's matrix, the
// parts of an attention's packed projection. A prepared graph has them as constants; while it trains they are computed
// anew from the parameters, which keep their names and shapes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "libtorch/execute/graph_module.h"

namespace crumb::qat {

class DerivedConstants {
 public:
  /// `original`: the graph before constants were folded; `prepared`: after. What is constant in the latter, computed by
  /// the former, and unchanged since is derived.
  DerivedConstants(const graph::Graph& original, const graph::Graph& prepared);

  /// Those, and the parameters that the prepared graph also takes as they are.
  const std::set<std::string>& names() const { return names_; }

  /// The parameters that a derived constant is made of, by name.
  const std::set<std::string>& sources_of(const std::string& name) const { return sources_.at(name); }

  /// Holds those parameters; null where nothing is derived.
  const std::shared_ptr<libtorch::GraphModule>& module() const { return module_; }

  /// The values of now, with gradients to the parameters where gradients are kept.
  libtorch::Plan::Constants values() const;

 private:
  std::set<std::string> names_;
  std::map<std::string, std::set<std::string>> sources_;
  std::shared_ptr<libtorch::GraphModule> module_;
};

}  // namespace crumb::qat
