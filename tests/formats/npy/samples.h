// Array files in memory, made by hand so that they can be wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crumb::testing {

inline std::string npy(const std::string& dict, const std::string& data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(version), '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>((dict.size() >> (8 * i)) & 255u);
  return file + dict + data;
}

template <class T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace crumb::testing
