#include "training/run_folder.h"

#include <exception>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb::training {

namespace fs = std::filesystem;

fs::path report_in(const fs::path& folder) { return folder / "report.json"; }

RunFolder::RunFolder(fs::path folder, bool restart) : folder_(std::move(folder)) {
  std::error_code error;
  is_new_ = fs::create_directories(folder_, error);
  if (!fs::is_directory(folder_, error)) {
    throw Error("the folder " + quote_text(folder_.string()) +
                " cannot be made: " + (error ? error.message() : "a file has that name"));
  }
  if (restart) drop_state();
}

RunFolder::~RunFolder() {
  // Of several processes one writes, and the others are done before it.
  const bool fails = std::uncaught_exceptions() > exceptions_;
  std::error_code error;
  if (is_new_ && fails) fs::remove(folder_, error);  // does nothing where something is in it
}

void RunFolder::drop_state() const {
  std::error_code error;
  fs::remove(state(), error);
  fs::remove(state().string() + ".partial", error);  // of a run that was killed while it wrote
}

void RunFolder::drop_report() const {
  std::error_code error;
  fs::remove(report(), error);
}

}  // namespace crumb::training
