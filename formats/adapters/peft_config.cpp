#include "formats/adapters/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "base/json/json_file.h"
#include "base/text/ascii_case.h"
#include "base/text/name_regex.h"
#include "formats/adapters/peft.h"

namespace crumb {
namespace {

using nlohmann::json;

/// A field that is refused where it is set, and what it means.
struct RefusedField {
  std::string_view name;
  std::string_view meaning;
};

constexpr std::array<RefusedField, 14> kRefused = {{
    {"use_dora", "DoRA: columns are brought to a length of their own"},
    {"use_qalora", "QA-LoRA: inputs are averaged in groups before the first matrix"},
    {"alora_invocation_tokens", "activated LoRA: the update counts only behind some tokens"},
    {"invocation_string", "activated LoRA: the update counts only behind some tokens"},
    {"monteclora_config", "MonteCLoRA: matrices are drawn"},
    {"use_bdlora", "BD-LoRA: matrices are blocks on a diagonal"},
    {"arrow_config", "Arrow: tokens choose among several adapters"},
    {"kasa_config", "KaSA: the base's weights are cut, and a diagonal stands between the matrices"},
    {"velora_config", "VeLoRA: what only its training needs is saved along"},
    {"lora_bias", "the second matrix has a bias"},
    {"fan_in_fan_out", "matrices lie transposed in the base, as those of GPT-2's Conv1D"},
    {"trainable_token_indices", "rows of embeddings are replaced"},
    {"layer_replication", "the base's layers are used several times"},
    {"target_parameters", "parameters that are no linear layer's are updated"},
}};

constexpr const char* kSavedModules = "modules_to_save";

/// Those that are read here, and those that say nothing about what is computed.
constexpr std::array<std::string_view, 28> kKnown = {"alpha_pattern",
                                                     "auto_mapping",
                                                     "base_model_name_or_path",
                                                     "bias",
                                                     "corda_config",
                                                     "ensure_weight_tying",
                                                     "eva_config",
                                                     "exclude_modules",
                                                     "inference_mode",
                                                     "init_lora_weights",
                                                     "layers_pattern",
                                                     "layers_to_transform",
                                                     "loftq_config",
                                                     "lora_alpha",
                                                     "lora_dropout",
                                                     "lora_ga_config",
                                                     "megatron_config",
                                                     "megatron_core",
                                                     "peft_type",
                                                     "peft_version",
                                                     "qalora_group_size",
                                                     "r",
                                                     "rank_pattern",
                                                     "revision",
                                                     "runtime_config",
                                                     "target_modules",
                                                     "task_type",
                                                     "use_rslora"};

/// After which the base has other weights than those that were published.
constexpr std::array<std::string_view, 4> kChangesBase = {"olora", "corda", "loftq", "lora_ga"};
constexpr std::array<std::string_view, 4> kKeepsBase = {"gaussian", "eva", "orthogonal", "mica"};

NameRegex compiled(std::string_view pattern) { return NameRegex("(.*\\.)?(" + std::string(pattern) + ")"); }

std::string shown(const json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

bool is_set(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  return !value.is_null() && !(value.is_structured() && value.empty()) &&
         !(value.is_string() && value.get_ref<const std::string&>().empty());
}

/// What is saved in addition to the matrices; the tensors say whether it was trained.
void check_copies(const JsonFile& file) {
  if (file.root().contains(kSavedModules) && is_set(file.root().at(kSavedModules)))
    throw file.error("\"" + std::string(kSavedModules) + "\" is " + shown(file.root().at(kSavedModules)) +
                     " (modules are saved whole), expected an adapter of plain low-rank updates");
  if (const std::string bias = file.string("bias").value_or("none"); bias != "none")
    throw file.error("\"bias\" is " + quote_text(bias) + " (biases are trained, too), expected 'none'");
}

void check_fields(const JsonFile& file) {
  for (const auto& item : file.root().items()) {
    if (!is_set(item.value()) || item.key() == kSavedModules) continue;
    const std::string found = "\"" + printable(item.key()) + "\" is " + shown(item.value());
    const auto refused = std::ranges::find(kRefused, item.key(), &RefusedField::name);
    if (refused != kRefused.end())
      throw file.error(found + " (" + std::string(refused->meaning) +
                       "), expected an adapter of plain low-rank updates");
    if (!std::ranges::binary_search(kKnown, std::string_view(item.key())))
      throw file.error(found + ", a field that Crumb does not know: it may change what is computed");
  }
}

void check_initialization(const JsonFile& file) {
  if (!file.has("init_lora_weights") || file.root().at("init_lora_weights").is_boolean()) return;
  const std::string name = lower_case(file.string("init_lora_weights").value());
  const std::string found = "\"init_lora_weights\" is " + shown(file.root().at("init_lora_weights"));
  if (name.starts_with("pissa") || std::ranges::count(kChangesBase, name) > 0)
    throw file.error(found +
                     ", which changes the base's weights when it is loaded; save it again as plain LoRA "
                     "(path_initial_model_for_weight_conversion of PEFT's save_pretrained)");
  if (std::ranges::count(kKeepsBase, name) == 0)
    throw file.error(found + ", which Crumb does not know: it may change the base's weights");
}

double number_of(const JsonFile& file, const char* key, double usual) {
  if (file.root().contains(key) && !file.has(key))
    throw file.error("\"" + std::string(key) + "\" is null, expected a number");
  return file.number(key).value_or(usual);
}

void check_rank(double rank, const std::string& subject) {
  if (rank != std::floor(rank) || rank < 1 || rank > 0x7fffffff)
    throw Error(subject + " is " + number_text(rank) + ", expected an integer of 1 or more");
}

/// The patterns in the text's order, which a parsed object no longer has.
void read_patterns(const JsonFile& file, std::string_view text, PeftConfig& config) {
  constexpr std::array<std::string_view, 2> kPaths = {"rank_pattern", "alpha_pattern"};
  for (const std::string_view path : kPaths)
    if (file.has(path.data()) && !file.root().at(path).is_object())
      throw file.error("\"" + std::string(path) + "\" must be an object, found " +
                       shown(file.root().at(path)));
  const auto take = [&](std::string_view path, std::string_view key, const json& value) {
    const bool is_rank = path == kPaths[0];
    const std::string subject = file.name() + ": \"" + std::string(path) + "\", " + quote_text(key);
    if (!value.is_number()) throw Error(subject + " is " + shown(value) + ", expected a number");
    const double number = value.get<double>();
    if (is_rank) check_rank(number, subject);
    (is_rank ? config.ranks : config.alphas).add(key, number).take(subject);
  };
  (void)parse_bounded_json_members(std::as_bytes(std::span(text)), {}, kPaths, take).take(file.name());
}

PeftConfig read_config(const JsonFile& file, std::string_view text, bool with_copies) {
  const std::string type = file.string("peft_type").value_or("");
  if (type != "LORA")
    throw file.error(file.has("peft_type") ? "\"peft_type\" is " + quote_text(type) + ", expected 'LORA'"
                                           : "\"peft_type\" is missing, expected \"LORA\"");
  check_fields(file);
  check_initialization(file);
  if (!with_copies) check_copies(file);
  PeftConfig config;
  config.base_model = file.string("base_model_name_or_path").value_or("");
  config.rank = number_of(file, "r", config.rank);
  check_rank(config.rank, file.name() + ": \"r\"");
  config.alpha = number_of(file, "lora_alpha", config.alpha);
  config.rank_stabilized = file.boolean("use_rslora").value_or(false);
  read_patterns(file, text, config);
  return config;
}

}  // namespace

Status PeftPatterns::add(std::string_view key, double number) {
  if (entries_.size() == kMost) return Failure{"there are more than " + std::to_string(kMost) + " patterns"};
  try {
    (void)NameRegex(key);  // by itself, so that its groups are closed
    (void)compiled(key);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
  entries_.emplace_back(key, number);
  return {};
}

std::vector<double> PeftPatterns::find(std::span<const std::string> modules, double otherwise) const {
  std::vector<std::optional<double>> found(modules.size());
  for (const auto& [key, number] : entries_) {
    const NameRegex regex = compiled(key);
    for (std::size_t i = 0; i < modules.size(); ++i)
      if (!found[i] && regex.matches(modules[i])) found[i] = number;
  }
  const std::map<std::string_view, double> by_key(entries_.begin(), entries_.end());
  std::vector<double> numbers;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto same = by_key.find(modules[i]);
    numbers.push_back(found[i].value_or(same == by_key.end() ? otherwise : same->second));
  }
  return numbers;
}

Result<PeftConfig> parse_peft_config(std::string_view text, bool with_copies) {
  try {
    return read_config(JsonFile(kPeftConfig, text), text, with_copies);
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

}  // namespace crumb
