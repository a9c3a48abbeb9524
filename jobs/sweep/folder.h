// The folder of a sweep: what was asked, a file for each finished cell, and what became of all.
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

/// What a sweep writes into its folder; the last is one itself.
inline constexpr std::initializer_list<const char*> kSweepFiles = {"sweep.json", "sweep.csv", "sweep.svg",
                                                                   "command.json", "cells"};

/// A file as it is now, for commands that must find it so again: path, size and time.
nlohmann::ordered_json file_identity(const std::filesystem::path& path);

class SweepFolder {
 public:
  /// Makes the folder where there is none. `command` says by flags what decides a cell's numbers; with
  /// `restart`, what another command left is dropped. Throws Error where the folder holds another command's
  /// cells, and says in which fields it differs, as the observer calls them; where it holds files of these
  /// names that no sweep wrote; and where another run has it.
  SweepFolder(const std::filesystem::path& folder, const nlohmann::ordered_json& command, bool restart,
              const Observer& observer);

  /// A cell that is done. One that failed is tried again, and so is one whose file is wanted and not there.
  std::optional<eval::GridRow> finished(std::size_t cell, bool wants_file) const;
  void keep(std::size_t cell, const eval::GridRow& row) const;
  /// Where the cell's network is written.
  std::filesystem::path file_of(std::size_t cell) const;

  /// sweep.csv, sweep.svg and, last, sweep.json: once.
  void write(const eval::GridTable& table);

 private:
  std::filesystem::path row_of(std::size_t cell) const;

  const std::filesystem::path folder_;
  std::optional<OutputFile> result_;  ///< sweep.json on its way, which locks the folder
};

}  // namespace crumb::jobs
