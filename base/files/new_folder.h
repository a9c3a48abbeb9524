// Folders that appear whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

namespace crumb {

/// Files are made in `<target>.partial`, which gets its name in commit(); destruction without it removes all of them. What
/// a killed run left there is known by its mark and removed; what lies there without it is somebody else's, and an Error
/// (base/files/partial.h). The folder is locked while the object lives: a second run into it is refused, and told who works there.
/// Neither the folder nor what it replaces may be an input, hold one, or lie in one (base/files/inputs.h).
///
/// A target that is a symbolic link to a folder keeps being one: what it points to is replaced.
class NewFolder {
 public:
  /// Throws Error unless all that the folder holds was made by an earlier run, and may be replaced.
  using CheckOwn = std::function<void(const std::filesystem::path& folder)>;

  /// A target that exists must be an empty folder, or one that `check_own` lets pass; it is asked again before commit() replaces it.
  /// Throws usage Error where it is neither, and Error, before any work, where a folder cannot be made or given its name there.
  explicit NewFolder(std::filesystem::path target, CheckOwn check_own = {});
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  /// Where the files go until commit().
  const std::filesystem::path& path() const { return building_; }

  /// Once, last. An older folder is exchanged for the new one at once, then removed; where a file system cannot exchange, it is put
  /// aside as `<target>.partial.old` first, and put back by the next run should this one be killed right then.
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
  std::vector<std::filesystem::path> parents_;  ///< that were made for it, the outermost first
  int fd_ = -1;                                 ///< the folder while it is built, with its lock
};

/// Throws Error where the folder that a target will lie in is missing: for folders whose parents are not made.
void expect_parent_folder(const std::filesystem::path& target);

/// Throws what NewFolder would for this target, without a change, and announces it as an output: for verbs, before they read
/// anything.
void claim_new_folder(const std::filesystem::path& target, const NewFolder::CheckOwn& check_own = {});

}  // namespace crumb
