#include "tests/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace crumb::testing {

void require(bool holds, std::string_view promise) {
  if (holds) return;
  std::fprintf(stderr, "a promise was broken: %.*s\n", static_cast<int>(promise.size()), promise.data());
  std::abort();
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
