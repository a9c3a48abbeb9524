// Packed files that become shorter while they are open: an error where the system tells, not a signal.
#include <doctest/doctest.h>

#include <string>

#include "base/files/mapped_pages.h"
#include "tests/formats/crumb_file/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

using testing::TempDir;

/// Linux before 5.14 tells nothing.
bool system_tells(const TempDir& folder) {
  const auto path = folder.path() / "probe";
  testing::write_all(path, std::string(100'000, 'x'));
  const MappedFile file = MappedFile::open(path).take();
  CHECK(check_readable(file.bytes()).ok());
  CHECK(check_readable(file.bytes().subspan(5000, 1)).ok());
  CHECK(check_readable({}).ok());
  std::filesystem::resize_file(path, 50);
  CHECK(check_readable(file.bytes().first(50)).ok());
  return !check_readable(file.bytes().subspan(5000, 1)).ok() && !check_readable(file.bytes()).ok();
}

TEST_CASE("packed file, cut short while it is open: what is gone is an error") {
  const TempDir folder;
  if (!system_tells(folder))
    return testing::skip("this system does not tell of pages that are gone (Linux 5.14)");
  const auto path = folder.path() / "m.crumb";
  for (const int level : {0, 3}) {
    const std::string good = testing::write_sample(path, {{"w", {1200, 1300}, ""}}, level);
    const CrumbFile file = CrumbFile::open(path).take();
    const Blob blob = *file.header().tensors[0].part(Part::kData);
    REQUIRE(blob.stored > uint64_t{3} << 20);
    const auto refused = [&](const Status& status) {
      REQUIRE(!status.ok());
      CHECK(status.failure().message.find("a blob: ") != std::string::npos);
      CHECK(status.failure().message.find("cut short") != std::string::npos);
    };
    // While it is summed, and while it is handed out.
    const auto cut_at = [&](uint64_t size) { std::filesystem::resize_file(path, size); };
    int slices = 0;
    refused(file.read_slices(blob, "a blob", [&](std::span<const std::byte>) {
      if (++slices == 1) cut_at(uint64_t{2} << 20);
      return Status();
    }));
    CHECK(slices >= 1);
    refused(file.check_blob(blob, "a blob"));
    const Result<BlobBytes> loaded = file.load(blob, "a blob");
    REQUIRE(!loaded.ok());
    CHECK(loaded.failure().message.find("cut short") != std::string::npos);
    CHECK(!check_packed_file(file).ok());
    // Its place is there again, and the bytes are not.
    cut_at(good.size());
    CHECK(!check_packed_file(file).ok());
  }
}

}  // namespace
}  // namespace crumb
