// Folders that appear whole or not at all: what stays, what goes, and who is told.
#include "base/files/new_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/partial.h"
#include "base/files/write_text_file.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;
using testing::says;
using testing::TempDir;

void put_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string got(const fs::path& path) { return read_text_file(path, 1 << 20).take(); }

/// Relative names of all that a folder holds, sorted.
std::vector<std::string> names_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.push_back(entry.path().lexically_relative(folder).generic_string());
  std::ranges::sort(names);
  return names;
}

std::string refused(const fs::path& target, const NewFolder::CheckOwn& own = {}) {
  try {
    const NewFolder folder(target, own);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool is_marked(const fs::path& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0 && is_marked_partial(info);
}

TEST_CASE("a folder appears at commit with all that is in it, or is gone without") {
  const TempDir dir;
  const fs::path target = dir.path() / "a" / "b" / "out";
  {
    const NewFolder folder(target);
    write_text_file(folder.path() / "one", "1");
    CHECK(is_marked(folder.path()));
    CHECK_FALSE(fs::exists(target));
  }
  CHECK(names_below(dir.path()).empty());  // nor the parents that were made
  NewFolder folder(target);
  write_text_file(folder.path() / "one", "1");
  fs::create_directory(folder.path() / "in");
  write_text_file(folder.path() / "in" / "two", "2");
  folder.commit();
  CHECK(names_below(dir.path()) ==
        std::vector<std::string>{"a", "a/b", "a/b/out", "a/b/out/in", "a/b/out/in/two", "a/b/out/one"});
  CHECK_FALSE(is_marked(target));
  CHECK_THROWS_AS(folder.commit(), Error);
}

TEST_CASE("an empty folder is filled, through links and other spellings; one that holds anything stays") {
  const TempDir dir;
  fs::create_directory(dir.path() / "real");
  fs::create_directory_symlink("real", dir.path() / "link");
  {
    NewFolder folder(dir.path() / "link" / "");
    write_text_file(folder.path() / "one", "1");
    folder.commit();
  }
  CHECK(fs::is_symlink(dir.path() / "link"));
  CHECK(got(dir.path() / "real" / "one") == "1");
  for (const char* name : {"link", "real", "real/", "real/../link"})
    CHECK(says(refused(dir.path() / name), {"exists and is no empty folder"}));
  put_text(dir.path() / "file", "mine");
  CHECK(says(refused(dir.path() / "file"), {"exists and is no empty folder"}));
  CHECK(says(refused(dir.path() / "file" / "in"), {"is a file"}));
  fs::create_symlink("nowhere", dir.path() / "loose");
  CHECK(says(refused(dir.path() / "loose"), {"symbolic link to nothing"}));
  CHECK(says(refused(""), {"a name is expected"}));
  CHECK(got(dir.path() / "file") == "mine");
}

TEST_CASE("what lies where the folder is made and no run left there is somebody else's") {
  const TempDir dir;
  const fs::path target = dir.path() / "out", building = dir.path() / "out.partial";
  fs::create_directory(building);
  put_text(building / "thesis", "years");
  CHECK(says(refused(target), {"out'", "out.partial'", "no run of crumb left there"}));
  CHECK(got(building / "thesis") == "years");
  fs::remove_all(building);
  put_text(building, "a file");
  CHECK(says(refused(target), {"no run of crumb left there"}));
  fs::remove(building);
  fs::create_directory(dir.path() / "elsewhere");
  put_text(dir.path() / "elsewhere" / "x", "mine");
  fs::create_directory_symlink("elsewhere", building);
  CHECK(says(refused(target), {"no run of crumb left there"}));
  CHECK(got(dir.path() / "elsewhere" / "x") == "mine");
  fs::remove(building);
  fs::create_directory(building);  // an empty one loses nothing
  CHECK(refused(target) == "no error");
}

TEST_CASE("two runs at once: the second is told who works there, and the first one's files stay") {
  const TempDir dir;
  const fs::path target = dir.path() / "out";
  NewFolder first(target);
  write_text_file(first.path() / "one", "1");
  const std::string why = refused(target);
  CHECK(says(why, {"another run is writing it now", "out.partial"}));
  CHECK(says(why, {("process " + std::to_string(::getpid())).c_str()}));
  CHECK(got(first.path() / "one") == "1");
  first.commit();
  CHECK(got(target / "one") == "1");
}

TEST_CASE("what a killed run left is taken over, whenever it was killed") {
  std::mt19937 engine(5);
  for (int round = 0; round < 20; ++round) {
    const TempDir dir;
    const fs::path target = dir.path() / "out";
    const unsigned files = engine() % 4;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const NewFolder folder(target);
      for (unsigned i = 0; i < files; ++i) write_text_file(folder.path() / std::to_string(i), "half");
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(fs::exists(dir.path() / "out.partial"));
    NewFolder folder(target);
    CHECK(names_below(folder.path()).empty());
    write_text_file(folder.path() / "whole", "w");
    folder.commit();
    CHECK(names_below(dir.path()) == std::vector<std::string>{"out", "out/whole"});
  }
}

TEST_CASE("an own folder is exchanged for the new one at commit, and for nothing without") {
  const TempDir dir;
  const fs::path target = dir.path() / "out";
  const auto own = [](const fs::path& folder) {
    if (names_below(folder) != std::vector<std::string>{"old"}) throw Error("it holds other things");
  };
  fs::create_directory(target);
  put_text(target / "old", "o");
  {
    const NewFolder folder(target, own);
    write_text_file(folder.path() / "new", "n");
  }
  CHECK(names_below(dir.path()) == std::vector<std::string>{"out", "out/old"});
  {
    NewFolder folder(target, own);
    write_text_file(folder.path() / "old", "new");
    put_text(target / "mine", "m");  // came meanwhile
    CHECK_THROWS_AS(folder.commit(), Error);
  }
  CHECK(got(target / "mine") == "m");
  CHECK(got(target / "old") == "o");
  fs::remove(target / "mine");
  NewFolder folder(target, own);
  write_text_file(folder.path() / "old", "new");
  folder.commit();
  CHECK(names_below(dir.path()) == std::vector<std::string>{"out", "out/old"});
  CHECK(got(target / "old") == "new");
  CHECK_FALSE(is_marked(target));
}

TEST_CASE("an old folder that a killed run put aside comes back") {
  const TempDir dir;
  const fs::path aside = dir.path() / "out.partial.old";
  fs::create_directory(aside);
  put_text(aside / "old", "o");
  CHECK(says(refused(dir.path() / "out"), {"no run of crumb left there"}));
  REQUIRE(::chmod(aside.c_str(), 0755 | kPartialMark) == 0);
  CHECK(says(refused(dir.path() / "out"), {"exists and is no empty folder"}));
  CHECK(got(dir.path() / "out" / "old") == "o");
}

TEST_CASE("a folder that is, holds or lies in an input is refused, by links and other spellings too") {
  const TempDir dir;
  const fs::path model = dir.path() / "model";
  fs::create_directories(model / "sub");
  put_text(model / "weights", "w");
  fs::create_directory_symlink("model", dir.path() / "link");
  const auto anything = [](const fs::path&) {};
  std::optional<InputWatch> watch(std::in_place);
  const MappedFile weights = MappedFile::open(model / "weights").take();
  for (const char* name : {"model", "link", "link/", "model/../link", "model/."})
    CHECK(says(refused(dir.path() / name, anything), {"holds the input", "weights", "never modified"}));
  CHECK(says(refused(dir.path(), anything), {"holds the input"}));
  CHECK(refused(model / "sub", anything) == "no error");  // beside the file that is read
  CHECK(refused(model / "free") == "no error");
  watch.reset();
  watch.emplace();
  note_input_folder(dir.path() / "link");
  for (const char* name : {"model/sub", "link/sub", "model/new", "link/new/er"})
    CHECK(says(refused(dir.path() / name, anything), {"lies in the input", "link"}));
  CHECK(says(refused(dir.path() / "model", anything), {"is one of the inputs"}));
  CHECK(says(refused(dir.path(), anything), {"holds the input"}));
  CHECK(got(model / "weights") == "w");
}

TEST_CASE("a folder that holds an input under another name is not replaced") {
  const TempDir dir;
  for (const char* folder : {"in", "out"}) fs::create_directory(dir.path() / folder);
  put_text(dir.path() / "in" / "config", "c");
  fs::create_hard_link(dir.path() / "in" / "config", dir.path() / "out" / "config");
  const InputWatch watch;
  (void)MappedFile::open(dir.path() / "in" / "config");
  CHECK(says(refused(dir.path() / "out", [](const fs::path&) {}), {"out/config", "is one of the inputs"}));
  CHECK(got(dir.path() / "out" / "config") == "c");
}

TEST_CASE("an input that an announced folder would replace is refused when it is opened") {
  const TempDir dir;
  const fs::path model = dir.path() / "model";
  fs::create_directories(model / "sub");
  put_text(model / "sub" / "weights", "w");
  const InputWatch watch;
  claim_new_folder(model, [](const fs::path&) {});
  const auto opening = [&](const fs::path& path) -> std::string {
    try {
      (void)MappedFile::open(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(says(opening(model / "sub" / "weights"), {"the output", "model'", "holds the input", "weights"}));
  const OwnFiles own;
  CHECK(opening(model / "sub" / "weights").empty());
}

}  // namespace
}  // namespace crumb
