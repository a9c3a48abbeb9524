#include "tests/fuzz/hostile_zip.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "tests/fuzz/fuzz.h"

namespace crumb::testing {
namespace {

constexpr std::string_view kLocal{"PK\x03\x04"};
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kMostMembers = 8;
constexpr std::uint64_t kSee64 = 0xffffffff, kSee64Short = 0xffff;

/// What lies behind a local header, up to the next record.
struct Found {
  std::string name;
  std::string_view data;
  std::uint64_t method, size, crc;
};

std::uint64_t load(std::string_view file, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, file.data() + at, bytes);
  return value;
}

std::vector<Found> find_members(std::string_view file) {
  std::vector<Found> found;
  for (std::size_t at = 0;
       (at = file.find(kLocal, at)) != std::string_view::npos && found.size() < kMostMembers;) {
    if (file.size() - at < kLocalBytes) break;
    const std::size_t name = at + kLocalBytes, name_bytes = load(file, at + 26, 2);
    const std::size_t data = std::min(name + name_bytes + load(file, at + 28, 2), file.size());
    std::size_t end = std::min(file.find("PK", data), file.size());
    Found member{std::string(file.substr(name, name_bytes)), file.substr(data, end - data),
                 load(file, at + 8, 2), load(file, at + 22, 4), load(file, at + 14, 4)};
    if (member.method == 0) {
      member.size = member.data.size();
      member.crc = crc32_of(bytes_of(member.data));
    }
    found.push_back(std::move(member));
    at = end;
  }
  return found;
}

/// Little-endian numbers, one after the other.
class Record {
 public:
  Record& put(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 255u);
    return *this;
  }
  Record& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct Member {
  std::uint64_t size = 0, stored = 0, header = 0, crc = 0;
  bool wide = false;          ///< sizes and offset stand in a zip64 extra field
  bool sizes_follow = false;  ///< and in the local header nothing
};

/// The extra field of zip64: sizes, and the offset in the directory.
std::string wide_extra(const Member& member, bool in_directory) {
  Record record;
  if (!member.wide) return {};
  record.put(1, 2).put(in_directory ? 24 : 16, 2).put(member.size, 8).put(member.stored, 8);
  if (in_directory) record.put(member.header, 8);
  return record.bytes();
}

/// From the flags to the lengths of name and extra field, which both headers have.
void put_fields(Record& record, const Found& found, const Member& member, std::uint64_t extra) {
  record.put(member.sizes_follow ? 8 : 0, 2).put(found.method, 2).put(0, 4).put(member.crc, 4);
  record.put(member.wide ? kSee64 : member.stored, 4).put(member.wide ? kSee64 : member.size, 4);
  record.put(found.name.size(), 2).put(extra, 2);
}

void spoil(Member& member, std::uint64_t file_size, std::uint64_t directory, Random& random) {
  switch (random.below(5)) {
    case 0: member.stored = hostile_number(random, file_size, member.stored); break;
    case 1: member.size = hostile_number(random, file_size, member.size); break;
    case 2: member.header = hostile_number(random, file_size, member.header); break;
    case 3:
      member.stored = directory - member.header - random.below(100);
      break;  // what lies before it counts too
    default: member.header = 0 - random.below(1 << 12);
  }
  if (random.one_in(2)) member.size = member.stored;
  member.wide = !random.one_in(3);
}

}  // namespace

std::string hostile_zip(std::string_view file, Random& random) {
  const std::vector<Found> found = find_members(file);
  if (found.empty()) return {};
  const std::size_t victim = random.one_in(4) ? found.size() : random.below(found.size());
  const bool both = !random.one_in(4);  // headers alike
  std::string made, directory;
  for (std::size_t i = 0; i < found.size(); ++i) {
    Member member{found[i].size, found[i].data.size(), made.size(),
                  found[i].crc,  random.one_in(4),     random.one_in(8)};
    const Member right = member;
    if (i == victim) spoil(member, file.size(), file.size() / 2 + random.below(file.size()), random);
    const Member& local = both ? member : right;
    const std::string local_extra = wide_extra(local, false), extra = wide_extra(member, true);
    Record header, entry;
    put_fields(header.text(kLocal).put(20, 2), found[i], local, local_extra.size());
    made += header.text(found[i].name).text(local_extra).bytes();
    made += found[i].data;
    put_fields(entry.text("PK\x01\x02").put(20, 2).put(20, 2), found[i], member, extra.size());
    entry.put(0, 2).put(member.wide ? kSee64Short : 0, 2).put(0, 2).put(0, 4);
    directory += entry.put(member.wide ? kSee64 : member.header, 4).text(found[i].name).text(extra).bytes();
  }
  std::uint64_t begin = made.size(), bytes = directory.size(), entries = found.size(), here = entries;
  const std::uint64_t end = begin + bytes;
  if (victim == found.size()) {
    switch (random.below(4)) {
      case 0: begin = hostile_number(random, file.size(), begin); break;
      case 1: bytes = hostile_number(random, file.size(), bytes); break;
      case 2: here = entries = hostile_number(random, file.size(), entries); break;
      default:  // their sum is where the directory ends
        begin = hostile_number(random, file.size(), begin);
        bytes = end - begin;
    }
  }
  made += directory;
  Record record;
  const bool wide = random.one_in(2);
  if (wide) {
    const bool bad_record = random.one_in(8), bad_locator = random.one_in(8);
    record.text("PK\x06\x06")
        .put(bad_record ? hostile_number(random, file.size(), 44) : 44, 8)
        .put(45, 2)
        .put(45, 2);
    record.put(0, 8).put(here, 8).put(entries, 8).put(bytes, 8).put(begin, 8);
    record.text("PK\x06\x07")
        .put(0, 4)
        .put(bad_locator ? hostile_number(random, file.size(), end) : end, 8)
        .put(1, 4);
  }
  record.text("PK\x05\x06").put(0, 4).put(wide ? kSee64Short : here, 2).put(wide ? kSee64Short : entries, 2);
  record.put(wide ? kSee64 : bytes, 4).put(wide ? kSee64 : begin, 4).put(0, 2);
  return made + record.bytes();
}

}  // namespace crumb::testing
