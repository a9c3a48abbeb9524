// Finds what sums, concatenations and products belong to, from what their nodes compute, and so whether
// integers are useful there. Internal to graph/quantize.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "graph/graph.h"
#include "graph/quantize/operators.h"

namespace crumb::graph {

class Roles {
 public:
  /// `in_floats`: first outputs of nodes that are known to take no integers.
  Roles(const Graph& graph, const Links& links, const Constants& constants,
        const std::set<std::string>& in_floats = {});

  /// Whether a node without weights takes integers and passes them on: a residual sum, a concatenation, or an
  /// average pool whose results reach a product, or another such node, through nothing but Relu, Clip and
  /// nodes that move elements.
  bool passes_integers_on(std::size_t node);

  /// Whether a node adds values of one shape that were computed separately, as residual additions do. These
  /// do not:
  ///   - functions of one value, element by element: both operands depend on nothing else (x + .04 x^3, PReLU
  ///     from two Relus);
  ///   - sums of products of elements or of their squares: powers of a spectrum, rotations, gates (z h + (1 -
  ///     z) n), variances;
  ///   - what is subtracted from a value, or added to it, because of its own mean or maximum.
  bool is_residual_sum(std::size_t node);

  /// Whether a product is the transform of a spectrum: all consumers of its results sum their squares or take
  /// their logarithms, perhaps after parts of them were gathered, concatenated, scaled by constants or added
  /// to each other (a fast Fourier transform), or passed through other products with weights (filters in
  /// front of it).
  bool is_of_spectrum(std::size_t node);

 private:
  const std::set<std::string>& dominators(const std::string& value);
  bool is_square(const Node& node) const;
  bool multiplies_elements(const std::string& value) const;
  bool is_statistic(const std::string& value) const;
  std::size_t made_by(std::string value) const;
  bool only_constants_beside(const Node& node) const;
  bool is_summed_up(const std::string& value) const;
  bool ends_in_spectrum(const std::string& value, std::set<std::string>& seen) const;

  const Graph& graph_;
  const Links& links_;
  const Constants& constants_;
  const std::set<std::string> in_floats_;
  std::map<std::size_t, bool> passes_on_;
  std::map<std::string, std::set<std::string>> dominators_;
};

}  // namespace crumb::graph
