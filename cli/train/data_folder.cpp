#include "cli/train/data_folder.h"

#include <cstdlib>

namespace crumb::cli {

std::filesystem::path data_folder(const std::string& flag) {
  namespace fs = std::filesystem;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value ? fs::path(value) : fs::path();
  };
  if (!flag.empty()) return flag;
  if (const fs::path data = variable("CRUMB_DATA"); !data.empty()) return data;
  if (const fs::path cache = variable("CRUMB_CACHE"); !cache.empty()) return cache / "data";
  if (const fs::path cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "crumb" / "data";
  return variable("HOME") / ".cache" / "crumb" / "data";
}

}  // namespace crumb::cli
