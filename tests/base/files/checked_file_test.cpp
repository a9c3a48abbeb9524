// Files with a checksum: what was written comes back, and every bit that turned is seen.
#include "base/files/checked_file.h"

#include <doctest/doctest.h>

#include <fstream>
#include <random>
#include <string>

#include "base/files/write_text_file.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

void write(const std::filesystem::path& path, std::string_view text, std::size_t piece) {
  CheckedFileWriter file(path);
  for (std::size_t at = 0; at < text.size(); at += piece)
    file.append(std::as_bytes(std::span(text.substr(at, piece))));
  file.commit();
}

TEST_CASE("a checked file is what was written, and no other") {
  const testing::TempDir folder;
  const std::filesystem::path path = folder.path() / "state";
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 40, ' ');
    for (char& byte : text) byte = static_cast<char>(random());
    write(path, text, 1 + random() % 9);
    const Result<CheckedFile> found = CheckedFile::open(path);
    REQUIRE(found.ok());
    CHECK(found.value().text() == text);
    CHECK(found.value().bytes().size() == text.size());

    std::ifstream in(path, std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(in), {}};
    CHECK(whole.size() == text.size() + 4);
    std::string turned = whole;
    turned[random() % turned.size()] ^= static_cast<char>(1U << random() % 8);
    const std::string cut = whole.substr(0, random() % whole.size()), longer = whole + '\0',
                      much_longer = whole + std::string(1 + random() % 9, static_cast<char>(random())),
                      zeros(whole.size(), '\0');
    for (const std::string& other : {turned, cut, longer, much_longer, zeros}) {
      write_text_file(path, other);
      CHECK_FALSE(CheckedFile::open(path).ok());
    }
  }
  CHECK_FALSE(CheckedFile::open(folder.path() / "none").ok());
}

}  // namespace
}  // namespace crumb
