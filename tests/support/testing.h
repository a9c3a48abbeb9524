// What every doctest file of ours may use beyond doctest: visible skips, slow tests, and where things lie.
//
//   TEST_CASE("embeds like the float model") {
//     const auto model = crumb::testing::minilm();
//     if (!model) return crumb::testing::skip("the MiniLM checkpoint is not installed");
//     ...
//   }
//
// A skipped test case is counted apart from the passed ones, and its reason is printed at the end of the run.
// A test case that fails a check and then skips counts as failed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace crumb::testing {

/// Marks the running test case as skipped, for this reason. Follow it with a return.
void skip(const std::string& reason);

/// Whether slow tests were asked for (scripts/test --slow sets CRUMB_SLOW=1).
/// Use: if (!slow()) return skip_slow();
bool slow();
inline void skip_slow() { skip("slow: run with CRUMB_SLOW=1 or scripts/test --slow"); }

/// The root of the repository, where formats/ and tests/ lie.
std::filesystem::path repo_root();

/// The all-MiniLM-L6-v2 checkpoint, a Hugging Face folder: $CRUMB_MINILM, else the one in the Python
/// environment that scripts/setup makes; none if it is not installed.
std::optional<std::filesystem::path> minilm();

/// The ONNX and QONNX files inside the qonnx package, in folders of their own, in the same environment; none
/// if it is not installed.
std::optional<std::filesystem::path> qonnx_networks();

/// The crumb executable of this build ($CRUMB_BIN overrides it). It may not have been built yet.
std::filesystem::path crumb_binary();

/// All bytes of a file; "" where there is none.
std::string content(const std::filesystem::path& path);

/// A fresh empty folder, removed with everything in it when the guard goes out of scope.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace crumb::testing
