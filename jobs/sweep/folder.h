// The folder of a sweep: the request, a file for each finished cell, and the table of all cells.
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files/output_file.h"
#include "eval/grid_table.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// The files that a sweep writes into its folder; the last is a folder itself.
inline constexpr std::initializer_list<const char*> kSweepFiles = {"sweep.json", "sweep.csv", "sweep.svg",
                                                                   "command.json", "cells"};

/// Returns a file's path, size and time of change, for commands that must find it unchanged later.
nlohmann::ordered_json file_identity(const std::filesystem::path& path);

class SweepFolder {
 public:
  /// Makes the folder where there is none. `command` gives by flags what decides a cell's numbers; `restart`
  /// drops what another command left. Throws Error where the folder holds another command's cells, with the
  /// fields that differ as the observer spells them; where it holds files of these names that no sweep wrote;
  /// and where another run uses it.
  SweepFolder(const std::filesystem::path& folder, const nlohmann::ordered_json& command, bool restart,
              const Observer& observer);

  /// Returns a cell's row if the cell is done; nothing if it failed, or if its file is needed and missing.
  std::optional<eval::GridRow> finished(std::size_t cell, bool wants_file) const;
  void keep(std::size_t cell, const eval::GridRow& row) const;
  /// Returns where the cell's network is written.
  std::filesystem::path file_of(std::size_t cell) const;

  /// Writes sweep.csv, sweep.svg and, last, sweep.json; call once.
  void write(const eval::GridTable& table);

 private:
  std::filesystem::path row_of(std::size_t cell) const;

  const std::filesystem::path folder_;
  std::optional<OutputFile> result_;  ///< sweep.json while it is written; it locks the folder
};

}  // namespace crumb::jobs
