// Packed files that are damaged: each is refused in words, in bounded memory; nothing crashes.
#include "tests/formats/crumb_file/damage.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "quant/quantized_tensor.h"
#include "tests/formats/crumb_file/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::header_of;
using testing::Json;
using testing::kCompressible;
using testing::kSmall;
using testing::says;
using testing::Taken;
using testing::TempDir;
using testing::verdict;
using testing::Wanted;
using testing::write_sample;

/// Every tensor's and every file's bytes, decompressed; nothing where a file is refused.
std::optional<std::string> contents(const std::filesystem::path& path) {
  const Result<CrumbFile> file = CrumbFile::open(path);
  if (!file.ok() || !check_packed_file(file.value()).ok()) return std::nullopt;
  std::string all(header_of(testing::read_all(path)));
  const auto add = [&](const Blob& blob) {
    const BlobBytes bytes = file.value().load(blob, "a blob").take();
    all.append(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size());
  };
  for (const PackedTensor& tensor : file.value().header().tensors) {
    for (const auto& part : tensor.parts)
      if (part) add(*part);
  }
  for (const PackedFile& entry : file.value().header().files) add(entry.blob);
  return all;
}

TEST_CASE("packed file, damaged: one flipped bit, wherever it is, is found or changes nothing that is read") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (const int level : {0, 5}) {
    std::string content = write_sample(path, kSmall, level, 1, kCompressible);
    REQUIRE(content.size() < 4096);
    REQUIRE((header_of(content).find("zstd") != std::string::npos) == (level > 0));
    REQUIRE(verdict(path) == "");
    const auto meant = contents(path);
    const int fd = ::open(path.c_str(), O_WRONLY);
    size_t sound = 0, silent = 0;
    for (size_t i = 0; i < content.size(); ++i) {
      for (int bit = 0; bit < 8; ++bit) {
        const char flipped = static_cast<char>(content[i] ^ (1 << bit));
        REQUIRE(::pwrite(fd, &flipped, 1, static_cast<off_t>(i)) == 1);
        const std::string message = verdict(path);
        if (message.empty()) {
          ++sound;  // bits of a frame that decoders do not look at
          REQUIRE(contents(path) == meant);
        }
        silent += message == "(an empty message)";
      }
      REQUIRE(::pwrite(fd, &content[i], 1, static_cast<off_t>(i)) == 1);
    }
    ::close(fd);
    CHECK(sound <= (level == 0 ? 0 : 16));
    CHECK(silent == 0);
    CHECK(verdict(path) == "");
  }
}

TEST_CASE("packed file, damaged: cut short anywhere, or longer than it should be") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  for (const int level : {0, 5}) {
    const std::string content = write_sample(path, kSmall, level, 1, kCompressible);
    for (size_t size = content.size(); size-- > 0;) {
      std::filesystem::resize_file(path, size);
      const Result<CrumbFile> file = CrumbFile::open(path);
      REQUIRE(!file.ok());
      REQUIRE(!file.failure().message.empty());
    }
    for (const size_t more : {1, 63, 64, 65, 5000}) {
      CHECK(
          says(verdict(path, content + std::string(more, '\0')), {"follow", std::to_string(content.size())}));
    }
  }
}

TEST_CASE("packed file, damaged: the preamble says what it is") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  const std::string good = write_sample(path, kSmall);
  const auto with = [&](size_t offset, auto value) {
    std::string content = good;
    std::memcpy(content.data() + offset, &value, sizeof value);
    const uint32_t crc = crc32_of(testing::bytes_of(content).first(36));
    std::memcpy(content.data() + 36, &crc, sizeof crc);
    return verdict(path, content);
  };
  CHECK(says(with(8, uint32_t{1}), {"unknown key 'layout'"}));  // it says that it is older than it is
  CHECK(says(with(8, uint32_t{3}), {"version 3", "versions 1 to 2"}));
  CHECK(says(with(8, uint32_t{0}), {"version 0"}));
  CHECK(says(with(8, ~uint32_t{0}), {"version 4294967295"}));
  CHECK(says(with(12, uint32_t{1}), {"12"}));
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{64}, good.size(), good.size() - 64,
                                ~uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0} - 63}) {
    CHECK(with(16, length) != "");
    CHECK(says(with(24, length == good.size() ? length + 1 : length), {std::to_string(good.size())}));
  }
  CHECK(says(verdict(path, "PK\x03\x04" + good.substr(4)), {"not a packed file"}));
  CHECK(verdict(path, "") != "");
}

TEST_CASE("packed file, hostile: padding between blobs is zero") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  std::string content = write_sample(path, kSmall);
  const CrumbHeader header = CrumbFile::open(path).take().header();
  const Blob& codes = *header.tensors[0].part(Part::kCodes);
  const uint64_t after = codes.offset + codes.stored;
  REQUIRE(after % 64 != 0);
  content[after] = '\1';
  CHECK(says(verdict(path, content), {"padding", std::to_string(after)}));
}

}  // namespace
}  // namespace crumb
