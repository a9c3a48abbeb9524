#include "formats/zip/zip.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>

#include "tests/formats/zip/samples.h"

namespace crumb {
namespace {

using testing::bytes_of;
using testing::deflated;
using testing::deflated_member;
using testing::extra64;
using testing::le;
using testing::plain_member;
using testing::zip_file;
using testing::ZipEnd;
using testing::ZipSample;

std::vector<ZipMember> members_of(const std::string& file) { return parse_zip(bytes_of(file)).take(); }

std::string why(const std::string& file) {
  const Result<std::vector<ZipMember>> members = parse_zip(bytes_of(file));
  return members.ok() ? "no failure" : members.failure().message;
}

std::string why(const ZipSample& member) { return why(zip_file({member})); }

bool says(const std::string& message, const char* part) {
  if (message.find(part) == std::string::npos) MESSAGE(message);
  return message.find(part) != std::string::npos;
}

Result<std::string> read(const std::string& file, const ZipMember& member, std::uint64_t most = 1 << 20) {
  Result<std::vector<std::byte>> bytes = read_zip_member(bytes_of(file), member, most);
  if (!bytes.ok()) return bytes.failure();
  return std::string(reinterpret_cast<const char*>(bytes.value().data()), bytes.value().size());
}

std::string why_unread(const ZipSample& member, std::uint64_t most = 1 << 20) {
  const std::string file = zip_file({member});
  const Result<std::string> data = read(file, members_of(file).at(0), most);
  return data.ok() ? "no failure" : data.failure().message;
}

/// Parses a copy of exactly this size, so that a sanitizer sees every read beyond; every accepted member must
/// lie inside and be readable or refused.
void expect_no_harm(const std::string& file) {
  const std::vector<std::byte> copy(bytes_of(file).begin(), bytes_of(file).end());
  const Result<std::vector<ZipMember>> members = parse_zip(copy);
  if (!members.ok()) {
    REQUIRE(!members.failure().message.empty());
    return;
  }
  for (const ZipMember& member : members.value()) {
    REQUIRE(member.offset <= file.size());
    REQUIRE(member.stored <= file.size() - member.offset);
    const Result<std::vector<std::byte>> data = read_zip_member(copy, member, 1 << 16);
    if (data.ok()) REQUIRE(data.value().size() == member.size);
  }
}

const std::string kText = "a text that a text that a text that a text that is deflated";

/// One of everything that is accepted.
std::string varied_file(bool zip64) {
  ZipSample padded = plain_member("a/padded", "0123456789");
  padded.local_extra = "FB" + le(9, 2) + "ZZZZZZZZZ";
  padded.comment = "of a member";
  ZipSample streamed = deflated_member("streamed", kText);
  streamed.flags = 8;
  streamed.local_crc = 0;
  streamed.local_size = streamed.local_stored = 0;
  streamed.descriptor =
      "PK\7\10" + le(streamed.crc, 4) + le(streamed.stored.size(), 4) + le(streamed.size, 4);
  ZipSample wide = deflated_member("wide", kText);
  wide.local_size = wide.local_stored = wide.said_size = wide.said_stored = wide.said_offset = 0xffffffff;
  wide.local_extra = extra64({wide.size, wide.stored.size()});
  ZipSample accented = plain_member("\xc3\xa9", "");
  accented.flags = 1u << 11;
  const std::vector<ZipSample> before = {padded, streamed, plain_member("a/", ""), accented};
  const std::string start = zip_file(before);
  // The wide member begins where the directory of the members before it would.
  wide.extra =
      le(0x7075, 2) + le(3, 2) + "abc" + extra64({wide.size, wide.stored.size(), start.find("PK\1\2")});
  return zip_file({padded, streamed, plain_member("a/", ""), accented, wide},
                  {.comment = "a comment", .zip64 = zip64, .sentinels = zip64});
}

TEST_CASE("every way to write a member is read, folders are left out") {
  for (const bool zip64 : {false, true}) {
    const std::string file = varied_file(zip64);
    const std::vector<ZipMember> members = members_of(file);
    REQUIRE(members.size() == 4);
    CHECK(members[0].name == "a/padded");
    CHECK(members[0].coding == StorageCoding::kPlain);
    CHECK(file.substr(members[0].offset, members[0].stored) == "0123456789");
    CHECK(members[1].name == "streamed");
    CHECK(members[1].coding == StorageCoding::kDeflate);
    CHECK(members[1].size == kText.size());
    CHECK(members[1].stored < kText.size());
    CHECK(members[2].name == "\xc3\xa9");
    CHECK(members[2].size == 0);
    CHECK(members[3].name == "wide");
    for (const std::size_t i : {std::size_t{1}, std::size_t{3}})
      CHECK(read(file, members[i]).take() == kText);
    CHECK(read(file, members[0]).take() == "0123456789");
    CHECK(read(file, members[2]).take().empty());
  }
}

TEST_CASE("empty archives, and the 64-bit records beside complete old ones, as PyTorch writes them") {
  CHECK(members_of(zip_file({})).empty());
  CHECK(members_of(zip_file({}, {.zip64 = true})).empty());
  const ZipSample member = plain_member("x", "data");
  CHECK(members_of(zip_file({member}, {.zip64 = true})).size() == 1);
  CHECK(members_of(zip_file({member}, {.zip64 = true, .sentinels = true, .record64_extra = "more"})).size() ==
        1);
  CHECK(members_of(zip_file({member}, {.comment = std::string(65535, 'c')})).size() == 1);
  // An archive in an archive: its end record is not mistaken for the outer one.
  const std::string inner = zip_file({plain_member("inner", "data")});
  CHECK(members_of(zip_file({plain_member("outer", inner)})).at(0).name == "outer");
}

TEST_CASE("a hundred thousand members take no quadratic time") {
  std::vector<ZipSample> samples;
  for (int i = 0; i < 100'000; ++i) samples.push_back(plain_member("data/" + std::to_string(i), "x"));
  const std::string file = zip_file(samples, {.zip64 = true, .sentinels = true});
  CHECK(members_of(file).size() == samples.size());
  samples.push_back(plain_member("data/77777", "y"));
  CHECK(says(why(zip_file(samples, {.zip64 = true, .sentinels = true})), "'data/77777' occurs twice"));
}

TEST_CASE("archives that cannot be trusted are refused with the reason") {
  const ZipSample good = plain_member("x", "data");
  const auto with = [&](auto change) {
    ZipSample member = good;
    change(member);
    return member;
  };
  CHECK(says(why(""), "no end record"));
  CHECK(says(why(std::string(100'000, 'P')), "no end record"));
  CHECK(says(why(zip_file({good}) + "x"), "no end record"));
  CHECK(says(why("front" + zip_file({good})), "does not end where"));
  CHECK(says(why(zip_file({good}, {.after = "gap"})), "does not end where"));
  CHECK(says(why(zip_file({good}, {.members = 2})), "cannot hold 2 members"));
  CHECK(says(why(zip_file({with([](auto& m) { m.comment = std::string(46, 'c'); })}, {.members = 2})),
             "the directory is cut short"));
  CHECK(says(why(zip_file({good}, {.members = 0})), "follow the directory's 0 members"));
  CHECK(says(why(zip_file({good}, {.offset = 0xfffffff0})), "does not end where"));
  CHECK(says(why(zip_file({good}, {.zip64 = true, .record64 = 3})), "no zip64 end record at byte 3"));
  CHECK(says(why(zip_file({good}, {.zip64 = true, .record64 = ~std::uint64_t{0} - 20})), "no zip64 end"));
  CHECK(says(why(zip_file({good}, {.zip64 = true, .sentinels = true, .offset = ~std::uint64_t{0} - 3})),
             "does not end where"));
  CHECK(says(why(zip_file({good}, {.zip64 = true, .disks = 2})), "several files"));
  CHECK(says(why(zip_file({good}, {.sentinels = true})), "does not end where"));
  {
    std::string file = zip_file({good}, {.zip64 = true});
    file[file.size() - 22 + 8] = 9;
    CHECK(says(why(file), "two end records disagree"));
    file = zip_file({good}, {.zip64 = true});
    ++file[file.rfind("PK\6\6") + 4];
    CHECK(says(why(file), "does not end where its locator begins"));
    file = zip_file({good});
    file[file.rfind("PK\1\2") + 3] = '\5';
    CHECK(says(why(file), "the directory holds something else than a member, 47 bytes before its end"));
    file = zip_file({good});
    file[file.size() - 22 + 4] = 1;
    CHECK(says(why(file), "several files"));
  }

  CHECK(says(why(zip_file({good, good})), "'x' occurs twice"));
  CHECK(says(why(with([](auto& m) { m.name = ""; })), "no name"));
  CHECK(says(why(with([](auto& m) { m.name = std::string("a\0b", 3); })), "zero byte"));
  CHECK(says(why(with([](auto& m) { m.name = "\xff", m.flags = 1u << 11; })), "not UTF-8"));
  CHECK(says(why(with([](auto& m) { m.name = "x/"; })), "the folder 'x/' holds data"));
  CHECK(says(why(with([](auto& m) { m.local_name = "y"; })), "'x' is named 'y'"));
  CHECK(says(why(with([](auto& m) { m.flags = 1; })), "'x' of the zip archive is encrypted"));
  CHECK(says(why(with([](auto& m) { m.local_flags = 1; })), "encrypted"));
  CHECK(says(why(with([](auto& m) { m.flags = 1u << 13; })), "encrypted"));
  CHECK(says(why(with([](auto& m) { m.flags = 1u << 5; })), "is a patch"));
  CHECK(says(why(with([](auto& m) { m.disk = 1; })), "several files"));
  CHECK(says(why(with([](auto& m) { m.method = 12; })), "compressed with bzip2"));
  CHECK(says(why(with([](auto& m) { m.method = 93; })), "compressed with zstd"));
  CHECK(says(why(with([](auto& m) { m.method = 77; })), "compressed with method 77"));
  CHECK(says(why(with([](auto& m) { m.local_method = 8; })), "disagree about its compression"));
  CHECK(says(why(with([](auto& m) { m.local_size = 3; })), "disagree about its size"));
  CHECK(says(why(with([](auto& m) { m.local_stored = 3; })), "disagree about its size"));
  CHECK(says(why(with([](auto& m) { m.local_crc = 3; })), "disagree about its checksum"));
  CHECK(says(why(with([](auto& m) { m.size = 5; })), "takes 4 bytes and says 5 bytes"));
  CHECK(says(why(with([](auto& m) { m.said_stored = m.said_size = 100; })), "leaves the part"));
  CHECK(says(why(with([](auto& m) { m.said_offset = 1000; })), "leaves the part"));
  CHECK(says(why(with([](auto& m) { m.said_offset = 1; })), "no header of the member 'x' at byte 1"));
  CHECK(says(why(with([](auto& m) { m.said_size = 0xffffffff; })), "the extra fields of the member 'x'"));
  CHECK(says(why(with([](auto& m) { m.local_size = 0xffffffff; })), "extra fields in the header"));
  CHECK(says(why(with([](auto& m) { m.extra = le(7, 2) + le(5, 2) + "1234"; })), "the extra fields"));
  CHECK(says(why(with([](auto& m) { m.extra = extra64({}) + extra64({}); })), "the extra fields"));
  CHECK(says(why(with([](auto& m) {
               m.said_size = m.said_stored = 0xffffffff;
               m.extra = extra64({4});
             })),
             "the extra fields"));
  CHECK(says(why(with([](auto& m) {
               m.said_size = m.said_stored = 0xffffffff;
               m.extra = extra64({~std::uint64_t{0}, ~std::uint64_t{0}});
             })),
             "leaves the part"));
  CHECK(says(why(with([](auto& m) {
               m.said_offset = 0xffffffff;
               m.extra = extra64({~std::uint64_t{0} - 10});
             })),
             "leaves the part"));
  {
    ZipSample bomb = deflated_member("bomb", std::string(50'000, '\0'));
    bomb.size = 1000 * bomb.stored.size() * 2;
    CHECK(says(why(bomb), "more than its"));
  }
  {
    // The second member's header and data lie in the first one's data.
    const std::string inner = zip_file({plain_member("y", "data")});
    ZipSample y = plain_member("y", "data");
    y.said_offset = 30 + 1;
    CHECK(says(why(zip_file({plain_member("x", inner), y})), "'x' and 'y' overlap"));
    CHECK(says(why(zip_file({y, plain_member("x", inner)})), "byte 31"));
  }
}

TEST_CASE("members that are not what they say are not read") {
  const ZipSample good = deflated_member("x", kText);
  const auto with = [&](auto change) {
    ZipSample member = good;
    change(member);
    return member;
  };
  CHECK(says(why_unread(good, kText.size() - 1), "at most 58 bytes are accepted"));
  CHECK(why_unread(good, kText.size()) == "no failure");
  CHECK(says(why_unread(with([](auto& m) { ++m.size; })), "decodes to 59 bytes of the 60 bytes"));
  CHECK(says(why_unread(with([](auto& m) { --m.size; })), "decodes to more than the 58 bytes"));
  CHECK(says(why_unread(with([](auto& m) { m.size = 0; })), "decodes to more than the 0 bytes"));
  CHECK(says(why_unread(with([](auto& m) { m.stored += "ab"; })), "2 bytes follow the compressed data"));
  CHECK(says(why_unread(with([](auto& m) { m.stored.pop_back(); })), "decodes to"));
  CHECK(says(why_unread(with([](auto& m) { m.stored[0] = '\7'; })), "compressed data is damaged"));
  CHECK(says(why_unread(with([](auto& m) { ++m.crc; })), "checksum of the member 'x' does not match"));
  CHECK(says(why_unread(with([](auto& m) { m.stored = "", m.size = 0; })), "decodes to 0 bytes of the 0"));
  ZipSample plain = plain_member("p", "data");
  ++plain.crc;
  CHECK(says(why_unread(plain), "checksum"));
  const std::string file = zip_file({plain});
  ZipMember member = members_of(file).at(0);
  CHECK(read_zip_member(bytes_of(file), member, 10, false).ok());
  member.offset = file.size() - 3;
  CHECK(says(read(file, member).failure().message, "'p' leaves the file"));
  member.offset = ~std::uint64_t{0};
  CHECK(says(read(file, member).failure().message, "'p' leaves the file"));
}

TEST_CASE("every truncation is refused; single flipped bits do no harm") {
  for (const bool zip64 : {false, true}) {
    const std::string file = varied_file(zip64);
    for (std::size_t size = 0; size < file.size(); ++size) {
      const std::string cut = file.substr(0, size);
      REQUIRE(why(cut) != "no failure");
      expect_no_harm(cut);
      expect_no_harm(file.substr(file.size() - size));
    }
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      std::string flipped = file;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      expect_no_harm(flipped);
    }
  }
}

TEST_CASE("random damage does no harm") {
  std::mt19937 random(5);
  const std::string good[] = {varied_file(false), varied_file(true)};
  for (int round = 0; round < 30'000; ++round) {
    std::string file = good[round % 2];
    for (std::size_t i = 1 + random() % 4; i > 0 && !file.empty(); --i) {
      const std::size_t at = random() % file.size();
      switch (random() % 5) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file[at] = '\xff'; break;
        case 2: file.erase(at, 1 + random() % 9); break;
        case 3: file.insert(at, file.substr(random() % file.size(), random() % 40)); break;
        default:
          for (std::size_t k = at; k < std::min(at + 8, file.size()); ++k) file[k] = '\xff';
      }
    }
    expect_no_harm(file);
  }
}

}  // namespace
}  // namespace crumb
