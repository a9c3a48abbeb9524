#include "base/files/new_folder.h"

#include "base/error.h"
#include "base/files/text.h"

namespace crumb {

namespace fs = std::filesystem;

NewFolder::NewFolder(fs::path target) : target_(std::move(target)) {
  std::error_code error;
  if (!target_.has_filename()) target_ = target_.parent_path();  // "folder/"
  if (fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error))) {
    throw usage_error("the output " + quote_text(target_.string()) +
                      " exists and is no empty folder; choose another, or remove it");
  }
  building_ = target_;
  building_ += ".partial";
  fs::remove_all(building_, error);
  fs::create_directories(building_, error);
  if (error) throw Error("cannot make the folder " + quote_text(building_.string()) + ": " + error.message());
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!building_.empty()) fs::remove_all(building_, ignored);
}

void NewFolder::commit() {
  std::error_code error;
  fs::remove(target_, error);  // an empty folder
  fs::rename(building_, target_, error);
  if (error) throw Error("cannot make the folder " + quote_text(target_.string()) + ": " + error.message());
  building_.clear();
}

}  // namespace crumb
