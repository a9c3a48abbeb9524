#pragma once

#include <filesystem>
#include <string_view>

#include "base/files/output_file.h"

namespace crumb {

/// Writes a whole file, as OutputFile does: all of it or nothing. Throws as OutputFile does.
inline void write_text_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.append(text);
  file.commit();
}

}  // namespace crumb
