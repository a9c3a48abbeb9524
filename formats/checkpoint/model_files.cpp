#include "formats/checkpoint/model_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/checkpoint/shard_index.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 32> kModelFiles = {
    "added_tokens.json",
    "bpe.codes",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "config_sentence_transformers.json",
    "entity_vocab.json",
    "generation_config.json",
    "image_processor_config.json",
    "merges.txt",
    "modules.json",
    "normalizer.json",
    "params.json",
    "preprocessor_config.json",
    "processor_config.json",
    "sentence_bert_config.json",
    "sentencepiece.bpe.model",
    "sentencepiece.model",
    "source.spm",
    "special_tokens_map.json",
    "spiece.model",
    "spm.model",
    "target.spm",
    "tekken.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer.model.v3",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
    "vocab.bpe",
    "vocab.json",
    "vocab.txt",
};

struct ModuleFolder {
  std::string type;  ///< the class, with its Python package; empty where it has none
  std::string path;
};

/// sentence-transformers' modules.json: [{"idx", "name", "path", "type"}, ...]; a path is "" or a folder,
/// which need not exist (a module without settings). Those with "" are left out; none without the file.
Result<std::vector<ModuleFolder>> read_module_folders(const fs::path& folder) {
  std::vector<ModuleFolder> found;
  if (!is_present(folder / "modules.json")) return found;
  const std::string path = (folder / "modules.json").string();
  const Result<nlohmann::json> modules = read_bounded_json(path);
  if (!modules.ok()) return modules.failure();
  if (!modules.value().is_array()) return Failure{quote_text(path) + ": expected a JSON array of modules"};
  for (const nlohmann::json& module : modules.value()) {
    const auto place = module.is_object() ? module.find("path") : module.end();
    if (place == module.end() || !place->is_string())
      return Failure{quote_text(path) + ": a module without a 'path'"};
    const auto& name = place->get_ref<const std::string&>();
    if (name.empty()) continue;
    if (!is_inside_path(name))
      return Failure{quote_text(path) + ": the module path " + quote_text(name) +
                     " is not a plain path inside the folder"};
    const auto type = module.find("type");
    found.push_back({type != module.end() && type->is_string() ? type->get<std::string>() : "", name});
  }
  return found;
}

bool is_dense(const ModuleFolder& module) {
  return module.type.substr(module.type.rfind('.') + 1) == "Dense";
}

}  // namespace

bool is_present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

Result<std::vector<std::string>> model_file_names(const fs::path& folder) {
  std::vector<std::string> names(kModelFiles.begin(), kModelFiles.end());
  const Result<std::vector<ModuleFolder>> modules = read_module_folders(folder);
  if (!modules.ok()) return modules.failure();
  for (const ModuleFolder& module : modules.value()) {
    names.push_back(module.path + "/config.json");
    if (!is_dense(module)) names.push_back(module.path + "/model.safetensors");
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<std::vector<std::string>> dense_module_folders(const fs::path& folder) {
  const Result<std::vector<ModuleFolder>> modules = read_module_folders(folder);
  if (!modules.ok()) return modules.failure();
  std::vector<std::string> folders;
  for (const ModuleFolder& module : modules.value())
    if (is_dense(module)) folders.push_back(module.path);
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  return folders;
}

std::vector<std::string> files_but(const fs::path& folder, const std::vector<fs::path>& known) {
  std::set<std::string> tops;  // the first component of each
  for (const fs::path& path : known) {
    const fs::path inside = path.lexically_relative(folder);
    if (!inside.empty()) tops.insert(inside.begin()->string());
  }
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (name.starts_with('.') || tops.contains(name)) continue;
    std::error_code ignored;
    if (it->is_directory(ignored)) name += '/';
    names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace crumb
