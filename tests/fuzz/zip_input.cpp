#include "tests/fuzz/zip_input.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/checksum.h"
#include "formats/zip/zip.h"
#include "tests/fuzz/fuzz.h"

namespace crumb::testing {
namespace {

constexpr std::string_view kLocal{"PK\x03\x04"}, kEntry{"PK\x01\x02"}, kEnd{"PK\x05\x06"};
constexpr std::size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22;
constexpr std::uint64_t kMostMember = 1 << 20;

/// Where the records lie that begin so and have room for all their fields.
std::vector<std::size_t> find_all(std::string_view file, std::string_view mark, std::size_t bytes) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; (at = file.find(mark, at)) != std::string_view::npos; ++at)
    if (file.size() - at >= bytes) found.push_back(at);
  return found;
}

std::uint64_t load(std::string_view file, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, file.data() + at, bytes);
  return value;
}

void store(std::string& file, std::size_t at, std::uint64_t value, std::size_t bytes) {
  std::memcpy(file.data() + at, &value, bytes);
}

}  // namespace

std::string zip_of(const std::vector<std::pair<std::string, std::string_view>>& members) {
  std::string file, directory;
  for (const auto& [name, bytes] : members) {
    std::string fields(22, '\0');  // from the flags to the length of the name, which both headers have
    store(fields, 8, crc32_of(bytes_of(bytes)), 4);
    store(fields, 12, bytes.size(), 4);
    store(fields, 16, bytes.size(), 4);
    store(fields, 20, name.size(), 2);
    directory += std::string(kEntry) + std::string("\x14\0\x14\0", 4) + fields + std::string(16, '\0') + name;
    store(directory, directory.size() - name.size() - 4, file.size(), 4);
    file += std::string(kLocal) + std::string("\x14\0", 2) + fields + std::string(2, '\0') + name;
    file += bytes;
  }
  std::string end = std::string(kEnd) + std::string(kEndBytes - kEnd.size(), '\0');
  store(end, 8, members.size(), 2);
  store(end, 10, members.size(), 2);
  store(end, 12, directory.size(), 4);
  store(end, 16, file.size(), 4);
  return file + directory + end;
}

std::string zip_made_consistent(std::string_view input) {
  std::string file(input);
  const std::vector<std::size_t> locals = find_all(file, kLocal, kLocalBytes);
  const std::vector<std::size_t> entries = find_all(file, kEntry, kEntryBytes);
  const std::vector<std::size_t> ends = find_all(file, kEnd, kEndBytes);
  if (ends.empty()) return file;
  const std::size_t end = ends.back(), directory = entries.empty() ? end : entries.front();
  store(file, end + 8, entries.size(), 2);
  store(file, end + 10, entries.size(), 2);
  store(file, end + 12, end - std::min(directory, end), 4);
  store(file, end + 16, directory, 4);
  store(file, end + 20, file.size() - end - kEndBytes, 2);
  for (std::size_t i = 0; i < std::min(locals.size(), entries.size()); ++i) {
    const std::size_t data =
        locals[i] + kLocalBytes + load(file, locals[i] + 26, 2) + load(file, locals[i] + 28, 2);
    const std::size_t data_end = i + 1 < locals.size() ? locals[i + 1] : directory;
    store(file, entries[i] + 42, locals[i], 4);
    if (data > data_end || data_end > file.size()) continue;
    const bool is_stored = load(file, entries[i] + 10, 2) == 0;
    const std::uint32_t crc = crc32_of(bytes_of(file).subspan(data, data_end - data));
    for (const std::size_t fields : {locals[i] + 14, entries[i] + 16}) {
      if (is_stored) store(file, fields, crc, 4);
      store(file, fields + 4, data_end - data, 4);
      if (is_stored) store(file, fields + 8, data_end - data, 4);
    }
  }
  return file;
}

void check_zip(std::span<const std::byte> file) {
  Result<std::vector<ZipMember>> members = parse_zip(file);
  if (!is_ok(members)) return;
  for (const ZipMember& member : members.value()) {
    require(member.offset <= file.size() && member.stored <= file.size() - member.offset,
            "members lie inside the archive");
    require(member.coding != StorageCoding::kPlain || member.stored == member.size,
            "stored members are plain");
    const auto bytes = read_zip_member(file, member, kMostMember);
    if (is_ok(bytes))
      require(bytes.value().size() == member.size && crc32_of(bytes.value()) == member.crc,
              "a member is read");
  }
  std::ranges::sort(members.value(), {}, [](const ZipMember& m) { return std::pair(m.offset, m.stored); });
  std::uint64_t end = 0;
  for (const ZipMember& member : members.value()) {
    require(member.offset >= end, "members do not overlap");
    end = member.offset + member.stored;
  }
}

}  // namespace crumb::testing
