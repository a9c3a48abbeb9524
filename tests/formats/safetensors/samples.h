// Safetensors files in memory, made by hand so that they can be wrong.
#pragma once

#include <cstdint>
#include <string>

namespace crumb::testing {

/// Length, header as given, then so many bytes of data.
inline std::string safetensors_file(const std::string& header, std::size_t data_bytes) {
  std::string file;
  for (unsigned shift = 0; shift < 64; shift += 8)
    file += static_cast<char>((std::uint64_t{header.size()} >> shift) & 255u);
  file += header;
  for (std::size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i * 7 + 1);
  return file;
}

}  // namespace crumb::testing
