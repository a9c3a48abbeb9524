// crumb export --to hls4ml-project and finn-project: a folder that a consumer's own tool builds, and that proves it equal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/accumulator/layers.h"
#include "cli/flags/project_flags.h"

namespace crumb::cli {

// Forms of --to.
inline constexpr std::string_view kHls4mlProject = "hls4ml-project", kFinnProject = "finn-project";

/// Of "NAME=lo:hi" by the network's names, by the names of the written file's inputs, which may be others. Throws usage
/// Error for a name that is no input.
analysis::GivenRanges ranges_in_file(const std::vector<std::string>& wishes, const graph::Graph& graph,
                                     const graph::Graph& written);

struct ProjectRequest {
  graph::Graph graph;
  std::string folder;
  std::vector<std::string> shapes, ranges;  ///< of inputs, as the flags say them
  std::int64_t opset = 0;
  ProjectFlags flags;
};

struct ProjectReport {
  std::size_t layers = 0, samples = 0;
  std::vector<std::string> notes;
};

/// Writes the folder, which is empty or not there. Throws Error where the tool cannot take the network, or would compute
/// something else, by node and reason; nothing is left then.
ProjectReport write_hls4ml_project(const ProjectRequest& request);
ProjectReport write_finn_project(const ProjectRequest& request);

}  // namespace crumb::cli
