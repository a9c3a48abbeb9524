// The journal of a run: what is written is read; torn and damaged lines are never believed.
#include "quant/checkpoint/run_journal.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>

#include "tests/support/samples.h"
#include "tests/support/testing.h"

using crumb::Blob;
using crumb::Codec;
using crumb::JournalContents;
using crumb::JournalEntry;
using crumb::RunIdentity;
using crumb::RunJournal;
using crumb::testing::says;
using crumb::testing::TempDir;
namespace fs = std::filesystem;

namespace {

RunIdentity sample_identity() {
  return {.version = "1.2.3",
          .work = "counts \"sheep\"",
          .recipe = "weights: {spec: \"int4:group=128\"}\n# \xc3\xa4 \x01\n",
          .plan = 0xfedcba98u,
          .inputs = {
              {"a \"quoted\"\n.safetensors", uint64_t{1} << 60, 1234567890123456789, 1234567890123456790, 0},
              {"config.json", 7, 0, 0, 0xffffffffu}}};
}

JournalEntry sample_entry(uint64_t tensor) {
  JournalEntry entry{
      .tensor = tensor, .sqnr_db = 10.0 / 3 + static_cast<double>(tensor), .max_abs_error = 1e-300};
  if (tensor % 3 == 1) entry.sqnr_db = std::numeric_limits<double>::infinity();
  if (tensor % 3 == 2) entry.max_abs_error = -0.0;
  entry.saturated_scales = tensor * 1000000007;
  for (uint64_t i = 0; i < tensor % 4; ++i)
    entry.blobs.push_back({64 * (i + 1), uint64_t{1} << (i * 20), 5 + i, i % 2 ? Codec::kZstd : Codec::kNone,
                           0xffffffffu - static_cast<uint32_t>(i)});
  return entry;
}

bool same(const JournalEntry& a, const JournalEntry& b) {
  const auto bits = [](double x) { return std::bit_cast<uint64_t>(x); };
  if (a.tensor != b.tensor || a.blobs.size() != b.blobs.size() || bits(a.sqnr_db) != bits(b.sqnr_db) ||
      bits(a.max_abs_error) != bits(b.max_abs_error) || a.saturated_scales != b.saturated_scales)
    return false;
  for (size_t i = 0; i < a.blobs.size(); ++i) {
    const Blob &x = a.blobs[i], &y = b.blobs[i];
    if (x.offset != y.offset || x.stored != y.stored || x.raw != y.raw || x.codec != y.codec ||
        x.crc != y.crc)
      return false;
  }
  return true;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A journal of `count` tensors, left behind.
std::string leave(const fs::path& output, uint64_t count) {
  RunJournal journal(output, sample_identity());
  journal.keep(true);
  for (uint64_t i = 0; i < count; ++i) journal.add(sample_entry(i));
  return text_of(RunJournal::path_of(output));
}

/// Whether what is read are the first so many tensors.
bool holds(const std::optional<JournalContents>& contents, size_t at_most) {
  if (!contents) return true;
  if (!(contents->identity == sample_identity()) || contents->entries.size() > at_most) return false;
  for (size_t i = 0; i < contents->entries.size(); ++i) {
    if (!same(contents->entries[i], sample_entry(i))) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("what was written is read") {
  const TempDir dir;
  const fs::path output = dir.path() / "m.crumb";
  CHECK(!RunJournal::read(output));
  leave(output, 9);
  CHECK(RunJournal::path_of(output) == dir.path() / "m.crumb.partial.journal");
  const auto contents = RunJournal::read(output);
  REQUIRE(contents);
  CHECK(contents->entries.size() == 9);
  CHECK(contents->ends.size() == 9);
  CHECK(contents->ends.back() == fs::file_size(RunJournal::path_of(output)));
  CHECK(holds(contents, 9));
}

TEST_CASE("it stays only where it is kept") {
  const TempDir dir;
  const fs::path output = dir.path() / "m.crumb";
  { RunJournal journal(output, sample_identity()); }
  CHECK(!fs::exists(RunJournal::path_of(output)));
  leave(output, 2);
  CHECK(fs::exists(RunJournal::path_of(output)));
  { RunJournal journal(output, sample_identity()); }  // discards what was left
  CHECK(!fs::exists(RunJournal::path_of(output)));
}

TEST_CASE("a journal that goes on keeps what it is told to keep, and drops the rest") {
  const TempDir dir;
  const fs::path output = dir.path() / "m.crumb";
  const std::string whole = leave(output, 8);
  for (const size_t kept : {1, 4, 8}) {
    write(RunJournal::path_of(output), whole + "torn");
    const auto contents = RunJournal::read(output);
    REQUIRE(contents);
    {
      RunJournal journal(output, sample_identity(), contents->ends[kept - 1]);
      journal.keep(true);
      CHECK(RunJournal::read(output)->entries.size() == kept);
      for (uint64_t i = kept; i < 8; ++i) journal.add(sample_entry(i));
    }
    CHECK(text_of(RunJournal::path_of(output)) == whole);
  }
}

TEST_CASE("a torn journal gives what is whole") {
  const TempDir dir;
  const fs::path output = dir.path() / "m.crumb";
  const std::string whole = leave(output, 6);
  size_t most = 0;
  for (size_t length = 0; length <= whole.size(); ++length) {
    write(RunJournal::path_of(output), whole.substr(0, length));
    const auto contents = RunJournal::read(output);
    const auto lines =
        static_cast<size_t>(std::count(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length), '\n'));
    REQUIRE(contents.has_value() == (lines > 0));
    if (!contents) continue;
    REQUIRE(contents->entries.size() == lines - 1);
    REQUIRE(holds(contents, 6));
    most = std::max(most, contents->entries.size());
  }
  CHECK(most == 6);
}

TEST_CASE("no flipped bit is believed") {
  const TempDir dir;
  const fs::path output = dir.path() / "m.crumb";
  const std::string whole = leave(output, 4);
  for (size_t bit = 0; bit < whole.size() * 8; bit += crumb::testing::slow() ? 1 : 3) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    write(RunJournal::path_of(output), damaged);
    REQUIRE(holds(RunJournal::read(output), 4));
  }
}

TEST_CASE("lines out of turn, of another kind, and garbage end it") {
  const TempDir dir;
  const fs::path output = dir.path() / "m.crumb", path = RunJournal::path_of(output);
  const std::string whole = leave(output, 4);
  std::vector<std::string> lines;
  std::istringstream stream(whole);
  for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
  REQUIRE(lines.size() == 5);
  const auto entries = [&](const std::string& text) -> int {
    write(path, text);
    const auto contents = RunJournal::read(output);
    return contents ? static_cast<int>(contents->entries.size()) : -1;
  };
  CHECK(entries(lines[0] + lines[1] + lines[3]) == 1);  // one is missing
  CHECK(entries(lines[0] + lines[1] + lines[1]) == 1);  // one is there twice
  CHECK(entries(lines[0] + lines[2]) == 0);
  CHECK(entries(lines[1] + lines[0]) == -1);  // the first is no identity
  CHECK(entries(lines[0] + lines[0]) <= 0);
  CHECK(entries(lines[0] + "\n" + lines[1]) == 0);
  CHECK(entries("\n\n") == -1);
  CHECK(entries("") == -1);
  CHECK(entries(std::string(100000, '\0')) == -1);
  CHECK(entries(std::string(100000, '[') + "\n") == -1);
  std::mt19937 engine(1);
  for (int i = 0; i < 200; ++i) {
    std::string garbage(engine() % 300, '\0');
    for (char& c : garbage) c = static_cast<char>(engine());
    CHECK(entries(garbage) == -1);
    CHECK(entries(lines[0] + garbage) == 0);
  }
}

TEST_CASE("what differs is said") {
  const RunIdentity now = sample_identity();
  CHECK(difference(now, now).empty());
  const auto says_of = [&](auto change, std::initializer_list<const char*> parts) {
    RunIdentity then = sample_identity();
    change(then);
    return !(then == now) && says(difference(then, now), parts);
  };
  CHECK(says_of([](RunIdentity& i) { i.version = "0.9"; }, {"version", "0.9", "1.2.3"}));
  CHECK(says_of([](RunIdentity& i) { i.work = "shears them"; }, {"shears them", "sheep"}));
  CHECK(says_of([](RunIdentity& i) { i.work = ""; }, {"does not say", "sheep"}));
  CHECK(says_of([](RunIdentity& i) { i.recipe += "zstd: 3\n"; }, {"recipe", "zstd: 3"}));
  CHECK(says_of([](RunIdentity& i) { i.plan ^= 1; }, {"plan"}));
  CHECK(says_of([](RunIdentity& i) { i.inputs[0].size += 1; }, {"input", "safetensors", "it held"}));
  CHECK(says_of([](RunIdentity& i) { i.inputs[0].modified_ns -= 1; }, {"input", "modified since"}));
  CHECK(says_of([](RunIdentity& i) { i.inputs[0].modified_ns += 1; }, {"input", "older date"}));
  CHECK(says_of([](RunIdentity& i) { i.inputs[0].changed_ns -= 1; }, {"input", "replaced"}));
  CHECK(says_of([](RunIdentity& i) { i.inputs[1].crc ^= 1; }, {"config.json", "contents"}));
  CHECK(says_of([](RunIdentity& i) { i.inputs[1].name = "vocab.txt"; }, {"config.json", "vocab.txt"}));
  CHECK(says_of([](RunIdentity& i) { i.inputs.pop_back(); }, {"new file", "config.json"}));
  CHECK(says_of([](RunIdentity& i) { i.inputs.push_back({"more", 1, 0, 0, 0}); }, {"lacks", "more"}));
}

TEST_CASE("what cannot be written is an error, and links are not followed") {
  const TempDir dir;
  const fs::path output = dir.path() / "m.crumb", path = RunJournal::path_of(output);
  CHECK_THROWS_AS(RunJournal("/nowhere/m.crumb", sample_identity()), crumb::Error);
  fs::create_directory(path);
  CHECK_THROWS_AS(RunJournal(output, sample_identity()), crumb::Error);
  fs::remove(path);
  write(dir.path() / "victim", "precious");
  fs::create_symlink(dir.path() / "victim", path);
  CHECK_THROWS_AS(RunJournal(output, sample_identity()), crumb::Error);
  CHECK(text_of(dir.path() / "victim") == "precious");
}
