#include "jobs/engines/library_file.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>
#include <vector>

namespace crumb::jobs {
namespace {

/// Returns the end of `bytes` bytes that begin at `at`; the largest number where that is beyond any file.
std::uint64_t end_of(std::uint64_t at, std::uint64_t bytes) {
  return bytes > UINT64_MAX - at ? UINT64_MAX : at + bytes;
}

template <class T>
bool read_at(std::ifstream& file, std::uint64_t at, T* into, std::size_t count) {
  file.seekg(static_cast<std::streamoff>(at));
  return static_cast<bool>(
      file.read(reinterpret_cast<char*>(into), static_cast<std::streamsize>(count * sizeof(T))));
}

}  // namespace

std::string fault_of_library(const std::filesystem::path& path) {
  std::error_code none;
  if (!path.has_parent_path() || !std::filesystem::is_regular_file(path, none)) return "";
  const std::uint64_t size = std::filesystem::file_size(path, none);
  std::ifstream file(path, std::ios::binary);
  if (none || !file) return "";
  const std::string cut = "it was cut short: it has " + std::to_string(size) + " bytes, ";
  Elf64_Ehdr header = {};
  if (size < sizeof header) return cut + "and a library's header has " + std::to_string(sizeof header);
  if (!read_at(file, 0, &header, 1) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return "";
  std::uint64_t least = end_of(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  if (least <= size) {
    std::vector<Elf64_Phdr> segments(header.e_phnum);
    if (!read_at(file, header.e_phoff, segments.data(), segments.size())) return "";
    for (const Elf64_Phdr& segment : segments)
      if (segment.p_type != PT_NULL) least = std::max(least, end_of(segment.p_offset, segment.p_filesz));
  }
  return least <= size ? "" : cut + "and its header speaks of " + std::to_string(least);
}

}  // namespace crumb::jobs
