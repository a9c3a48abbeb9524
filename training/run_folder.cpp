#include "training/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/partial.h"
#include "base/files/text.h"

namespace crumb::training {

namespace fs = std::filesystem;

fs::path report_in(const fs::path& folder) { return folder / "report.json"; }

RunFolder::RunFolder(fs::path folder, bool restart, bool writes) : folder_(std::move(folder)) {
  std::error_code error;
  is_new_ = fs::create_directories(folder_, error);
  std::error_code none;
  if (!fs::is_directory(folder_, none)) {
    throw Error("the folder " + quote_text(folder_.string()) +
                " cannot be made: " + (fs::exists(folder_, none) ? "a file has that name" : error.message()));
  }
  if (writes && ::access(folder_.c_str(), W_OK) != 0)
    throw Error("cannot write into the folder " + quote_text(folder_.string()) + ": " + std::strerror(errno));
  if (writes) lock();
  if (restart) drop_state();
}

void RunFolder::lock() {
  lock_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat info = {};
  if (lock_ < 0 || lock_now(lock_, folder_) != LockState::kBusy || ::fstat(lock_, &info) != 0) return;
  ::close(std::exchange(lock_, -1));
  throw Error("another run is writing into " + quote_text(folder_.string()) + " now (it is locked by " +
              holder_of_lock(info) + ")");
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
  // Of several processes one writes, and the others are done before it.
  const bool fails = std::uncaught_exceptions() > exceptions_;
  std::error_code error;
  if (is_new_ && fails) fs::remove(folder_, error);  // does nothing where something is in it
}

void RunFolder::drop_state() const {
  std::error_code error;
  const fs::path partial = partial_path_of(state());  // of a run that was killed while it wrote
  refuse_input(state());
  fs::remove(state(), error);
  struct stat info = {};
  if (::lstat(partial.c_str(), &info) != 0 || !is_marked_partial(info)) return;
  refuse_input(partial, state());
  fs::remove(partial, error);
}

void RunFolder::drop_report() const {
  std::error_code error;
  refuse_input(report());
  fs::remove(report(), error);
}

}  // namespace crumb::training
