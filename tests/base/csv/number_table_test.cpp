// Tables of numbers: what is read, and the message of everything that is wrong.
#include "base/csv/number_table.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <fstream>
#include <random>

#include "tests/support/samples.h"
#include "tests/support/testing.h"

using crumb::parse_number_table;
using crumb::read_number_table;
using crumb::testing::says;

namespace {

std::string refusal(std::string_view text) {
  const auto table = parse_number_table(text);
  return table.ok() ? "" : table.failure().message;
}

void write_gzip(const std::filesystem::path& path, const std::string& text) {
  const gzFile file = ::gzopen(path.c_str(), "wb");
  ::gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(file);
}

}  // namespace

TEST_CASE("number table: rows of numbers") {
  const auto table = parse_number_table("1,2.5,-3\r\n4,5e1,0.125\n\n").take();
  CHECK(table.columns == 3);
  CHECK(table.rows() == 2);
  CHECK(table.values == std::vector<double>{1, 2.5, -3, 4, 50, 0.125});
  CHECK(parse_number_table("7").take().rows() == 1);
}

TEST_CASE("number table: what is wrong is named with its line") {
  CHECK(says(refusal(""), {"no number"}));
  CHECK(says(refusal("\n\n"), {"no number"}));
  CHECK(says(refusal("1,2\n3"), {"line 2", "1 number,", "expected 2"}));
  CHECK(says(refusal("1,2\n\n3,4"), {"line 2", "expected a number", "''"}));
  for (const char* bad : {"1,x", "1,", ",1", "1, 2", "nan", "inf", "1e999", "0x1", "1,2,", "--1"}) {
    CHECK(says(refusal(bad), {"line 1", "expected a number"}));
  }
}

TEST_CASE("number table: files, plain and compressed, whole or damaged") {
  const crumb::testing::TempDir folder;
  const auto plain = folder.path() / "a.csv", packed = folder.path() / "a.csv.gz";
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i) + "," + std::to_string(i * 7 % 13) + "\n";
  std::ofstream(plain) << text;
  write_gzip(packed, text);
  CHECK(read_number_table(plain).take().values == parse_number_table(text).take().values);
  CHECK(read_number_table(packed).take().values == parse_number_table(text).take().values);
  CHECK_FALSE(read_number_table(folder.path() / "none").ok());

  std::ifstream in(packed, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto damaged = folder.path() / "damaged.gz";
  for (const std::size_t size : {std::size_t{2}, std::size_t{12}, bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(damaged, std::ios::binary) << bytes.substr(0, size);
    const auto read = read_number_table(damaged);
    REQUIRE_FALSE(read.ok());
    CHECK(says(read.failure().message, {"damaged.gz", "cut short"}));
  }
  std::ofstream(damaged, std::ios::binary) << bytes << "more";
  CHECK_FALSE(read_number_table(damaged).ok());
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string changed = bytes;
    changed[random() % changed.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(damaged, std::ios::binary) << changed;
    (void)read_number_table(damaged);  // a table or a Failure
  }
}
