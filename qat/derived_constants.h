// Weights that a network computes from its parameters before it uses them: the transpose of a linear layer's
// matrix, the parts of an attention's packed projection. A prepared graph has them as constants. While it
// trains they are computed anew from the parameters, which keep their names and shapes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "libtorch/execute/graph_module.h"

namespace crumb::qat {

class DerivedConstants {
 public:
  /// `original`: the graph before constants were folded; `prepared`: after. A constant of `prepared` is
  /// derived where `original` computes it and nothing has changed it since.
  DerivedConstants(const graph::Graph& original, const graph::Graph& prepared);

  /// Returns the derived constants, and the parameters that the prepared graph also takes as they are.
  const std::set<std::string>& names() const { return names_; }

  /// Returns the parameters that a derived constant is computed from, by name.
  const std::set<std::string>& sources_of(const std::string& name) const { return sources_.at(name); }

  /// Returns the module that holds these parameters; null where nothing is derived.
  const std::shared_ptr<libtorch::GraphModule>& module() const { return module_; }

  /// Returns the current values, with gradients to the parameters where gradients are kept.
  libtorch::Plan::Constants values() const;

 private:
  std::set<std::string> names_;
  std::map<std::string, std::set<std::string>> sources_;
  std::shared_ptr<libtorch::GraphModule> module_;
};

}  // namespace crumb::qat
