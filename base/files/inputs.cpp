#include "base/files/inputs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

struct Identity {
  std::uint64_t device = 0, inode = 0;
  std::int64_t born = 0;  ///< ns; 0 where the file system does not know it. Inode numbers come again.

  auto operator<=>(const Identity&) const = default;
};

struct Found {
  Identity identity;
  bool is_named = true;  ///< false for a file without a name, such as one that is already removed
};

std::optional<Found> found(int folder, const char* path, int flags) {
  struct statx info = {};
  if (::statx(folder, path, flags, STATX_BASIC_STATS | STATX_BTIME, &info) != 0) return std::nullopt;
  const bool knows_birth = (info.stx_mask & STATX_BTIME) != 0;
  return Found{.identity = {.device = std::uint64_t{info.stx_dev_major} << 32 | info.stx_dev_minor,
                            .inode = info.stx_ino,
                            .born = knows_birth ? info.stx_btime.tv_sec * 1'000'000'000 +
                                                      static_cast<std::int64_t>(info.stx_btime.tv_nsec)
                                                : 0},
               .is_named = info.stx_nlink > 0};
}

std::optional<Identity> identity_at(const fs::path& path) {
  const auto there = found(AT_FDCWD, path.c_str(), 0);
  return there ? std::optional(there->identity) : std::nullopt;
}

/// Returns the identity of the name itself, where it is a link.
std::optional<Identity> identity_of_name(const fs::path& path) {
  const auto there = found(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW);
  return there ? std::optional(there->identity) : std::nullopt;
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real;
}

/// Returns the folders that a path lies in, the nearest first.
std::vector<Identity> folders_around(const fs::path& path) {
  std::vector<Identity> around;
  fs::path at = resolved(path);
  if (!at.has_filename()) at = at.parent_path();
  if (at.is_relative()) at = fs::absolute(at);
  while (at.has_relative_path()) {
    at = at.parent_path();
    if (const auto identity = identity_at(at)) around.push_back(*identity);
  }
  return around;
}

using Names = std::map<Identity, std::string>;

struct Books {
  std::mutex mutex;
  int watches = 0;
  Names files, folders;        ///< those that are read, and the name by which each was found
  Names holders;               ///< folders around them, and the name of one of their inputs
  std::set<fs::path> parents;  ///< those whose folders around are in holders already
  std::set<Identity> made;
  Names replaced;        ///< files that have the names of announced outputs now, and the outputs' names
  Names whole_replaced;  ///< folders that are replaced with their contents
  Names around_outputs;
};

Books& books() {
  static Books* const kBooks = new Books;  // outlives objects that are destroyed at the end of the process
  return *kBooks;
}

thread_local int own_files = 0;

constexpr const char* kNever = "; inputs are never modified: give another output";

Error is_input(const fs::path& output, const std::string& input) {
  const bool same = output == input;
  return usage_error("the output " + quote_text(output.native()) + " is one of the inputs" +
                     (same ? "" : ", " + quote_text(input)) + kNever);
}

Error is_beside(const fs::path& output, const fs::path& beside, const std::string& input) {
  return usage_error("the output " + quote_text(output.native()) + " is first written with " +
                     quote_text(beside.native()) + ", which is one of the inputs" +
                     (beside == input ? "" : ", " + quote_text(input)) + kNever);
}

Error lies_in(const fs::path& output, const std::string& folder) {
  return usage_error("the output " + quote_text(output.native()) + " lies in the input " +
                     quote_text(folder) + kNever);
}

Error holds(const fs::path& output, const std::string& input) {
  return usage_error("the output " + quote_text(output.native()) + " holds the input " + quote_text(input) +
                     ", and would be replaced as a whole" + kNever);
}

/// Whether the file may lie in an input folder, as what people make of a model in its own folder.
bool may_lie_in_input(const fs::path& output) {
  return output.extension() == ".crumb" || output.extension() == ".gguf";
}

/// Called with the mutex held.
void check(const Books& own, const fs::path& path, const fs::path& output, bool as_folder) {
  const fs::path& named = output.empty() ? path : output;
  const auto fault = [&](const std::string& input) {
    return output.empty() || output == path ? is_input(named, input) : is_beside(named, path, input);
  };
  for (const auto& identity : {identity_at(path), identity_of_name(path)}) {
    if (!identity) continue;
    if (const auto file = own.files.find(*identity); file != own.files.end()) throw fault(file->second);
    if (const auto folder = own.folders.find(*identity); folder != own.folders.end())
      throw fault(folder->second);
    if (!as_folder) continue;
    if (const auto held = own.holders.find(*identity); held != own.holders.end())
      throw holds(named, held->second);
  }
  if (!as_folder && may_lie_in_input(named)) return;
  for (const Identity& around : folders_around(path))
    if (const auto folder = own.folders.find(around); folder != own.folders.end())
      throw lies_in(named, folder->second);
}

/// Called with the mutex held: adds the folders that an input lies in.
void add_holders(Books& own, const std::vector<Identity>& around, const std::string& name) {
  for (const Identity& folder : around) own.holders.emplace(folder, name);
}

void announce(const fs::path& output, const std::vector<fs::path>& beside, bool as_folder) {
  Books& own = books();
  const std::scoped_lock lock(own.mutex);
  if (own.watches == 0) return;
  check(own, output, {}, as_folder);
  for (const fs::path& path : beside) check(own, path, output, as_folder);
  std::vector<fs::path> names = beside;
  names.push_back(output);
  for (const fs::path& path : names) {
    const auto identity = identity_at(path);
    if (!identity || own.made.contains(*identity)) continue;
    own.replaced.emplace(*identity, output);
    if (as_folder) own.whole_replaced.emplace(*identity, output);
  }
  if (!as_folder && may_lie_in_input(output)) return;
  for (const Identity& folder : folders_around(output)) own.around_outputs.emplace(folder, output);
}

}  // namespace

InputWatch::InputWatch() {
  const std::scoped_lock lock(books().mutex);
  ++books().watches;
}

InputWatch::~InputWatch() {
  Books& own = books();
  const std::scoped_lock lock(own.mutex);
  if (--own.watches > 0) return;
  for (Names* names :
       {&own.files, &own.folders, &own.holders, &own.replaced, &own.whole_replaced, &own.around_outputs})
    names->clear();
  own.parents.clear();
  own.made.clear();
}

OwnFiles::OwnFiles() { ++own_files; }

OwnFiles::~OwnFiles() { --own_files; }

void note_input(int fd, const fs::path& name) {
  Books& own = books();
  const std::scoped_lock lock(own.mutex);
  if (own.watches == 0 || own_files > 0) return;
  const auto file = found(fd, "", AT_EMPTY_PATH);
  if (!file || !file->is_named || own.made.contains(file->identity)) return;
  if (own.files.contains(file->identity)) return;
  if (const auto output = own.replaced.find(file->identity); output != own.replaced.end())
    throw is_input(output->second, name);
  const fs::path parent = resolved(name).parent_path();
  if (!own.parents.contains(parent)) {
    const std::vector<Identity> around = folders_around(name);
    for (const Identity& folder : around)
      if (const auto output = own.whole_replaced.find(folder); output != own.whole_replaced.end())
        throw holds(output->second, name);
    own.parents.insert(parent);
    add_holders(own, around, name);
  }
  own.files.emplace(file->identity, name);
}

void note_input_folder(const fs::path& folder) {
  Books& own = books();
  const std::scoped_lock lock(own.mutex);
  if (own.watches == 0 || own_files > 0) return;
  const auto identity = identity_at(folder);
  if (!identity || own.made.contains(*identity) || own.folders.contains(*identity)) return;
  const std::vector<Identity> around = folders_around(folder);
  if (const auto output = own.replaced.find(*identity); output != own.replaced.end())
    throw is_input(output->second, folder);
  if (const auto output = own.around_outputs.find(*identity); output != own.around_outputs.end())
    throw lies_in(output->second, folder);
  for (const Identity& outer : around)
    if (const auto output = own.whole_replaced.find(outer); output != own.whole_replaced.end())
      throw holds(output->second, folder);
  own.folders.emplace(*identity, folder);
  add_holders(own, around, folder);
}

void note_made(int fd) {
  Books& own = books();
  const std::scoped_lock lock(own.mutex);
  if (own.watches == 0) return;
  if (const auto there = found(fd, "", AT_EMPTY_PATH)) own.made.insert(there->identity);
}

void refuse_input(const fs::path& path, const fs::path& output) {
  Books& own = books();
  const std::scoped_lock lock(own.mutex);
  if (own.watches > 0) check(own, path, output, false);
}

void refuse_input_folder(const fs::path& folder, const fs::path& output) {
  Books& own = books();
  const std::scoped_lock lock(own.mutex);
  if (own.watches > 0) check(own, folder, output, true);
}

void refuse_these_inputs(const std::vector<fs::path>& inputs, const fs::path& output,
                         const std::vector<fs::path>& beside) {
  Books given;
  std::error_code error;
  for (const fs::path& input : inputs) {
    const auto identity = identity_at(input);
    if (!identity) continue;
    (fs::is_directory(input, error) ? given.folders : given.files).emplace(*identity, input);
    add_holders(given, folders_around(input), input);
  }
  const bool is_folder = fs::is_directory(output, error);
  check(given, output, {}, is_folder);
  for (const fs::path& path : beside) check(given, path, output, is_folder);
}

void announce_output(const fs::path& file, const std::vector<fs::path>& beside) {
  announce(file, beside, false);
}

void announce_output_folder(const fs::path& folder, const std::vector<fs::path>& beside) {
  announce(folder, beside, true);
}

}  // namespace crumb
