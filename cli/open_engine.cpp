#include "cli/open_engine.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/error.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "libcrumb_engine.so";

/// The library's path; only its name where it is none of ours to find.
std::string find_library() {
  if (const char* chosen = std::getenv("CRUMB_ENGINE")) return chosen;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const fs::path& path :
       {program.parent_path() / kName, program.parent_path() / "../lib/crumb" / kName}) {
    if (!error && fs::exists(path, error)) return path.string();
  }
  return kName;
}

graph::Engine& load() {
  const std::string path = find_library();
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw Error(std::string("executing a graph needs LibTorch, and ") + kName + " cannot be opened: " +
                ::dlerror() + "; build Crumb with LibTorch, or set CRUMB_ENGINE to that file");
  }
  using Text = const char* (*)();
  const auto interface = reinterpret_cast<Text>(::dlsym(library, "crumb_engine_interface"));
  if (!interface || std::string_view(interface()) != CRUMB_ENGINE_INTERFACE) {
    throw Error(path +
                " was built from another version of Crumb than this program; build both again, or set "
                "CRUMB_ENGINE to the library that belongs to it");
  }
  using Entry = graph::Engine* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "crumb_engine"));
  if (!entry) throw Error(path + " is no library of Crumb: it has no crumb_engine");
  return *entry();
}

}  // namespace

graph::Engine& open_engine() {
  static graph::Engine& engine = load();
  return engine;
}

}  // namespace crumb::cli
