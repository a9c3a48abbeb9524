// The test facilities themselves.
#include "tests/support/testing.h"

#include <doctest/doctest.h>

namespace fs = std::filesystem;

TEST_CASE("testing: the repository root is where the rooms are") {
  CHECK(fs::exists(crumb::testing::repo_root() / "base" / "error.h"));
}

TEST_CASE("testing: a temporary folder is there and then gone") {
  fs::path path;
  {
    const crumb::testing::TempDir folder;
    path = folder.path();
    CHECK(fs::is_empty(path));
  }
  CHECK_FALSE(fs::exists(path));
}
