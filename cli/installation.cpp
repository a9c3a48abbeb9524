#include "cli/installation.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/files/text.h"
#include "base/processor_facts.h"
#include "base/threads/parallel.h"
#include "cli/train/data_folder.h"
#include "graph/onnx/library_versions.h"
#include "graph/passes/passes.h"
#include "jobs/engines/open_engine.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBuildAll =
    "in Crumb's source folder: scripts/setup && cmake --preset release && cmake --build --preset release";
constexpr const char* kBuildAgain = "cmake --build --preset release";
constexpr const char* kFetchData = "in Crumb's source folder: scripts/setup";

fs::path program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

/// Finds libcrumb.so next to the program, in ../lib or where the system looks, and asks the library for its
/// version.
void find_libcrumb(Installation& found) {
  const std::string version = CRUMB_VERSION;
  const std::string name = "libcrumb.so." + version.substr(0, version.find('.'));
  const fs::path home = program().parent_path();
  std::vector<fs::path> paths = {home / name, home / "../lib" / name};
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(home / "../lib", error))
    if (folder.path().filename().string().ends_with("-linux-gnu")) paths.push_back(folder.path() / name);
  std::erase_if(paths, [&](const fs::path& path) { return !fs::exists(path, error); });
  const std::string path = paths.empty() ? name : paths[0].lexically_normal().string();
  void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle && paths.empty()) {
    found.lacks.push_back({.what = name,
                           .needed_by = {"programs that run networks through crumb.h"},
                           .command =
                               "in Crumb's source folder: scripts/setup demo && cmake --preset release && "
                               "cmake --build --preset release --target crumb_shared"});
    return;
  }
  using Version = const char* (*)();
  const auto asked = handle ? reinterpret_cast<Version>(::dlsym(handle, "crumb_version")) : nullptr;
  if (!asked) {
    found.faults.push_back({"cannot open " + path + ": " + ::dlerror(), kBuildAgain});
    return;
  }
  found.libcrumb = {.path = path, .version = asked()};
  if (found.libcrumb->version != version)
    found.faults.push_back(
        {path + " is of version " + found.libcrumb->version + ", and the command of " + version,
         kBuildAgain});
}

/// Returns the jobs of the engine; all other jobs run without it.
std::vector<std::string> jobs_of_engine() {
  std::string passes;
  for (const graph::Pass& pass : graph::all_passes())
    if (pass.needs_engine) passes += (passes.empty() ? "" : ", ") + std::string(pass.name);
  return {"crumb train",
          "crumb recover",
          "crumb merge --train",
          "crumb quantize, crumb sweep: activations, stages that train, and operators that the runtime lacks",
          "crumb run --engine libtorch, --device cuda, TorchScript",
          "crumb bench --against libtorch",
          "crumb passes: " + passes,
          "crumb export --to hls4ml-project, finn-project"};
}

bool has_cuda() {
  try {
    jobs::open_engine_device().use("cuda", 1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void find_engine(Installation& found) {
  const jobs::EngineState state = jobs::engine_state();
  if (!state.fault.empty()) {
    if (state.is_there || state.is_named)
      found.faults.push_back({state.fault.substr(0, state.fault.find(';')),
                              state.is_there ? kBuildAgain : "unset CRUMB_ENGINE"});
    found.lacks.push_back({.what = "the engine on LibTorch (" + state.path + ")",
                           .needed_by = jobs_of_engine(),
                           .command = kBuildAll});
    return;
  }
  found.engine = {.path = state.path, .version = state.libtorch};
  found.devices = {"cpu"};
  if (has_cuda()) found.devices.emplace_back("cuda");
}

void find_instruction_sets(Installation& found) {
  constexpr std::pair<Isa, const char*> kSets[] = {{Isa::kPortable, "portable"},
                                                   {Isa::kAvx2, "avx2"},
                                                   {Isa::kAvx512, "avx512"},
                                                   {Isa::kVnni, "avx512-vnni"},
                                                   {Isa::kAmx, "amx"}};
  for (const auto& [isa, name] : kSets) {
    if (isa <= isa_there()) found.sets_there.emplace_back(name);
    if (may_use(isa)) found.sets_used.emplace_back(name);
  }
}

/// Finds the files of data sets, and the tasks that learn from them; jets are generated.
void find_data(Installation& found) {
  struct DataSet {
    const char* file;
    std::vector<std::string> tasks;
  };
  const std::vector<DataSet> sets = {{"digits.csv.gz", {"crumb train task digits", "crumb train task ocr"}},
                                     {"china.npy", {"crumb train task sr"}},
                                     {"flower.npy", {"crumb train task sr"}}};
  const fs::path folder = data_folder();
  found.data = folder.string();
  for (const DataSet& set : sets) {
    std::error_code error;
    if (fs::is_regular_file(folder / set.file, error))
      found.data_sets.emplace_back(set.file);
    else
      found.lacks.push_back(
          {.what = (folder / set.file).string(), .needed_by = set.tasks, .command = kFetchData});
  }
}

}  // namespace

Installation find_installation() {
  Installation found;
  found.crumb = {.path = program().string(), .version = CRUMB_VERSION};
  found.onnx = graph::onnx_version();
  found.protobuf = graph::protobuf_version();
  find_libcrumb(found);
  find_engine(found);
  find_instruction_sets(found);
  found.threads = default_threads();
  found.processors = static_cast<int>(std::thread::hardware_concurrency());
  find_data(found);
  return found;
}

}  // namespace crumb::cli
