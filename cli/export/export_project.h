// crumb export --to hls4ml-project and finn-project: a folder that a consumer's own tool builds, and that
// proves the result equal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/accumulator/layers.h"
#include "cli/flags/project_flags.h"

namespace crumb::cli {

// Names of forms after --to.
inline constexpr std::string_view kHls4mlProject = "hls4ml-project", kFinnProject = "finn-project";

/// Reads "NAME=lo:hi" with the network's names; returns the ranges by the names of the written file's inputs,
/// which may differ. Throws usage Error for a name that is no input.
analysis::GivenRanges ranges_in_file(const std::vector<std::string>& requests, const graph::Graph& graph,
                                     const graph::Graph& written);

struct ProjectRequest {
  graph::Graph graph;
  std::string folder;
  std::vector<std::string> shapes, ranges;  ///< those of inputs, as the flags give them
  std::int64_t opset = 0;
  ProjectFlags flags;
};

struct ProjectReport {
  std::size_t layers = 0, samples = 0;
  std::vector<std::string> notes;
};

/// Writes the folder, which must be empty or not exist. Throws Error, with node and reason, where the tool
/// cannot take the network or would compute something else; nothing is left then.
ProjectReport write_hls4ml_project(const ProjectRequest& request);
ProjectReport write_finn_project(const ProjectRequest& request);

}  // namespace crumb::cli
