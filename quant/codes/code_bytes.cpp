#include "quant/codes/code_bytes.h"

#include <sys/mman.h>

namespace crumb {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLeastHuge = 2 * kHugePage;  // below this size ordinary memory is as good

std::align_val_t alignment_of(size_t bytes) {
  return static_cast<std::align_val_t>(bytes < kLeastHuge ? alignof(std::max_align_t) : kHugePage);
}

}  // namespace

void* allocate_pages(size_t bytes) {
  void* memory = ::operator new(bytes, alignment_of(bytes));
  // Only a hint: if the system declines, nothing is lost. The end keeps ordinary pages, so that no more
  // memory is taken than was asked for.
  if (bytes >= kLeastHuge) ::madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void free_pages(void* memory, size_t bytes) noexcept { ::operator delete(memory, alignment_of(bytes)); }

}  // namespace crumb
