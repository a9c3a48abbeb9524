#include "formats/io/process_memory.h"

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

}  // namespace

uint64_t resident_bytes() { return status_bytes("VmRSS:"); }

uint64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace crumb
