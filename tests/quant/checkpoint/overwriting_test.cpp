// Inputs are never written over, whatever name leads to them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "quant/checkpoint/checkpoint_run.h"
#include "quant/checkpoint/run_journal.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace fs = std::filesystem;

TEST_CASE("an output that is one of the inputs, or is written beside itself over one, is refused") {
  const crumb::testing::TempDir dir;
  const fs::path input = dir.path() / "in", other = dir.path() / "other", link = dir.path() / "link";
  const fs::path hard = dir.path() / "hard", fresh = dir.path() / "fresh";
  for (const fs::path& path : {input, other}) std::ofstream(path) << "x";
  fs::create_symlink(input, link);
  fs::create_hard_link(input, hard);
  const auto refusal = [&](const fs::path& output) -> std::string {
    try {
      crumb::refuse_overwriting_inputs({other, input}, output);
    } catch (const crumb::Error& error) {
      return error.what();
    }
    return "";
  };
  for (const fs::path& same : {input, other, link, hard, dir.path() / "." / "in"})
    CHECK(crumb::testing::says(refusal(same), {"is one of the inputs", "never modified"}));
  std::ofstream(fresh) << "y";
  for (const fs::path& free : {fresh, dir.path() / "absent", dir.path() / "no" / "folder"})
    CHECK(refusal(free) == "");
  // What an output is written to before it is whole, and what its run notes.
  const fs::path output = dir.path() / "output";
  for (const fs::path& beside :
       {fs::path(output.string() + ".partial"), crumb::RunJournal::path_of(output)}) {
    fs::create_hard_link(input, beside);
    CHECK(crumb::testing::says(refusal(output), {"first written with", beside.filename().c_str()}));
    fs::remove(beside);
  }
  CHECK(refusal(output) == "");
}
