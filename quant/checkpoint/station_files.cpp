#include "quant/checkpoint/station_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files/inputs.h"
#include "base/files/partial.h"
#include "base/files/text.h"
#include "base/text/number.h"
#include "quant/checkpoint/run_journal.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 5;  // of a file's number, at least

/// Of a file called as path() calls them, finished or not, its number.
std::optional<std::size_t> station_of(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t digits = name.find_first_not_of("0123456789");
  if (digits == std::string::npos || digits < kDigits) return std::nullopt;
  const std::string rest = name.substr(digits);
  if (rest != ".crumb" && rest != ".crumb.partial") return std::nullopt;
  return parse_number<std::size_t>(name.substr(0, digits));
}

}  // namespace

StationFiles::StationFiles(const fs::path& output)
    : folder_(RunJournal::path_of(output).replace_extension("layers")) {}

fs::path StationFiles::path(std::size_t station) const {
  std::string number = std::to_string(station);
  if (number.size() < kDigits) number.insert(0, kDigits - number.size(), '0');
  return folder_ / (number + ".crumb");
}

void StationFiles::make_folder() const {
  if (::mkdir(folder_.c_str(), 0777 | kPartialMark) != 0 && (errno != EEXIST || !fs::is_directory(folder_)))
    throw Error("cannot make the folder " + quote_text(folder_.string()) + ": " + errno_text(errno));
}

void StationFiles::remove_from(std::size_t station) const {
  std::vector<fs::path> gone;
  struct stat info = {};
  const bool is_own = ::lstat(folder_.c_str(), &info) == 0 && is_marked_partial(info);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored))
    if (const auto number = station_of(entry.path()); number && *number >= station)
      gone.push_back(entry.path());
  if (!gone.empty() && !is_own)
    throw Error("codes of layers on their way lie in " + quote_text(folder_.native()) +
                ", which exists and which no run of crumb left there; move it away or choose another output");
  for (const fs::path& path : gone) refuse_input(path);
  for (const fs::path& path : gone) fs::remove(path, ignored);
  fs::remove(folder_, ignored);  // where nothing is in it
}

}  // namespace crumb
