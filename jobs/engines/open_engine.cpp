#include "jobs/engines/open_engine.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "jobs/engines/library_file.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "libcrumb_engine.so";

/// Returns the library's path; its name alone where only the system can find it.
std::string find_library() {
  if (const char* chosen = std::getenv("CRUMB_ENGINE")) return chosen;
  std::vector<fs::path> near;  // this library's file, if it is a shared library, and the program's
  Dl_info own = {};
  const bool is_known = ::dladdr(reinterpret_cast<const void*>(&find_library), &own) != 0 && own.dli_fname;
  // A name without a folder is one that the system searched for, not a path.
  if (is_known && std::string_view(own.dli_fname).find('/') != std::string_view::npos)
    near.emplace_back(own.dli_fname);
  near.emplace_back("/proc/self/exe");
  for (const fs::path& file : near) {
    std::error_code error;
    const fs::path folder = fs::canonical(file, error).parent_path();
    for (const char* place : {"", "../lib/crumb", "crumb"})
      if (!error && fs::exists(folder / place / kName, error)) return (folder / place / kName).string();
  }
  return kName;
}

/// The opened library, which is checked to come from the same build as this program.
struct Library {
  Library() : path(find_library()) {
    std::string fault = fault_of_library(path);
    if (fault.empty()) handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      fault = fault.empty() ? ::dlerror() : path + ": " + fault;
      throw Error(
          std::string("executing a graph and training need LibTorch, and ") + kName +
          " cannot be opened: " + fault +
          "; install LibTorch and build all of Crumb (scripts/setup, cmake --preset release, cmake --build "
          "--preset release), or set CRUMB_ENGINE to that file; crumb doctor says what is there");
    }
    using Text = const char* (*)();
    const auto interface = reinterpret_cast<Text>(::dlsym(handle, "crumb_engine_interface"));
    if (!interface || std::string_view(interface()) != CRUMB_ENGINE_INTERFACE) {
      throw Error(path +
                  " was built from another version of Crumb than this program; build both again, or set "
                  "CRUMB_ENGINE to the library that belongs to it");
    }
  }

  /// Returns what one of the library's functions returns.
  template <class T>
  T& get(const char* function) const {
    using Entry = T* (*)();
    const auto entry = reinterpret_cast<Entry>(::dlsym(handle, function));
    if (!entry) throw Error(path + " is no library of Crumb: it has no " + function);
    return *entry();
  }

  std::string path;
  void* handle = nullptr;
};

const Library& library() {
  static const Library opened;
  return opened;
}

}  // namespace

EngineState engine_state() {
  const char* const named = std::getenv("CRUMB_ENGINE");
  EngineState state{.path = find_library(), .is_named = named != nullptr, .is_there = false};
  std::error_code error;
  state.is_there = fs::exists(state.path, error);
  try {
    state.libtorch = &library().get<const char>("crumb_engine_libtorch");
    state.path = library().path;
  } catch (const Error& fault) {
    state.fault = fault.what();
  }
  return state;
}

graph::Engine& open_engine() {
  static auto& engine = library().get<graph::Engine>("crumb_engine");
  return engine;
}

analysis::RegisterEngine& open_register_engine() {
  static auto& engine = library().get<analysis::RegisterEngine>("crumb_register_engine");
  return engine;
}

graph::EngineDevice& open_engine_device() {
  static auto& device = library().get<graph::EngineDevice>("crumb_engine_device");
  return device;
}

graph::GradientEngine& open_gradient_engine() {
  static auto& engine = library().get<graph::GradientEngine>("crumb_gradient_engine");
  return engine;
}

graph::TorchScriptReader& open_torchscript_reader() {
  static auto& reader = library().get<graph::TorchScriptReader>("crumb_torchscript_reader");
  return reader;
}

tasks::Trainer& open_trainer() {
  static auto& trainer = library().get<tasks::Trainer>("crumb_trainer");
  return trainer;
}

tasks::LanguageTrainer& open_language_trainer() {
  static auto& trainer = library().get<tasks::LanguageTrainer>("crumb_language_trainer");
  return trainer;
}

}  // namespace crumb::jobs
