#include "export/folder/model_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <map>
#include <system_error>

#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/new_folder.h"
#include "base/files/output_file.h"
#include "base/files/output_place.h"
#include "base/files/partial.h"
#include "base/files/text.h"
#include "formats/safetensors/sharded_writer.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::exporting {
namespace {

namespace fs = std::filesystem;

/// Configuration, tokenizer and what else makes the folder a model.
void write_model_files(const FolderContent& content, const fs::path& folder) {
  for (const std::string& name : content.files()) {
    const fs::path path = folder / name;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error)
      throw Error("cannot make the folder " + quote_text(path.parent_path().native()) + ": " +
                  error.message());
    OutputFile out(path);
    content.read_file(name, [&](std::span<const std::byte> slice) { out.append(slice); });
    out.commit();
  }
}

/// A model's own file must not pose as one of its tensor files, or stand where one of them will.
void refuse_posing_files(const FolderContent& content) {
  for (const std::string& path : content.files()) {
    const std::string_view top = std::string_view(path).substr(0, path.find('/'));
    for (const char* end : {".safetensors", ".safetensors.index.json", ".partial"}) {
      if (top.ends_with(end))
        throw Error("the packed file holds a file " + quote_text(path) +
                    ", which would mix with the tensor files that are written");
    }
  }
}

/// Whether a tensor file in the output folder was written by a run with this metadata.
bool is_own_tensor_file(const fs::path& path, const std::map<std::string, std::string>& metadata) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return false;
  const Result<SafetensorsHeader> header = parse_safetensors(file.value().bytes());
  return header.ok() && header.value().metadata == metadata;
}

/// Whether a file that exists holds the same, byte for byte.
bool is_same_file(const FolderContent& content, const std::string& path, const fs::path& other) {
  const Result<MappedFile> file = MappedFile::open(other);
  if (!file.ok()) return false;
  std::span<const std::byte> left = file.value().bytes();
  bool same = true;
  content.read_file(path, [&](std::span<const std::byte> slice) {
    same = same && slice.size() <= left.size() && std::ranges::equal(slice, left.first(slice.size()));
    left = left.subspan(std::min(left.size(), slice.size()));
  });
  return same && left.empty();
}

/// A partial file in the folder itself: runs of earlier versions made them there.
bool is_own_partial(const fs::path& path, const std::map<std::string, std::string>& metadata) {
  struct stat info = {};
  return (::lstat(path.c_str(), &info) == 0 && is_marked_partial(info)) || is_own_tensor_file(path, metadata);
}

/// Throws Error unless an earlier run of the same kind made all that the folder holds.
void expect_own_folder(const fs::path& folder, const std::vector<std::string>& own,
                       const FolderContent& content, const std::map<std::string, std::string>& metadata) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().lexically_relative(folder).generic_string();
    std::error_code ignored;
    if (it->is_directory(ignored) && !it->is_symlink(ignored)) continue;
    const std::string whole = name.ends_with(".partial") ? name.substr(0, name.rfind('.')) : name;
    const bool is_file = std::ranges::find(content.files(), whole) != content.files().end();
    const bool tensors = std::ranges::find(own, whole) != own.end();
    if ((tensors || is_file) && whole != name && is_own_partial(it->path(), metadata)) continue;
    if (tensors && whole == name && (name == kSafetensorsIndex || is_own_tensor_file(it->path(), metadata)))
      continue;
    if (is_file && whole == name && is_same_file(content, whole, it->path())) continue;
    throw Error("cannot write into " + quote_text(folder.string()) + ": it holds " + quote_text(name) +
                ", which is not what an earlier run of this command left there, and the two would be mixed; "
                "remove it or choose another folder");
  }
  if (error) throw Error("cannot read the folder " + quote_text(folder.string()) + ": " + error.message());
}

std::uint64_t bytes_of(const Shard& shard) {
  std::uint64_t bytes = 0;
  for (const TensorDescription& tensor : shard.tensors)
    bytes += tensor_byte_size(tensor.dtype, tensor.shape).take();
  return bytes;
}

/// What goes where: the transformer's tensors into shards, those of modules of sentence-transformers into a
/// file in the module's folder.
struct Plan {
  ShardPlan shards;
  std::vector<Shard> modules;  ///< tensors have their names in the file

  /// Of all tensor files, modules' first.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const Shard& module : modules) names.push_back(module.file);
    for (std::string& name : shards.files()) names.push_back(std::move(name));
    return names;
  }
};

/// "2_Dense/" of a tensor "2_Dense/linear.weight", whose module has a configuration; else empty.
std::string module_of(const std::string& tensor, const FolderContent& content) {
  const std::string folder = tensor.substr(0, tensor.rfind('/') + 1);
  const auto& files = content.files();
  const bool has_config = std::ranges::find(files, folder + "config.json") != files.end();
  return folder.empty() || !has_config ? "" : folder;
}

Plan plan_of(const FolderContent& content, std::uint64_t shard_bytes) {
  std::map<std::string, std::vector<TensorDescription>> by_module;
  for (const TensorDescription& tensor : content.tensors())
    by_module[module_of(tensor.name, content)].push_back(tensor);
  Plan plan{.shards = plan_shards(std::move(by_module[""]), shard_bytes)};
  for (auto& [folder, tensors] : by_module) {
    if (folder.empty()) continue;
    for (TensorDescription& tensor : tensors) tensor.name.erase(0, folder.size());
    plan.modules.push_back({.file = folder + "model.safetensors", .tensors = std::move(tensors)});
  }
  return plan;
}

void write_module_tensors(const FolderContent& content, const Shard& module, const fs::path& folder,
                          const FolderOptions& options, const std::function<void()>& done) {
  const fs::path path = folder / module.file;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error)
    throw Error("cannot make the folder " + quote_text(path.parent_path().native()) + ": " + error.message());
  const std::string prefix = module.file.substr(0, module.file.rfind('/') + 1);
  SafetensorsWriter writer(path.string(), module.tensors, options.metadata);
  for (const TensorDescription& tensor : writer.tensors()) {
    check_interrupt();
    content.read_tensor(prefix + tensor.name, folder, options.threads,
                        [&](std::span<const std::byte> bytes) { writer.write(tensor.name, bytes); });
    done();
  }
  writer.commit();
}

FolderReport report_of(const Plan& plan, std::uint64_t shard_bytes) {
  FolderReport report{.files = plan.shards.shards.size() + plan.modules.size()};
  std::vector<Shard> all = plan.modules;
  all.insert(all.end(), plan.shards.shards.begin(), plan.shards.shards.end());
  for (const Shard& shard : all) {
    report.tensors += shard.tensors.size();
    for (const TensorDescription& tensor : shard.tensors) {
      const std::uint64_t bytes = tensor_byte_size(tensor.dtype, tensor.shape).take();
      if (bytes <= shard_bytes) continue;
      ++report.large;
      if (bytes <= report.largest_bytes) continue;
      report.largest = tensor.name;
      report.largest_bytes = bytes;
    }
  }
  return report;
}

}  // namespace

FolderReport plan_folder(const FolderContent& content, const FolderOptions& options) {
  return report_of(plan_of(content, options.shard_bytes), options.shard_bytes);
}

FolderReport write_folder(const FolderContent& content, const fs::path& folder,
                          const FolderOptions& options) {
  Plan plan = plan_of(content, options.shard_bytes);
  const FolderReport report = report_of(plan, options.shard_bytes);
  refuse_posing_files(content);
  for (const std::string& file : content.files())  // small; before anything is written
    content.read_file(file, [](std::span<const std::byte>) {});
  refuse_overwriting_inputs({options.input}, folder);
  expect_parent_folder(folder);
  const std::vector<std::string> names = plan.files();
  NewFolder made(folder, [&](const fs::path& existing) {
    expect_own_folder(existing, names, content, options.metadata);
  });
  std::uint64_t largest = 0, of_modules = 0;
  for (const Shard& shard : plan.shards.shards) largest = std::max(largest, bytes_of(shard));
  for (const Shard& module : plan.modules) of_modules += bytes_of(module);
  require_space(folder, plan.shards.tensor_bytes + of_modules, largest);
  std::size_t done = 0;
  for (const Shard& module : plan.modules)
    write_module_tensors(content, module, made.path(), options, [&] {
      if (options.progress) options.progress(++done, report.tensors);
    });
  ShardedSafetensorsWriter writer(made.path(), std::move(plan.shards), options.metadata);
  for (const TensorDescription& tensor : writer.tensors()) {
    check_interrupt();
    content.read_tensor(tensor.name, made.path(), options.threads,
                        [&](std::span<const std::byte> bytes) { writer.write(tensor.name, bytes); });
    if (options.progress) options.progress(++done, report.tensors);
  }
  write_model_files(content, made.path());
  writer.commit();
  if (options.check) options.check(made.path());
  made.commit();
  return report;
}

}  // namespace crumb::exporting
