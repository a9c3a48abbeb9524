// Flags of crumb export --to hls4ml-project and finn-project.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace crumb::cli {

struct ProjectFlags {
  std::string backend, part, io_type, strategy, board, data;
  double clock = 0;  ///< nanoseconds; 0: the tool's default
  int reuse_factor = 0;
  std::int64_t target_fps = 0;

  bool operator==(const ProjectFlags&) const = default;
};

void add_project_flags(CLI::App& verb, ProjectFlags& flags);

}  // namespace crumb::cli
