// Texts that are made tokens of as a whole.
#pragma once

#include <cstdint>
#include <string>

#include "base/files/mapped_file.h"

namespace crumb::cli {

/// A file of at most 1 GiB. Throws Error that names it.
inline std::string read_tokenized_text(const std::string& file) {
  return read_text_file(file, std::uint64_t{1} << 30).take();
}

}  // namespace crumb::cli
