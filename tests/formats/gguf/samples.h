// Small GGUF files, written plainly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crumb::testing {

template <class T>
std::string little(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

inline std::string gguf_text_bytes(std::string_view text) {
  return little<std::uint64_t>(text.size()) + std::string(text);
}

/// A key with the number of its type and its value's bytes.
struct GgufSampleEntry {
  std::string key;
  std::uint32_t type;
  std::string value;
};

struct GgufSampleTensor {
  std::string name;
  std::vector<std::uint64_t> sizes;  ///< innermost first
  std::uint32_t type;
  std::string data;
};

inline std::string gguf_file(const std::vector<GgufSampleEntry>& entries,
                             const std::vector<GgufSampleTensor>& tensors) {
  std::string file = "GGUF" + little<std::uint32_t>(3) + little<std::uint64_t>(tensors.size()) +
                     little<std::uint64_t>(entries.size());
  for (const auto& entry : entries) file += gguf_text_bytes(entry.key) + little(entry.type) + entry.value;
  std::string data;
  for (const auto& tensor : tensors) {
    data.resize((data.size() + 31) / 32 * 32);
    file += gguf_text_bytes(tensor.name) + little(static_cast<std::uint32_t>(tensor.sizes.size()));
    for (const std::uint64_t size : tensor.sizes) file += little(size);
    file += little(tensor.type) + little<std::uint64_t>(data.size());
    data += tensor.data;
  }
  file.resize((file.size() + 31) / 32 * 32);
  return file + data;
}

}  // namespace crumb::testing
