// Outputs are kept apart from inputs, whatever names lead to them and whichever is known first.
#include "base/files/inputs.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/files/mapped_file.h"
#include "base/files/new_folder.h"
#include "base/files/output_file.h"
#include "base/files/output_place.h"
#include "base/files/write_text_file.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;
using testing::says;
using testing::TempDir;

void make_file(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

std::string held(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Work>
std::string refusal_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

/// Every way to name the input `in` of a folder that has been prepared, and whether its bytes would go.
const std::vector<std::string> kNames = {"in", "./in", "sub/../in", "link", "hard", "sub/chain"};

void prepare(const fs::path& dir) {
  make_file(dir / "in", "input");
  make_file(dir / "other", "other");
  fs::create_directory(dir / "sub");
  fs::create_symlink("in", dir / "link");
  fs::create_hard_link(dir / "in", dir / "hard");
  fs::create_symlink("../link", dir / "sub" / "chain");
}

TEST_CASE("an output that is an input is refused in either order, by every name") {
  for (const std::string& read : kNames) {
    for (const std::string& written : kNames) {
      const TempDir dir;
      prepare(dir.path());
      for (const bool maps : {false, true}) {
        const auto open = [&] {
          if (maps)
            (void)MappedFile::open(dir.path() / read);
          else
            (void)InputFile::open(dir.path() / read);
        };
        {
          const InputWatch watch;
          open();
          CHECK(says(refusal_of([&] { OutputFile file(dir.path() / written); }),
                     {"is one of the inputs", "never modified"}));
        }
        const InputWatch watch;
        claim_output(dir.path() / written);
        CHECK(says(refusal_of(open), {"is one of the inputs", "never modified"}));
        write_text_file(dir.path() / "other", "new");
      }
      CHECK(held(dir.path() / "in") == "input");
      CHECK(held(dir.path() / "other") == "new");
    }
  }
}

TEST_CASE("what is written beside an output is none of the inputs either") {
  const TempDir dir;
  prepare(dir.path());
  fs::create_hard_link(dir.path() / "in", dir.path() / "out.partial");
  const InputWatch watch;
  (void)MappedFile::open(dir.path() / "in");
  CHECK(says(refusal_of([&] { OutputFile file(dir.path() / "out"); }),
             {"first written with", "out.partial", "is one of the inputs"}));
  CHECK(held(dir.path() / "in") == "input");
}

TEST_CASE("without a watch nothing is remembered, and what a run made or continues is no input") {
  const TempDir dir;
  prepare(dir.path());
  (void)MappedFile::open(dir.path() / "in");
  write_text_file(dir.path() / "in", "new");
  CHECK(held(dir.path() / "in") == "new");
  const InputWatch watch;
  for (int round = 0; round < 3; ++round) {  // written, read back, written again
    write_text_file(dir.path() / "made", std::to_string(round));
    CHECK(read_text_file(dir.path() / "made", 100).take() == std::to_string(round));
  }
  {
    const OwnFiles own;
    CHECK(read_text_file(dir.path() / "other", 100).take() == "other");
  }
  write_text_file(dir.path() / "other", "continued");
  CHECK(held(dir.path() / "other") == "continued");
}

TEST_CASE("a file in an input folder is refused, and one beside a file that is read is not") {
  const TempDir dir;
  prepare(dir.path());
  fs::create_directory(dir.path() / "model");
  fs::create_directory_symlink("model", dir.path() / "alias");
  make_file(dir.path() / "model" / "weights", "w");
  {
    const InputWatch watch;
    (void)MappedFile::open(dir.path() / "model" / "weights");
    write_text_file(dir.path() / "model" / "beside", "b");
  }
  const InputWatch watch;
  note_input_folder(dir.path() / "alias");
  for (const char* folder : {"model", "alias"})
    CHECK(says(refusal_of([&] { OutputFile file(dir.path() / folder / "out"); }),
               {"lies in the input", "alias"}));
  claim_output(dir.path() / "sub" / "out");
  CHECK(says(refusal_of([&] { note_input_folder(dir.path() / "sub"); }), {"lies in the input", "sub"}));
}

TEST_CASE("files that no reader of folders takes may lie in an input folder, unless they are inputs") {
  const TempDir dir;
  fs::create_directories(dir.path() / "model" / "sub");
  make_file(dir.path() / "model" / "weights", "w");
  make_file(dir.path() / "model" / "read.gguf", "g");
  const InputWatch watch;
  claim_output(dir.path() / "model" / "announced.crumb");
  note_input_folder(dir.path() / "model");
  (void)MappedFile::open(dir.path() / "model" / "read.gguf");
  for (const char* name : {"new.crumb", "new.gguf", "sub/new.crumb"}) {
    const fs::path path = dir.path() / "model" / name;
    for (const char* text : {"first", "second"}) {
      write_text_file(path, text);
      CHECK(held(path) == text);
    }
  }
  CHECK(says(refusal_of([&] { write_text_file(dir.path() / "model" / "read.gguf", "x"); }),
             {"is one of the inputs"}));
  CHECK(
      says(refusal_of([&] { write_text_file(dir.path() / "model" / "crumb", "x"); }), {"lies in the input"}));
  CHECK(says(refusal_of([&] { claim_new_folder(dir.path() / "model" / "folder.crumb"); }),
             {"lies in the input"}));
  CHECK(held(dir.path() / "model" / "weights") == "w");
  CHECK(held(dir.path() / "model" / "read.gguf") == "g");
}

TEST_CASE("drawn reads and writes: inputs keep their bytes, whatever is refused") {
  std::mt19937 engine(11);
  for (int round = 0; round < 300; ++round) {
    const TempDir dir;
    prepare(dir.path());
    const InputWatch watch;
    std::vector<std::string> names = kNames;
    names.insert(names.end(), {"other", "sub/new", "hard.partial"});
    bool reads_in = false;
    for (int step = 0; step < 6; ++step) {
      const fs::path path = dir.path() / names[engine() % names.size()];
      try {
        if (engine() % 2 == 0) {
          (void)MappedFile::open(path);
          std::error_code ignored;
          reads_in =
              reads_in || (fs::equivalent(path, dir.path() / "hard", ignored) && held(path) == "input");
        } else {
          write_text_file(path, "overwritten");
        }
      } catch (const Error&) {  // refused
      }
      if (reads_in) CHECK(held(dir.path() / "hard") == "input");
    }
  }
}

TEST_CASE("a place that cannot hold what comes is known before") {
  const TempDir dir;
  make_file(dir.path() / "file", "x");
  const auto why = [](const auto& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(why([&] { require_space(dir.path() / "out", 1000, 1000); }).empty());
  CHECK(says(why([&] { require_space(dir.path() / "no" / "out", std::uint64_t{1} << 62, 1); }),
             {"out'", "are free in"}));
  CHECK(says(why([&] { check_output_folder(dir.path() / "file" / "x"); }), {"is a file"}));
  CHECK(why([&] { check_output_folder(dir.path() / "new" / "x"); }).empty());
  CHECK(says(why([&] { check_output(dir.path() / "no" / "out"); }), {"does not exist"}));
  CHECK(why([&] { check_output(dir.path() / "out"); }).empty());
  CHECK_FALSE(fs::exists(dir.path() / "out.partial"));
  const OutputFile busy(dir.path() / "out");
  CHECK(says(why([&] { check_output(dir.path() / "out"); }), {"another run is writing it now", "process "}));
}

}  // namespace
}  // namespace crumb
