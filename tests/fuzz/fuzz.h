// What the fuzz targets share. A target is <name>_fuzz.cpp, which defines fuzz(); scripts/fuzz runs it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/stored_tensor.h"

namespace crumb::testing {

/// One execution: hands the bytes to a reader and checks what the reader promises.
void fuzz(std::span<const std::byte> input);

/// Ends the process where a promise was broken: that is a finding.
void require(bool holds, std::string_view promise);

/// The value of a Result that must be ok.
template <class T>
T require_ok(Result<T> result, const char* promise) {
  require(result.ok(), promise + (result.ok() ? std::string() : ": " + result.failure().message));
  return std::move(result.value());
}

/// A Failure that says something.
template <class R>
bool is_ok(const R& result) {
  require(result.ok() || !result.failure().message.empty(), "a failure says why");
  return result.ok();
}

/// Whether a tensor's size is its shape's, in numbers that do not wrap.
bool is_exact_size(DType dtype, std::span<const std::uint64_t> shape, std::uint64_t bytes);

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// A file in memory, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace crumb::testing
