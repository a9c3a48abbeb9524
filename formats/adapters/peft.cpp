#include "formats/adapters/peft.h"

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/files/counted.h"
#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "formats/adapters/peft_config.h"
#include "formats/adapters/stored_pair.h"
#include "formats/safetensors/safetensors.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLongestConfig = std::uint64_t{16} << 20;
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kDownEnd = ".lora_A", kUpEnd = ".lora_B";

/// What a tensor's name says: the update of which module it belongs to.
struct PeftName {
  std::string module;
  bool is_up = false;
};

std::optional<PeftName> parse_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  if (!name.ends_with(".weight")) return std::nullopt;
  name.remove_suffix(7);
  if (name.ends_with(".default")) name.remove_suffix(8);
  const bool is_up = name.ends_with(kUpEnd);
  if (!is_up && !name.ends_with(kDownEnd)) return std::nullopt;
  name.remove_suffix(kDownEnd.size());
  return name.empty() ? std::nullopt : std::optional(PeftName{std::string(name), is_up});
}

/// Returns the name of the base's tensor of which the tensor is a copy; nothing where it is none.
std::optional<std::string> base_tensor_of(std::string_view name) {
  constexpr std::array<std::string_view, 3> kWrappers = {".base_layer", ".modules_to_save.default",
                                                         ".modules_to_save"};
  if (!name.starts_with(kPrefix) || name.find(".lora_") != std::string_view::npos ||
      name.find(".trainable_tokens") != std::string_view::npos)
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::nullopt;
  std::string_view module = name.substr(0, dot);
  const std::string_view member = name.substr(dot);
  for (const std::string_view wrapper : kWrappers)
    if (module.ends_with(wrapper)) module.remove_suffix(wrapper.size());
  return std::string(module) + std::string(member);
}

/// What a tensor is that is none of an update's matrices.
std::string_view other_tensor(std::string_view name) {
  struct Part {
    std::string_view part, what;
  };
  constexpr std::array<Part, 9> kParts = {{
      {".lora_magnitude_vector", "DoRA's"},
      {".lora_embedding_", "the update of an embedding"},
      {".lora_A.bias", "a bias of the update"},
      {".lora_B.bias", "a bias of the update"},
      {".lora_B.default.bias", "a bias of the update"},
      {".modules_to_save.", "of a module that is saved whole"},
      {".trainable_tokens", "rows of an embedding that are replaced"},
      {".base_layer.", "of a module that is saved whole"},
      {".bias", "a bias of the base"},
  }};
  for (const Part& part : kParts)
    if (name.find(part.part) != std::string_view::npos) return part.what;
  if (name.starts_with(kPrefix) && name.find(".lora_") == std::string_view::npos && name.ends_with(".weight"))
    return "of a module that is saved whole";
  return "none that Crumb knows";
}

Failure not_plain(const SafetensorsTensor& tensor) {
  return {"tensor " + quote_text(tensor.name) + " is " + std::string(other_tensor(tensor.name)) +
          ", expected only base_model.model.MODULE.lora_A.weight and .lora_B.weight"};
}

/// Lists the matrices, and checks what is a copy of the base's tensors.
Result<std::map<std::string, StoredPair>> list_pairs(std::span<const std::byte> file,
                                                     const CheckCopy& check) {
  const Result<SafetensorsHeader> header = parse_safetensors(file);
  if (!header.ok()) return header.failure();
  std::map<std::string, StoredPair> pairs;
  for (const SafetensorsTensor& tensor : header.value().tensors) {
    const std::optional<PeftName> name = parse_name(tensor.name);
    const std::optional<std::string> base_tensor =
        name || !check ? std::nullopt : base_tensor_of(tensor.name);
    if (!name && !base_tensor) return not_plain(tensor);
    if (!is_adapter_type(tensor.dtype))
      return Failure{"tensor " + quote_text(tensor.name) + " is " + std::string(dtype_name(tensor.dtype)) +
                     ", expected F32, F16 or BF16"};
    const std::span<const std::byte> bytes = file.subspan(tensor.offset, tensor.bytes);
    if (!name) {
      const Status same = check({.stored_as = tensor.name,
                                 .tensor = *base_tensor,
                                 .shape = tensor.shape,
                                 .dtype = tensor.dtype,
                                 .bytes = bytes});
      if (!same.ok()) return Failure{"tensor " + quote_text(tensor.name) + " " + same.failure().message};
      continue;
    }
    StoredPair& pair = pairs[name->module];
    StoredMatrix& matrix = name->is_up ? pair.up : pair.down;
    if (!matrix.tensor.empty())
      return Failure{"tensor " + quote_text(tensor.name) + " is " + quote_text(matrix.tensor) + " again"};
    matrix.tensor = tensor.name;
    matrix.shape = tensor.shape;
    matrix.dtype = tensor.dtype;
    matrix.bytes = bytes;
  }
  if (pairs.empty()) return Failure{"it holds no tensors, expected the matrices of low-rank updates"};
  return pairs;
}

Status put_scales(const PeftConfig& config, std::vector<LowRankUpdate>& updates) {
  std::vector<std::string> modules;
  for (const LowRankUpdate& update : updates) modules.push_back(update.module);
  const std::vector<double> ranks = config.ranks.find(modules, config.rank);
  const std::vector<double> alphas = config.alphas.find(modules, config.alpha);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    LowRankUpdate& update = updates[i];
    const std::string subject = "the update of " + quote_text(update.module);
    if (ranks[i] != static_cast<double>(update.rank))
      return Failure{subject + " has rank " + std::to_string(update.rank) + ", and " + kPeftConfig +
                     " says " + number_text(ranks[i])};
    update.scale = static_cast<float>(alphas[i] / (config.rank_stabilized ? std::sqrt(ranks[i]) : ranks[i]));
    if (!std::isfinite(update.scale))
      return Failure{subject + " has the alpha " + number_text(alphas[i]) +
                     ", which is too large for a float32"};
  }
  return {};
}

Failure in_tensors(const Failure& failure) { return {std::string(kPeftTensors) + ": " + failure.message}; }

}  // namespace

Result<Adapter> parse_peft(std::string_view config, std::span<const std::byte> tensors,
                           const CheckCopy& check) {
  const Result<PeftConfig> said = parse_peft_config(config, check != nullptr);
  if (!said.ok()) return said.failure();
  const Result<std::map<std::string, StoredPair>> pairs = list_pairs(tensors, check);
  if (!pairs.ok()) return in_tensors(pairs.failure());
  Result<std::vector<LowRankUpdate>> updates = join_pairs(pairs.value(), kDownEnd, kUpEnd);
  if (!updates.ok()) return in_tensors(updates.failure());
  if (const Status scaled = put_scales(said.value(), updates.value()); !scaled.ok())
    return in_tensors(scaled.failure());
  return Adapter{said.value().base_model, std::move(updates.value())};
}

Adapter read_peft(const fs::path& folder, const CheckCopy& check) {
  const std::string subject = quote_text(folder.native());
  std::error_code ignored;
  if (!fs::exists(folder / kPeftConfig, ignored))
    throw Error(subject + ": it holds no " + kPeftConfig + ", expected a folder that PEFT wrote");
  note_input_folder(folder);
  const std::string config = read_text_file(folder / kPeftConfig, kLongestConfig).take();
  if (!fs::exists(folder / kPeftTensors, ignored))
    throw Error(subject + ": it holds no " + kPeftTensors +
                (fs::exists(folder / "adapter_model.bin", ignored)
                     ? " but an adapter_model.bin, which is not read: load it with PEFT and save it again"
                     : ", expected a folder that PEFT wrote"));
  const MappedFile tensors = MappedFile::open(folder / kPeftTensors).take();
  return parse_peft(config, tensors.bytes(), check).take(subject);
}

}  // namespace crumb
