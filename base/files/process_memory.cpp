#include "base/files/process_memory.h"

#include <link.h>

#include <fstream>
#include <string>

namespace crumb {
namespace {

uint64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kilobytes = 0;
    if (word == key && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

int add_segments(dl_phdr_info* object, size_t /*size*/, void* total) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD) *static_cast<uint64_t*>(total) += segment.p_memsz;
  }
  return 0;
}

/// Bytes of the program and the libraries it has loaded.
uint64_t image_bytes() {
  uint64_t total = 0;
  dl_iterate_phdr(add_segments, &total);
  return total;
}

}  // namespace

uint64_t baseline_bytes() {
  const uint64_t anonymous = status_bytes("RssAnon:");
  return anonymous > 0 ? anonymous + image_bytes() : 0;
}

uint64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace crumb
