// The files of a run that rounds layers on samples: `<output>.partial.layers/`, one for each station that it
// has finished,
// 00000.crumb and so on. What they hold says ptq/rounding/layer_files.h; whose they are, the run's journal
// (run_journal.h).
#pragma once

#include <cstddef>
#include <filesystem>

namespace crumb {

class StationFiles {
 public:
  explicit StationFiles(const std::filesystem::path& output);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path(std::size_t station) const;

  /// Throws Error where the folder cannot be made.
  void make_folder() const;

  /// Removes the files of stations from that one on, and the folder where nothing is left in it. Throws Error
  /// where there are some and the folder is none that a run of Crumb made, or where one is an input.
  void remove_from(std::size_t station) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace crumb
