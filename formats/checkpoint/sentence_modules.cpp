#include "formats/checkpoint/sentence_modules.h"

#include <array>
#include <span>
#include <utility>

#include "base/json/bounded_json.h"

namespace crumb {
namespace {

struct ModeName {
  PoolingMode mode;
  std::string_view name;
  const char* flag;
};

constexpr std::array<ModeName, 6> kModes = {{
    {PoolingMode::kCls, "cls", "pooling_mode_cls_token"},
    {PoolingMode::kMax, "max", "pooling_mode_max_tokens"},
    {PoolingMode::kMean, "mean", "pooling_mode_mean_tokens"},
    {PoolingMode::kMeanSqrtLen, "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    {PoolingMode::kWeightedMean, "weightedmean", "pooling_mode_weightedmean_tokens"},
    {PoolingMode::kLastToken, "lasttoken", "pooling_mode_lasttoken"},
}};

PoolingMode parse_mode(const JsonFile& config, const nlohmann::json& name) {
  for (const ModeName& mode : kModes) {
    if (name.is_string() && name == mode.name) return mode.mode;
  }
  throw config.error(
      "\"pooling_mode\" must be one or more of cls, max, mean, mean_sqrt_len_tokens, weightedmean, "
      "lasttoken");
}

struct Module {
  std::string type;  ///< the class without its Python package: "Pooling"
  std::string path;
};

std::string text_of(const nlohmann::json& module, const char* key) {
  const auto value = module.is_object() ? module.find(key) : module.end();
  if (!module.is_object() || value == module.end() || !value->is_string()) {
    throw Error(std::string(kSentenceModulesFile) + ": a module has no \"" + key + "\"");
  }
  return value->get<std::string>();
}

Error unpooled(const std::vector<Module>& modules) {
  return Error(
      std::string(kSentenceModulesFile) + ": expected a Transformer and a Pooling module first, found " +
      (modules.empty() ? "none" : modules[0].type) + (modules.size() < 2 ? "" : ", " + modules[1].type));
}

/// Empty without modules.json; else a Transformer first, alone or with a Pooling behind it, and the path of
/// each module ends in "/" unless empty.
std::vector<Module> read_modules(const ModelText& text) {
  std::vector<Module> modules;
  const auto content = text(kSentenceModulesFile);
  if (!content) return modules;
  const auto list = parse_bounded_json(std::as_bytes(std::span(*content))).take(kSentenceModulesFile);
  if (!list.is_array()) throw Error(std::string(kSentenceModulesFile) + ": expected a list of modules");
  for (const auto& entry : list) {
    Module module{text_of(entry, "type"), text_of(entry, "path")};
    module.type = module.type.substr(module.type.rfind('.') + 1);
    if (!module.path.empty() && !module.path.ends_with('/')) module.path += '/';
    modules.push_back(std::move(module));
  }
  if (modules.empty() || modules[0].type != "Transformer" ||
      (modules.size() > 1 && modules[1].type != "Pooling"))
    throw unpooled(modules);
  return modules;
}

std::optional<JsonFile> read_config(const ModelText& text, const std::string& path) {
  const auto content = text(path + "config.json");
  return content ? std::optional<JsonFile>(std::in_place, path + "config.json", *content) : std::nullopt;
}

/// Modules may be told to work on other features than the sentence vector: none of ours can.
void check_features(const JsonFile& config) {
  for (const char* key : {"module_input_name", "module_output_name"}) {
    const std::string name = config.string(key).value_or("sentence_embedding");
    if (name != "sentence_embedding") {
      throw config.error(std::string(key) + " is \"" + name + "\"; supported is \"sentence_embedding\"");
    }
  }
}

Activation dense_activation(const JsonFile& config) {
  const std::string name = config.string("activation_function").value_or("torch.nn.modules.activation.Tanh");
  const std::string type = name.substr(name.rfind('.') + 1);
  if (type == "Tanh") return Activation::kTanh;
  if (type == "Identity") return Activation::kIdentity;
  if (type == "ReLU") return Activation::kRelu;
  if (type == "GELU") return Activation::kGelu;
  throw config.error("activation_function is " + name + "; supported are Tanh, Identity, ReLU and GELU");
}

JsonFile required_config(const ModelText& text, const std::string& model, const std::string& path,
                         const char* module) {
  auto config = read_config(text, path);
  if (!config) {
    throw Error(model + " has no " + path + "config.json, which its " + module + " module needs");
  }
  return std::move(*config);
}

SentenceModules::Dense read_dense(const JsonFile& config, const std::string& path, size_t width) {
  check_features(config);
  if (config.boolean("use_residual").value_or(false)) throw config.error("use_residual is not supported");
  const size_t in = config.required_count("in_features", 1);
  if (in != width) {
    throw config.error("in_features is " + std::to_string(in) + ", but the module before gives " +
                       std::to_string(width));
  }
  return {.path = path,
          .in = in,
          .out = config.required_count("out_features", 1),
          .has_bias = config.boolean("bias").value_or(true),
          .activation = dense_activation(config)};
}

bool pools_prompt(const JsonFile& pooling) { return pooling.boolean("include_prompt").value_or(true); }

void check_dimension(const JsonFile& config, size_t hidden_size) {
  const char* key = config.has("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
  const size_t dimension = config.count(key, 1).value_or(hidden_size);
  if (dimension != hidden_size) {
    throw config.error(std::string(key) + " is " + std::to_string(dimension) +
                       ", but the transformer gives " + std::to_string(hidden_size));
  }
}

}  // namespace

std::vector<PoolingMode> parse_pooling(const JsonFile& config) {
  std::vector<PoolingMode> modes;
  if (config.has("pooling_mode")) {
    const nlohmann::json& value = config.root().at("pooling_mode");
    if (!value.is_array()) return {parse_mode(config, value)};
    for (const auto& name : value) modes.push_back(parse_mode(config, name));
  } else {
    for (const ModeName& mode : kModes) {
      if (config.boolean(mode.flag).value_or(false)) modes.push_back(mode.mode);
    }
  }
  if (modes.empty()) modes.push_back(PoolingMode::kMean);
  return modes;
}

bool SentenceModules::pools(const ModelText& text) { return read_modules(text).size() > 1; }

bool SentenceModules::pools_prompts(const ModelText& text) {
  const auto modules = read_modules(text);
  const auto pooling = modules.size() < 2 ? std::nullopt : read_config(text, modules[1].path);
  return !pooling || pools_prompt(*pooling);
}

std::string SentenceModules::transformer_path(const ModelText& text) {
  const auto modules = read_modules(text);
  return modules.empty() ? "" : modules.front().path;
}

std::optional<SentenceModules> SentenceModules::read(const ModelText& text, const std::string& model,
                                                     size_t hidden_size) {
  const auto modules = read_modules(text);
  if (modules.empty()) return std::nullopt;
  if (modules.size() == 1) throw unpooled(modules);
  SentenceModules read;
  const JsonFile pooling = required_config(text, model, modules[1].path, "Pooling");
  read.pooling = parse_pooling(pooling);
  read.includes_prompt = pools_prompt(pooling);
  check_dimension(pooling, hidden_size);
  read.width = read.pooling.size() * hidden_size;
  for (const Module& module : std::span(modules).subspan(2)) {
    if (module.type == "Dense") {
      const JsonFile config = required_config(text, model, module.path, "Dense");
      read.width = read.steps.emplace_back(read_dense(config, module.path, read.width))->out;
    } else if (module.type == "Normalize") {
      if (const auto config = read_config(text, module.path)) check_features(*config);
      read.steps.emplace_back();
    } else {
      throw Error(std::string(kSentenceModulesFile) + ": module " + module.type +
                  " is not supported; supported are Transformer, Pooling, Dense and Normalize");
    }
  }
  return read;
}

}  // namespace crumb
