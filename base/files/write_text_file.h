#pragma once

#include <filesystem>
#include <string_view>

#include "base/files/output_file.h"

namespace crumb {

/// A whole file in one: as OutputFile writes, all of it or nothing. Throws what that throws.
inline void write_text_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.append(text);
  file.commit();
}

}  // namespace crumb
