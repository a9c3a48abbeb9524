#include "base/files/process_memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace crumb {
namespace {

/// Returns bytes from a file with lines "Key: 123 kB"; 0 where it has no such line.
uint64_t bytes_in(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string word; lines >> word;) {
    uint64_t kilobytes = 0;
    if (word == key && lines >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

uint64_t status_bytes(const std::string& key) { return bytes_in("/proc/self/status", key); }

/// Returns the number in a file; nothing where it has none ("max").
std::optional<uint64_t> number_in(const std::string& file) {
  std::ifstream text(file);
  uint64_t number = 0;
  if (text >> number) return number;
  return {};
}

uint64_t less(uint64_t all, uint64_t used) { return all > used ? all - used : 0; }

/// Returns what the control groups leave: the process's own and those around it.
std::optional<uint64_t> left_by_groups() {
  std::ifstream groups("/proc/self/cgroup");
  std::optional<uint64_t> left;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;  // version 1
    for (std::string path = line.substr(3);; path.resize(path.find_last_of('/'))) {
      const std::string folder = "/sys/fs/cgroup" + path;
      const auto most = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
      if (most && used) left = std::min(left.value_or(UINT64_MAX), less(*most, *used));
      if (path.empty() || path == "/") break;
    }
  }
  return left;
}

int add_segments(dl_phdr_info* object, size_t /*size*/, void* total) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD) *static_cast<uint64_t*>(total) += segment.p_memsz;
  }
  return 0;
}

/// Returns the bytes of the program and of the libraries that it has loaded.
uint64_t image_bytes() {
  uint64_t total = 0;
  dl_iterate_phdr(add_segments, &total);
  return total;
}

}  // namespace

uint64_t baseline_bytes() {
  malloc_trim(0);  // what earlier work freed is no memory that the process needs
  const uint64_t anonymous = status_bytes("RssAnon:");
  return anonymous > 0 ? anonymous + image_bytes() : 0;
}

uint64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

std::optional<uint64_t> available_bytes() {
  std::optional<uint64_t> left = left_by_groups();
  const auto take = [&left](uint64_t bytes) { left = std::min(left.value_or(UINT64_MAX), bytes); };
  if (const uint64_t free = bytes_in("/proc/meminfo", "MemAvailable:"))
    take(free + bytes_in("/proc/meminfo", "SwapFree:"));
  const auto take_limit = [&](auto resource, const std::string& used) {
    rlimit limit{};
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      take(less(limit.rlim_cur, status_bytes(used)));
  };
  take_limit(RLIMIT_AS, "VmSize:");
  take_limit(RLIMIT_DATA, "VmData:");
  return left;
}

}  // namespace crumb
