// The folder of a training run: what every one of them has in it.
#pragma once

#include <exception>
#include <filesystem>

namespace crumb::training {

/// The file that is written last, and stands for those beside it.
std::filesystem::path report_in(const std::filesystem::path& folder);

class RunFolder {
 public:
  /// Makes it where there is none; with `restart` the state of an unfinished run is dropped. Throws Error where it cannot be
  /// made.
  RunFolder(std::filesystem::path folder, bool restart);
  /// Takes it away again where it was made, an exception ends the run, and nothing came into it.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// The file that an unfinished run goes on from.
  std::filesystem::path state() const { return state_in(folder_); }
  static std::filesystem::path state_in(const std::filesystem::path& folder) {
    return folder / "checkpoint.state";
  }
  void drop_state() const;

  std::filesystem::path report() const { return report_in(folder_); }
  void drop_report() const;

 private:
  std::filesystem::path folder_;
  bool is_new_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace crumb::training
