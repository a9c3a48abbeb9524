#include "formats/checkpoint/find_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/checkpoint/detect.h"
#include "formats/checkpoint/list_tensors.h"
#include "formats/checkpoint/model_files.h"
#include "formats/checkpoint/shown_names.h"
#include "formats/gguf/split.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Of a folder that PEFT wrote.
constexpr const char* kAdapterConfig = "adapter_config.json";
/// What trainers leave beside a model.
constexpr std::array<const char*, 4> kNoModels = {"training_args.bin", "optimizer.bin", "optimizer.pt",
                                                  "scheduler.pt"};

/// Whether a name says that the file is one of several: "model-00001-of-00003.safetensors".
bool is_shard_name(const std::string& name) {
  const std::size_t of = name.rfind("-of-");
  if (of == std::string::npos) return false;
  const std::string digits = name.substr(of + 4, name.find('.', of) - (of + 4));
  const bool is_number = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  return is_number && digits.find_first_not_of('0') != std::string::npos &&
         digits.substr(digits.find_first_not_of('0')) != "1";
}

/// Whether a name is that of a tensor file other than safetensors.
bool is_tensor_name(const std::string& name) {
  constexpr std::array<std::string_view, 7> kExtensions = {".bin", ".pt",   ".pth", ".ckpt",
                                                           ".npz", ".onnx", ".gguf"};
  const std::string extension = lower_extension(name);
  return std::ranges::find(kExtensions, extension) != kExtensions.end() &&
         std::ranges::find(kNoModels, name) == kNoModels.end();
}

/// Of a folder that PEFT wrote: it changes a model, whose folder may be said in it.
Failure adapter_failure(const fs::path& folder) {
  const Result<json> config = read_bounded_json((folder / kAdapterConfig).string());
  std::string base;
  if (config.ok() && config.value().is_object()) {
    const auto found = config.value().find("base_model_name_or_path");
    if (found != config.value().end() && found->is_string()) base = found->get<std::string>();
  }
  return Failure{"the folder " + quote_text(folder.native()) + " holds a low-rank adapter (" +
                 kAdapterConfig + "), which is no model but a change to one" +
                 (base.empty() ? "" : ", " + quote_text(base)) +
                 ": give the folder of that model, and this one as --adapter (crumb merge MODEL --adapter " +
                 quote_text(folder.native()) + " -o MERGED makes a model of both)"};
}

}  // namespace

Result<fs::path> find_model(const fs::path& folder, const std::string& also) {
  std::vector<std::string> found, safetensors, others;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::string name = entry->path().filename().string();
    std::error_code ignored;
    const bool is_folder = entry->is_directory(ignored);
    if (!is_folder && lower_extension(name) == ".safetensors") safetensors.push_back(name);
    if (!is_folder && is_tensor_name(name)) others.push_back(name);
    found.push_back(is_folder ? name + "/" : std::move(name));
  }
  if (error) return Failure{"cannot read the folder " + quote_text(folder.native()) + ": " + error.message()};
  if (is_present(folder / kAdapterConfig) && !is_present(folder / "config.json"))
    return adapter_failure(folder);
  std::sort(found.begin(), found.end());
  std::sort(safetensors.begin(), safetensors.end());
  std::sort(others.begin(), others.end());

  for (const char* name : kModelNames) {
    if (is_present(folder / name)) return folder / name;
    if (is_present(folder / (std::string(name) + kIndexEnd))) return folder / (std::string(name) + kIndexEnd);
    if (safetensors.size() == 1 && !is_shard_name(safetensors.front())) return folder / safetensors.front();
  }
  if (safetensors.empty() && others.size() == 1 && !is_shard_name(others.front()))
    return folder / others.front();
  if (safetensors.empty() && !others.empty() && are_gguf_parts(others)) return folder / others.front();
  const std::vector<std::string>& several = safetensors.empty() ? others : safetensors;
  const std::string subject = "the folder " + quote_text(folder.native());
  if (several.empty())
    return Failure{subject + " holds no tensor files; found " +
                   (found.empty() ? std::string("nothing") : shown_names(found)) + "; " +
                   expected_inputs(also)};
  if (several.size() == 1)
    return Failure{subject + " holds one shard of a model, " + quote_text(several.front()) +
                   ", and no index; the other shards and model.safetensors.index.json are missing"};
  return Failure{subject + " holds several tensor files (" + shown_names(several) +
                 ") and neither model.safetensors nor model.safetensors.index.json" +
                 (safetensors.empty() ? ", nor pytorch_model.bin nor pytorch_model.bin.index.json" : "") +
                 "; name one of the files"};
}

}  // namespace crumb
