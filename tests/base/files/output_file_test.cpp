#include "base/files/output_file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) { return read_text_file(path, 1 << 20).take(); }

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

std::string message_of(const fs::path& target) {
  try {
    OutputFile file(target);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a file appears at commit, whole, in place of the old one") {
  const testing::TempDir dir;
  const fs::path target = dir.path() / "out";
  write_text(target, "old");
  {
    OutputFile file(target);
    file.append("hello ");
    file.append("world");
    file.write_at(0, std::as_bytes(std::span("J", 1)));
    CHECK(file.size() == 11);
    file.pad_to(8);
    CHECK(file.size() == 16);
    file.write_at(18, std::as_bytes(std::span("!", 1)));
    CHECK(text_of(target) == "old");
    file.commit();
    CHECK(text_of(target) == std::string("Jello world\0\0\0\0\0\0\0!", 19));
    CHECK_THROWS_AS(file.append("more"), Error);
    CHECK_THROWS_AS(file.commit(), Error);
  }
  CHECK(entries(dir.path()) == 1);
}

TEST_CASE("without commit nothing changes, whatever a killed run left") {
  const testing::TempDir dir;
  const fs::path target = dir.path() / "out", partial = dir.path() / "out.partial";
  const auto leave = [&] {
    OutputFile file(target);
    file.append("a long rest of a run that was killed");
    file.keep_partial();
  };
  write_text(target, "old");
  leave();
  { OutputFile(target).append("new"); }
  CHECK(text_of(target) == "old");
  CHECK(entries(dir.path()) == 1);
  leave();
  OutputFile file(target);
  file.append("new");
  file.commit();
  CHECK(text_of(target) == "new");
  struct stat info = {};
  REQUIRE(::stat(target.c_str(), &info) == 0);
  CHECK((info.st_mode & S_ISVTX) == 0);
}

TEST_CASE("a partial file without the mark is somebody else's, unless who continues it knows it") {
  const testing::TempDir dir;
  const fs::path target = dir.path() / "out", partial = dir.path() / "out.partial";
  write_text(target, "old");
  write_text(partial, "another tool's download");
  CHECK(message_of(target).find("no run of crumb left there") != std::string::npos);
  CHECK(text_of(partial) == "another tool's download");
  {
    OutputFile file(target, LeftOver::kContinue);
    CHECK(file.size() == 23);
    file.keep_partial();
  }
  CHECK(message_of(target) == "no error");  // whose it is now
  write_text(partial, "");
  CHECK(message_of(target) == "no error");
  fs::create_symlink(target, partial);
  CHECK(message_of(target).find("symbolic link") != std::string::npos);
  CHECK(text_of(target) == "old");
  fs::remove(partial);
  fs::create_directory(partial);
  CHECK(message_of(target) != "no error");
}

TEST_CASE("another name of a partial file keeps what it holds") {
  const testing::TempDir dir;
  const fs::path target = dir.path() / "out";
  {
    OutputFile file(target);
    file.append("left");
    file.keep_partial();
  }
  fs::create_hard_link(dir.path() / "out.partial", dir.path() / "snapshot");
  CHECK_THROWS_AS(OutputFile(target, LeftOver::kContinue), Error);
  OutputFile file(target);
  file.append("new");
  file.commit();
  CHECK(text_of(dir.path() / "snapshot") == "left");
  CHECK(text_of(target) == "new");
}

TEST_CASE("a second run into the same output is refused and harms nothing") {
  const testing::TempDir dir;
  const fs::path target = dir.path() / "out";
  OutputFile first(target);
  first.append("first");
  CHECK(message_of(target).find("another run is writing it") != std::string::npos);
  CHECK(message_of(target).find("process " + std::to_string(::getpid())) != std::string::npos);
  CHECK(text_of(dir.path() / "out.partial") == "first");
  OutputFile moved = std::move(first);
  moved.commit();
  CHECK(text_of(target) == "first");
  OutputFile second(target);
  second.append("second");
  second.commit();
  CHECK(text_of(target) == "second");
}

TEST_CASE("a target that cannot be a file is refused before anything is written") {
  const testing::TempDir dir;
  CHECK(message_of(dir.path()).find("folder") != std::string::npos);
  CHECK(message_of(dir.path() / "none" / "out").find("does not exist") != std::string::npos);
  CHECK(message_of("").find("file name") != std::string::npos);
  CHECK(message_of(dir.path() / "").find("cannot write") != std::string::npos);
  CHECK(message_of("/dev/null").find("not a regular file") != std::string::npos);
  write_text(dir.path() / "file", "x");
  CHECK(message_of(dir.path() / "file" / "out").find("does not exist") != std::string::npos);
}

TEST_CASE("a symbolic link keeps being one, and the umask gives the mode") {
  const testing::TempDir dir;
  write_text(dir.path() / "real", "old");
  fs::create_symlink("real", dir.path() / "link");
  const mode_t before = ::umask(027);
  OutputFile file(dir.path() / "link");
  ::umask(before);
  file.append("new");
  file.commit();
  CHECK(fs::is_symlink(dir.path() / "link"));
  CHECK(text_of(dir.path() / "real") == "new");
  struct stat info = {};
  REQUIRE(::stat((dir.path() / "real").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777u) == 0640u);
}

TEST_CASE("an interruption is thrown where work writes, and the old file stays") {
  const testing::TempDir dir;
  const fs::path target = dir.path() / "out";
  write_text(target, "old");
  {
    OutputFile file(target);
    file.append("new");
    interrupt_requested() = true;
    CHECK_THROWS_AS(file.append("more"), Interrupted);
    CHECK_THROWS_AS(file.commit(), Interrupted);
    interrupt_requested() = false;
  }
  CHECK(text_of(target) == "old");
  CHECK(entries(dir.path()) == 1);
}

TEST_CASE("a disk that is full is reported by name, and commit refuses") {
  const testing::TempDir dir;
  const fs::path target = dir.path() / "out";
  write_text(target, "old");
  struct rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string message = "no error";
  bool refused = false;
  {
    OutputFile file(target);
    const std::vector<std::byte> bytes(10'000);
    try {
      file.append(bytes);
    } catch (const Error& error) {
      message = error.what();
    }
    try {
      file.commit();
    } catch (const Error&) {
      refused = true;
    }
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(message.find("File too large") != std::string::npos);
  CHECK(message.find("out") != std::string::npos);
  CHECK(refused);
  CHECK(text_of(target) == "old");
}

TEST_CASE("a run that is killed leaves the old file, and the next run goes on") {
  const testing::TempDir dir;
  const fs::path target = dir.path() / "out";
  write_text(target, "old");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    OutputFile file(target);
    file.append("half");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(text_of(target) == "old");
  OutputFile file(target);
  file.append("new");
  file.commit();
  CHECK(text_of(target) == "new");
  CHECK(entries(dir.path()) == 1);
}

}  // namespace
}  // namespace crumb
