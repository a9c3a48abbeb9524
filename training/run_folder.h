// The folder of a training run: what every one of them has in it.
#pragma once

#include <exception>
#include <filesystem>
#include <initializer_list>

namespace crumb::training {

/// What runs write there: of language models, of other tasks, and of those with --float-only.
inline constexpr std::initializer_list<const char*> kLanguageFiles = {
    "checkpoint.state", "start.crumb", "synthetic.npy", "synthetic.jsonl",
    "log.jsonl",        "model.crumb", "report.json"};
inline constexpr std::initializer_list<const char*> kTaskFiles = {
    "checkpoint.state", "float.safetensors", "log.jsonl", "model.crumb", "model.onnx", "report.json"};
inline constexpr std::initializer_list<const char*> kFloatFiles = {
    "checkpoint.state", "float.onnx", "calibration.npy", "valid.npy",
    "labels.npy",       "log.jsonl",  "report.json"};

/// The file that is written last, and stands for those beside it.
std::filesystem::path report_in(const std::filesystem::path& folder);

class RunFolder {
 public:
  /// Makes it where there is none; with `restart` the state of an unfinished run is dropped. One run at a
  /// time `writes` into it, of several processes one. Throws Error where it cannot be made, or another run
  /// writes.
  RunFolder(std::filesystem::path folder, bool restart, bool writes = true);
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
  void lock();

  std::filesystem::path folder_;
  int lock_ = -1;  ///< the folder, opened, whose lock ends with this object
  bool is_new_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace crumb::training
