#include "base/files/checked_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checksum.h"
#include "base/files/text.h"

namespace crumb {
namespace {

template <std::size_t kSize>
std::array<std::byte, kSize> little_endian(std::uint64_t number) {
  std::array<std::byte, kSize> bytes;
  for (std::size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
  return bytes;
}

/// Returns the end of a file whose `size` bytes have this CRC-32.
std::array<std::byte, 4> end_of(std::uint32_t checksum, std::uint64_t size) {
  return little_endian<4>(crc32_of(little_endian<8>(size), checksum));
}

}  // namespace

CheckedFileWriter::CheckedFileWriter(const std::filesystem::path& path) : file_(path) {
  file_.outlast_interrupts();
}

void CheckedFileWriter::append(std::span<const std::byte> bytes) {
  file_.append(bytes);
  checksum_ = crc32_of(bytes, checksum_);
  size_ += bytes.size();
}

void CheckedFileWriter::commit() {
  file_.append(end_of(checksum_, size_));
  file_.commit();
}

Result<CheckedFile> CheckedFile::open(const std::filesystem::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.failure();
  const std::span<const std::byte> whole = file.value().bytes();
  const std::size_t size = whole.size() - std::min<std::size_t>(whole.size(), 4);
  const auto wanted = end_of(crc32_of(whole.first(size)), size);
  if (!std::ranges::equal(whole.subspan(size), wanted))
    return Failure{quote_text(path.string()) +
                   " is damaged, or of another version: its bytes do not have its checksum"};
  return CheckedFile(std::move(file).take(), size);
}

}  // namespace crumb
