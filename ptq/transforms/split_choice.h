// Chooses which channels of a site (split_sites.h) are duplicated, and how many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/quantize/plan.h"
#include "ptq/transforms/split_sites.h"

namespace crumb::ptq {

/// Constants that become codes, by name.
using PlannedConstants = std::map<std::string, const graph::PlannedConstant*>;

class SplitChoice {
 public:
  /// Keeps references to its arguments.
  SplitChoice(const graph::Graph& graph, const PlannedConstants& planned, const SplitSite& site)
      : graph_(graph), planned_(planned), site_(site) {}

  /// Returns that share of the channels, at least one, increased to what the specs of sinks and sources and
  /// the site's parts need; nothing where that is more than a quarter of the channels (and more than
  /// requested).
  std::optional<std::size_t> count(double share) const;

  /// Returns the channels with the largest weights, relative to the largest of their matrix: as many of each
  /// part, ascending.
  std::vector<std::size_t> largest(std::size_t count) const;

 private:
  bool fits(std::size_t channels) const;
  std::vector<std::uint64_t> rows_shape(const std::string& name, std::size_t output_axis) const;

  const graph::Graph& graph_;
  const PlannedConstants& planned_;
  const SplitSite& site_;
};

}  // namespace crumb::ptq
