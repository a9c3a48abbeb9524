// Folders that appear whole or not at all.
#pragma once

#include <filesystem>

namespace crumb {

/// Files are made in `<target>.partial`, which gets its name in commit(); destruction without it removes all of them. What
/// an earlier run left there is removed first.
class NewFolder {
 public:
  /// Throws usage Error for a target that exists and is no empty folder; Error where a folder cannot be made.
  explicit NewFolder(std::filesystem::path target);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  /// Where the files go until commit().
  const std::filesystem::path& path() const { return building_; }

  /// Once, last.
  void commit();

 private:
  std::filesystem::path target_, building_;
};

}  // namespace crumb
