// A folder for what benchmarks write.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::bench {

/// A folder of our own that goes with us.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "crumb-bench-XXXXXX").string();
    if (!mkdtemp(name.data())) throw Error("cannot make a temporary folder " + quote_text(name));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace crumb::bench
