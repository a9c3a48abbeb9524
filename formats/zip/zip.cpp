#include "formats/zip/zip.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/checked_size.h"
#include "base/checksum.h"
#include "base/files/counted.h"
#include "base/files/inflate.h"
#include "base/files/text.h"
#include "formats/zip/records.h"

namespace crumb {
namespace {

constexpr std::uint64_t kEndRecordBytes = 22;
constexpr std::uint64_t kEndRecord64Bytes = 56;
constexpr std::uint64_t kEndLocator64Bytes = 20;
constexpr std::uint64_t kDirectoryEntryBytes = 46;
constexpr std::uint64_t kLocalHeaderBytes = 30;

constexpr unsigned kEncryptedFlags = 1u << 0 | 1u << 6 | 1u << 13;
constexpr unsigned kSizesFollowFlag = 1u << 3;
constexpr unsigned kPatchFlag = 1u << 5;
constexpr unsigned kUtf8Flag = 1u << 11;

/// A deflate stream spends two bits or more on 258 bytes.
constexpr std::uint64_t kMostPerDeflatedByte = 1032;

template <class T>
T load(std::span<const std::byte> bytes, std::uint64_t at) {
  T value;
  std::memcpy(&value, &bytes.subspan(at, sizeof(T))[0], sizeof(T));
  return value;
}

std::uint64_t load16(std::span<const std::byte> bytes, std::uint64_t at) {
  return load<std::uint16_t>(bytes, at);
}
std::uint64_t load32(std::span<const std::byte> bytes, std::uint64_t at) {
  return load<std::uint32_t>(bytes, at);
}
std::uint64_t load64(std::span<const std::byte> bytes, std::uint64_t at) {
  return load<std::uint64_t>(bytes, at);
}

Failure damaged(const std::string& what) { return Failure{"the zip archive is damaged: " + what}; }

std::string member_text(std::string_view name) { return "the member " + quote_text(name); }

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

/// The last end record whose comment reaches exactly to the end of the file.
std::optional<std::uint64_t> find_end_record(std::span<const std::byte> file) {
  if (file.size() < kEndRecordBytes) return std::nullopt;
  const std::uint64_t last = file.size() - kEndRecordBytes;
  const std::uint64_t first = last - std::min<std::uint64_t>(last, 0xffff);
  for (std::uint64_t at = last + 1; at-- > first;)
    if (load32(file, at) == kEndRecord && load16(file, at + 20) == last - at) return at;
  return std::nullopt;
}

Result<Directory> find_directory(std::span<const std::byte> file) {
  const std::optional<std::uint64_t> end = find_end_record(file);
  if (!end)
    return Failure{
        "the zip archive has no end record: the file is cut short, or something follows the archive"};
  std::uint64_t disk = load16(file, *end + 4);
  std::uint64_t directory_disk = load16(file, *end + 6);
  std::uint64_t entries_here = load16(file, *end + 8);
  Directory directory{load32(file, *end + 16), load32(file, *end + 12), load16(file, *end + 10)};
  std::uint64_t directory_end = *end;

  if (*end >= kEndLocator64Bytes && load32(file, *end - kEndLocator64Bytes) == kEndLocator64) {
    const std::uint64_t locator = *end - kEndLocator64Bytes;
    const std::uint64_t at = load64(file, locator + 8);
    if (load32(file, locator + 4) != 0 || load32(file, locator + 16) > 1)
      return Failure{"the zip archive is split over several files, expected one"};
    if (!checked::fits(at, kEndRecord64Bytes, locator) || load32(file, at) != kEndRecord64)
      return damaged("there is no zip64 end record at byte " + std::to_string(at));
    if (load64(file, at + 4) != locator - at - 12)
      return damaged("the zip64 end record does not end where its locator begins");
    const auto widen = [](std::uint64_t& narrow, std::uint64_t wide, std::uint64_t see) {
      const bool agree = narrow == see || narrow == wide;
      narrow = wide;
      return agree;
    };
    const bool agree = widen(disk, load32(file, at + 16), kSee64Short) &&
                       widen(directory_disk, load32(file, at + 20), kSee64Short) &&
                       widen(entries_here, load64(file, at + 24), kSee64Short) &&
                       widen(directory.entries, load64(file, at + 32), kSee64Short) &&
                       widen(directory.bytes, load64(file, at + 40), kSee64) &&
                       widen(directory.offset, load64(file, at + 48), kSee64);
    if (!agree) return damaged("its two end records disagree");
    directory_end = at;
  }
  if (disk != 0 || directory_disk != 0 || entries_here != directory.entries)
    return Failure{"the zip archive is split over several files, expected one"};
  // Anything between would let other readers, which shift offsets by that gap, see another archive.
  if (checked::add(directory.offset, directory.bytes) != directory_end)
    return damaged("the directory of " + byte_text(directory.bytes) + " at byte " +
                   std::to_string(directory.offset) + " does not end where the end record begins, at byte " +
                   std::to_string(directory_end));
  if (directory.entries > directory.bytes / kDirectoryEntryBytes)
    return damaged("a directory of " + byte_text(directory.bytes) + " cannot hold " +
                   std::to_string(directory.entries) + " members");
  return directory;
}

/// The numbers that a zip64 extra field carries for those of `fields` (in its order) that say so. False where
/// one is missing, or the extra fields are damaged.
bool widen_fields(std::span<const std::byte> extra, std::span<std::uint64_t* const> fields) {
  std::optional<std::span<const std::byte>> wide;
  while (extra.size() >= 4) {
    const std::uint64_t bytes = load16(extra, 2);
    if (bytes > extra.size() - 4) return false;
    if (load16(extra, 0) == kZip64Extra) {
      if (wide) return false;
      wide = extra.subspan(4, bytes);
    }
    extra = extra.subspan(4 + bytes);
  }
  for (std::uint64_t* field : fields) {
    if (*field != kSee64) continue;
    if (!wide || wide->size() < 8) return false;
    *field = load64(*wide, 0);
    wide = wide->subspan(8);
  }
  return true;
}

std::string method_text(std::uint64_t method) {
  constexpr std::pair<std::uint64_t, std::string_view> kMethods[] = {
      {1, "shrink"}, {6, "implode"}, {9, "deflate64"}, {12, "bzip2"}, {14, "LZMA"},
      {20, "zstd"},  {93, "zstd"},   {95, "xz"},       {98, "PPMd"},  {99, "AES encryption"}};
  for (const auto& [number, name] : kMethods)
    if (number == method) return std::string(name);
  return "method " + std::to_string(method);
}

/// A directory entry, with what its local header must repeat.
struct Entry {
  ZipMember member;
  std::uint64_t header = 0;  ///< of the local header, from the start of the file
  std::uint64_t method = 0;
};

Status check_flags(std::uint64_t flags, std::string_view name) {
  if ((flags & kEncryptedFlags) != 0) return Failure{member_text(name) + " of the zip archive is encrypted"};
  if ((flags & kPatchFlag) != 0) return Failure{member_text(name) + " of the zip archive is a patch"};
  return {};
}

Status check_name(std::string_view name, bool says_utf8) {
  if (name.empty()) return damaged("a member has no name");
  if (name.find('\0') != std::string_view::npos)
    return damaged("the name of " + member_text(name) + " holds a zero byte");
  if (says_utf8 && !is_utf8(name)) return damaged("the name of " + member_text(name) + " is not UTF-8");
  return {};
}

/// Reads the entry at the front of `rest` and takes it off.
Result<Entry> read_entry(std::span<const std::byte>& rest) {
  if (rest.size() < kDirectoryEntryBytes) return damaged("the directory is cut short");
  if (load32(rest, 0) != kDirectoryEntry)
    return damaged("the directory holds something else than a member, " + byte_text(rest.size()) +
                   " before its end");
  const std::uint64_t name_bytes = load16(rest, 28);
  const std::uint64_t extra_bytes = load16(rest, 30);
  const std::uint64_t entry_bytes = kDirectoryEntryBytes + name_bytes + extra_bytes + load16(rest, 32);
  if (entry_bytes > rest.size()) return damaged("the directory is cut short");
  const std::span<const std::byte> entry_span = rest.first(entry_bytes);
  rest = rest.subspan(entry_bytes);

  Entry entry;
  ZipMember& member = entry.member;
  member.name.assign(reinterpret_cast<const char*>(entry_span.data()) + kDirectoryEntryBytes, name_bytes);
  const std::uint64_t flags = load16(entry_span, 8);
  entry.method = load16(entry_span, 10);
  member.crc = load<std::uint32_t>(entry_span, 16);
  member.stored = load32(entry_span, 20);
  member.size = load32(entry_span, 24);
  entry.header = load32(entry_span, 42);
  if (Status named = check_name(member.name, (flags & kUtf8Flag) != 0); !named.ok()) return named.failure();
  if (Status plain = check_flags(flags, member.name); !plain.ok()) return plain.failure();
  std::uint64_t* const fields[] = {&member.size, &member.stored, &entry.header};
  if (!widen_fields(entry_span.subspan(kDirectoryEntryBytes + name_bytes, extra_bytes), fields))
    return damaged("the extra fields of " + member_text(member.name));
  if (const std::uint64_t disk = load16(entry_span, 34); disk != 0 && disk != kSee64Short)
    return Failure{"the zip archive is split over several files, expected one"};

  if (entry.method != 0 && entry.method != 8)
    return Failure{member_text(member.name) + " of the zip archive is compressed with " +
                   method_text(entry.method) + ", expected deflate or nothing"};
  member.coding = entry.method == 0 ? StorageCoding::kPlain : StorageCoding::kDeflate;
  if (member.coding == StorageCoding::kPlain && member.stored != member.size)
    return damaged(member_text(member.name) + " takes " + byte_text(member.stored) + " and says " +
                   byte_text(member.size));
  if (member.size / kMostPerDeflatedByte > member.stored)
    return damaged(member_text(member.name) + " says " + byte_text(member.size) + ", more than its " +
                   byte_text(member.stored) + " can decode to");
  return entry;
}

/// Checks the local header against the directory and finds the data behind it.
Status locate_data(std::span<const std::byte> file, const Directory& directory, Entry& entry) {
  ZipMember& member = entry.member;
  const auto outside = [&] {
    return damaged(member_text(member.name) + " leaves the part before the directory");
  };
  if (!checked::fits(entry.header, kLocalHeaderBytes, directory.offset)) return outside();
  const std::span<const std::byte> header = file.subspan(entry.header, directory.offset - entry.header);
  if (load32(header, 0) != kLocalHeader)
    return damaged("there is no header of " + member_text(member.name) + " at byte " +
                   std::to_string(entry.header));
  const std::uint64_t name_bytes = load16(header, 26);
  const std::uint64_t extra_bytes = load16(header, 28);
  const std::uint64_t before = kLocalHeaderBytes + name_bytes + extra_bytes;  // numbers of 16 bits
  if (!checked::fits(before, member.stored, header.size())) return outside();
  const std::string_view name(reinterpret_cast<const char*>(header.data()) + kLocalHeaderBytes, name_bytes);
  if (name != member.name)
    return damaged(member_text(member.name) + " is named " + quote_text(name) + " by its own header");
  const std::uint64_t flags = load16(header, 6);
  if (Status plain = check_flags(flags, name); !plain.ok()) return plain;
  const auto disagree = [&](const char* what) {
    return damaged("the directory and the header of " + member_text(member.name) + " disagree about its " +
                   what);
  };
  if (load16(header, 8) != entry.method) return disagree("compression");
  // Where the sizes follow the data, most writers leave zeros here.
  if ((flags & kSizesFollowFlag) == 0) {
    std::uint64_t stored = load32(header, 18);
    std::uint64_t size = load32(header, 22);
    std::uint64_t* const fields[] = {&size, &stored};
    if (!widen_fields(header.subspan(kLocalHeaderBytes + name_bytes, extra_bytes), fields))
      return damaged("the extra fields in the header of " + member_text(member.name));
    if (stored != member.stored || size != member.size) return disagree("size");
    if (load32(header, 14) != member.crc) return disagree("checksum");
  }
  member.offset = entry.header + before;
  return {};
}

Status refuse_overlaps(std::span<const Entry> entries) {
  std::vector<const Entry*> order;
  order.reserve(entries.size());
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->header < b->header; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->header < order[i - 1]->member.offset + order[i - 1]->member.stored)
      return damaged("the members " + quote_text(order[i - 1]->member.name) + " and " +
                     quote_text(order[i]->member.name) + " overlap");
  // Sorted, not hashed: names chosen to collide would take quadratic time.
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return a->member.name < b->member.name; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->member.name == order[i - 1]->member.name)
      return damaged(member_text(order[i]->member.name) + " occurs twice");
  return {};
}

}  // namespace

Result<std::vector<ZipMember>> parse_zip(std::span<const std::byte> file) {
  const Result<Directory> found = find_directory(file);
  if (!found.ok()) return found.failure();
  const Directory& directory = found.value();
  std::span<const std::byte> rest = file.subspan(directory.offset, directory.bytes);
  std::vector<Entry> entries;
  entries.reserve(directory.entries);
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    Result<Entry> entry = read_entry(rest);
    if (!entry.ok()) return entry.failure();
    if (Status located = locate_data(file, directory, entry.value()); !located.ok()) return located.failure();
    entries.push_back(std::move(entry.value()));
  }
  if (!rest.empty())
    return damaged(follow_text(rest.size(), "byte") + " the directory's " +
                   count_text(directory.entries, "member"));
  if (Status apart = refuse_overlaps(entries); !apart.ok()) return apart.failure();

  std::vector<ZipMember> members;
  members.reserve(entries.size());
  for (Entry& entry : entries) {
    if (!entry.member.name.ends_with('/')) {
      members.push_back(std::move(entry.member));
    } else if (entry.member.size != 0) {
      return damaged("the folder " + quote_text(entry.member.name) + " holds data");
    }
  }
  return members;
}

Result<std::vector<std::byte>> read_zip_member(std::span<const std::byte> file, const ZipMember& member,
                                               std::uint64_t max_bytes, bool check_crc) {
  if (member.size > max_bytes)
    return Failure{member_text(member.name) + " of the zip archive takes " + byte_text(member.size) +
                   ", at most " + byte_text(max_bytes) + " are accepted"};
  if (!checked::fits(member.offset, member.stored, file.size()))
    return damaged(member_text(member.name) + " leaves the file");
  std::span<const std::byte> stored = file.subspan(member.offset, member.stored);
  std::vector<std::byte> bytes;
  if (member.coding == StorageCoding::kPlain) {
    bytes.assign(stored.begin(), stored.end());
  } else {
    // One byte more than is expected, so that a longer stream shows.
    bytes.resize(member.size + 1);
    Inflater inflater;
    const Result<Inflater::Step> step = inflater.step(stored, bytes);
    if (!step.ok()) return damaged(member_text(member.name) + ": " + step.failure().message);
    if (step.value().produced > member.size)
      return damaged(member_text(member.name) + " decodes to more than the " + byte_text(member.size) +
                     " it says");
    if (!step.value().ended || step.value().produced < member.size)
      return damaged(member_text(member.name) + " decodes to " + byte_text(step.value().produced) +
                     " of the " + byte_text(member.size) + " it says");
    if (step.value().consumed != stored.size())
      return damaged(follow_text(stored.size() - step.value().consumed, "byte") + " the compressed data of " +
                     member_text(member.name));
    bytes.pop_back();
  }
  if (check_crc && crc32_of(bytes) != member.crc)
    return damaged("the checksum of " + member_text(member.name) + " does not match");
  return bytes;
}

}  // namespace crumb
