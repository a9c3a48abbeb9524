// Memory for codes: several threads write all of it, so nobody fills it with zeros first.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace crumb {

/// Allocates memory that huge pages back where it is large and the system has them: the first touch then
/// costs a fraction. Throws std::bad_alloc. free_pages() with the same size frees it.
void* allocate_pages(size_t bytes);
void free_pages(void* memory, size_t bytes) noexcept;

/// Leaves what resize() adds uninitialized: the threads that write it also touch it first.
template <class T>
struct UnfilledAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): the standard's name

  T* allocate(size_t count) { return static_cast<T*>(allocate_pages(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) noexcept { free_pages(memory, count * sizeof(T)); }
  bool operator==(const UnfilledAllocator&) const = default;

  template <class U>
  void construct(U* memory) noexcept {
    ::new (static_cast<void*>(memory)) U;
  }
  template <class U, class... Arguments>
  void construct(U* memory, Arguments&&... arguments) {
    std::construct_at(memory, std::forward<Arguments>(arguments)...);
  }
};
using CodeBytes = std::vector<std::byte, UnfilledAllocator<std::byte>>;

}  // namespace crumb
