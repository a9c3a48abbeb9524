#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/files/inputs.h"
#include "base/files/new_folder.h"
#include "base/files/output_file.h"
#include "base/files/text.h"
#include "formats/adapters/peft.h"
#include "formats/adapters/stored_pair.h"
#include "formats/safetensors/safetensors.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

/// lora_alpha of an update: the whole number that gives the scale where there is one, else their exact
/// product.
double alpha_of(const LowRankUpdate& update) {
  const double alpha = static_cast<double>(update.scale) * static_cast<double>(update.rank);
  const double whole = std::round(alpha);
  return static_cast<float>(whole / static_cast<double>(update.rank)) == update.scale ? whole : alpha;
}

/// The value that most have; the least of several.
template <class Values>
auto most_frequent(const Values& values) {
  std::map<typename Values::value_type, std::size_t> counts;
  for (const auto& value : values) ++counts[value];
  return std::ranges::max_element(counts, {}, [](const auto& pair) { return pair.second; })->first;
}

/// The regular expression that this name alone matches, for Python.
std::string exact_pattern(std::string_view name) {
  constexpr std::string_view kSpecial = "\\.^$*+?{}[]()|";
  std::string pattern = "^";
  for (const char c : name) {
    if (kSpecial.find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

nlohmann::ordered_json number_json(double value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (value == std::floor(value) && std::abs(value) < kExact) return static_cast<std::int64_t>(value);
  return value;
}

std::string config_text(const Adapter& adapter, const PeftOptions& options) {
  std::vector<std::size_t> ranks;
  std::vector<double> alphas;
  for (const LowRankUpdate& update : adapter.updates) {
    ranks.push_back(update.rank);
    alphas.push_back(alpha_of(update));
  }
  const std::size_t rank = most_frequent(ranks);
  const double alpha = most_frequent(alphas);
  nlohmann::ordered_json modules = nlohmann::ordered_json::array();
  nlohmann::ordered_json rank_pattern = nlohmann::ordered_json::object(), alpha_pattern = rank_pattern;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::string& module = adapter.updates[i].module;
    modules.push_back(module);
    if (ranks[i] != rank) rank_pattern[exact_pattern(module)] = ranks[i];
    if (alphas[i] != alpha) alpha_pattern[exact_pattern(module)] = number_json(alphas[i]);
  }
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
  };
  const std::string& base = options.base_model.empty() ? adapter.base : options.base_model;
  const nlohmann::ordered_json config = {{"alpha_pattern", alpha_pattern},
                                         {"base_model_name_or_path", text_or_null(base)},
                                         {"bias", "none"},
                                         {"fan_in_fan_out", false},
                                         {"inference_mode", true},
                                         {"init_lora_weights", true},
                                         {"lora_alpha", number_json(alpha)},
                                         {"lora_dropout", 0.0},
                                         {"peft_type", "LORA"},
                                         {"r", rank},
                                         {"rank_pattern", rank_pattern},
                                         {"target_modules", modules},
                                         {"task_type", text_or_null(options.task_type)},
                                         {"use_dora", false},
                                         {"use_rslora", false}};
  return config.dump(2, ' ', true) + "\n";
}

struct WrittenMatrix {
  TensorDescription description;
  std::vector<std::byte> bytes;
};

/// By their names.
std::map<std::string, WrittenMatrix> matrices(const Adapter& adapter, DType dtype) {
  std::map<std::string, WrittenMatrix> made;
  for (const LowRankUpdate& update : adapter.updates) {
    const std::string name = "base_model.model." + update.module;
    const std::string down = name + ".lora_A.weight", up = name + ".lora_B.weight";
    made[down] = {{down, dtype, {update.rank, update.in}}, narrowed(update.down, dtype, down)};
    made[up] = {{up, dtype, {update.out, update.rank}}, narrowed(update.up, dtype, up)};
  }
  return made;
}

bool holds_more_than_adapter(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().filename();
    if (name != kPeftConfig && name != kPeftTensors) return true;
  }
  return false;
}

void remove_old_config(const fs::path& path) {
  std::error_code error;
  refuse_input(path);
  fs::remove(path, error);
  if (error) throw Error("cannot remove the old " + quote_text(path.native()) + ": " + error.message());
}

}  // namespace

void write_peft(const Adapter& adapter, const fs::path& folder, const PeftOptions& options) {
  check_written_type(options.dtype);
  check_adapter(adapter);
  if (adapter.updates.empty()) throw Error("an adapter without updates cannot be written");
  if (!is_utf8(options.base_model) || !is_utf8(options.task_type))
    throw usage_error("the names of a base model and of a task must be UTF-8");
  const std::map<std::string, WrittenMatrix> made = matrices(adapter, options.dtype);
  std::vector<TensorDescription> descriptions;
  for (const auto& entry : made) descriptions.push_back(entry.second.description);

  const auto write = [&](const fs::path& into, bool replaces) {
    OutputFile config(into / kPeftConfig);
    config.append(config_text(adapter, options));
    SafetensorsWriter tensors(into / kPeftTensors, std::move(descriptions), {{"format", "pt"}});
    for (const TensorDescription& tensor : tensors.tensors())
      tensors.write(tensor.name, made.at(tensor.name).bytes);
    if (replaces) remove_old_config(into / kPeftConfig);
    tensors.commit();
    config.commit();
  };
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored))
    throw Error("cannot write into " + quote_text(folder.native()) +
                ": it is a file, an adapter of PEFT is written into a folder");
  if (holds_more_than_adapter(folder)) return write(folder, true);
  expect_parent_folder(folder);
  NewFolder whole(folder, [](const fs::path&) {});
  write(whole.path(), false);
  whole.commit();
}

}  // namespace crumb
