// Folders that appear whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

namespace crumb {

/// Files are made in `<target>.partial`, which commit() renames to the target; destruction without commit()
/// removes them all. A folder of that name with Crumb's mark is a killed run's and is removed; one without
/// the mark is somebody else's, and an Error (base/files/partial.h). The folder is locked while the object
/// lives: a second run into it is refused, and the message says who works there. Neither the folder nor what
/// it replaces may be an input, hold one, or lie in one (base/files/inputs.h).
///
/// A target that is a symbolic link to a folder keeps being one: the folder that it points to is replaced.
class NewFolder {
 public:
  /// Throws Error unless an earlier run made all that the folder holds, so that it may be replaced.
  using CheckOwn = std::function<void(const std::filesystem::path& folder)>;

  /// A target that exists must be an empty folder, or one that `check_own` accepts; commit() asks it again
  /// before it replaces the folder. Throws usage Error where it is neither, and Error, before any work, where
  /// a folder cannot be made or renamed there.
  explicit NewFolder(std::filesystem::path target, CheckOwn check_own = {});
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  /// The folder for the files until commit().
  const std::filesystem::path& path() const { return building_; }

  /// Call it once, last. Exchanges an older folder for the new one atomically, then removes it. Where a file
  /// system cannot exchange, the older folder is first moved to `<target>.partial.old`; the next run puts it
  /// back if this run is killed at that moment.
  void commit();

 private:
  void check_target();
  void make_parents();
  void make_building();
  bool take_building(int fd);
  void put_back_old();
  void replace_old();
  void remove_made() noexcept;
  std::filesystem::path aside() const;

  std::filesystem::path typed_, target_, building_;
  CheckOwn check_own_;
  std::vector<std::filesystem::path> parents_;  ///< those that were made for it, the outermost first
  int fd_ = -1;                                 ///< the folder while it is built, with its lock
};

/// Throws Error where the parent folder of a target is missing: for folders whose parents are not made.
void expect_parent_folder(const std::filesystem::path& target);

/// Throws what NewFolder would throw for this target, without changing anything, and announces it as an
/// output: for verbs, before they read anything.
void claim_new_folder(const std::filesystem::path& target, const NewFolder::CheckOwn& check_own = {});

}  // namespace crumb
