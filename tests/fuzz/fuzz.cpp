#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace crumb::testing {

void require(bool holds, std::string_view promise) {
  if (holds) return;
  std::fprintf(stderr, "a promise was broken: %.*s\n", static_cast<int>(promise.size()), promise.data());
  std::abort();
}

bool is_exact_size(DType dtype, std::span<const std::uint64_t> shape, std::uint64_t bytes) {
  unsigned __int128 bits = dtype_bits(dtype);
  if (std::ranges::find(shape, std::uint64_t{0}) != shape.end()) return bytes == 0;
  for (const std::uint64_t size : shape)
    if (bits >> 64 == 0) bits *= size;  // beyond, it only grows
  return bits == static_cast<unsigned __int128>(bytes) * 8;
}

MemoryFile::MemoryFile(std::span<const std::byte> bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
  require(descriptor_ >= 0, "a file in memory can be made");
  const ssize_t written = bytes.empty() ? 0 : write(descriptor_, bytes.data(), bytes.size());
  require(written == static_cast<ssize_t>(bytes.size()), "a file in memory can be written");
}

MemoryFile::~MemoryFile() { close(descriptor_); }

}  // namespace crumb::testing

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  crumb::testing::fuzz(std::as_bytes(std::span(data, size)));
  return 0;
}
