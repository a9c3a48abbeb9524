#include "base/files/mapped_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/files/text.h"

namespace crumb {

Status check_readable(std::span<const std::byte> mapped) {
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, which older headers do not have
  static const auto kPage = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (mapped.empty()) return {};
  const std::uintptr_t inside = reinterpret_cast<std::uintptr_t>(mapped.data()) % kPage;
  void* begin = const_cast<std::byte*>(mapped.data()) - inside;
  int populated = 0;
  do {
    populated = ::madvise(begin, inside + mapped.size(), kPopulateRead);
  } while (populated != 0 && errno == EINTR);
  if (populated == 0 || (errno != EFAULT && errno != EHWPOISON)) return {};
  return Failure{
      byte_text(mapped.size()) +
      " can no longer be read: the file was cut short while it was being read, or its device fails"};
}

}  // namespace crumb
