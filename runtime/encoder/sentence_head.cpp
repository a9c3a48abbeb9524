#include "runtime/encoder/sentence_head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "formats/error.h"
#include "formats/json/bounded_json.h"
#include "runtime/tokenizer/json_file.h"

namespace crumb::runtime {
namespace {

constexpr const char* kModulesFile = "modules.json";

struct Module {
  std::string type;  ///< the class without its Python package: "Pooling"
  std::string path;
};

std::string text_of(const nlohmann::json& module, const char* key) {
  const auto value = module.is_object() ? module.find(key) : module.end();
  if (!module.is_object() || value == module.end() || !value->is_string()) {
    throw Error(std::string(kModulesFile) + ": a module has no \"" + key + "\"");
  }
  return value->get<std::string>();
}

/// Empty without modules.json; else a Transformer first, and the path of each module ends in "/" unless
/// empty.
std::vector<Module> read_modules(const WeightSource& source) {
  std::vector<Module> modules;
  const auto text = source.file(kModulesFile);
  if (!text) return modules;
  const auto list = parse_bounded_json(std::as_bytes(std::span(*text))).take(kModulesFile);
  if (!list.is_array()) throw Error(std::string(kModulesFile) + ": expected a list of modules");
  for (const auto& entry : list) {
    Module module{text_of(entry, "type"), text_of(entry, "path")};
    module.type = module.type.substr(module.type.rfind('.') + 1);
    if (!module.path.empty() && !module.path.ends_with('/')) module.path += '/';
    modules.push_back(std::move(module));
  }
  if (modules.size() < 2 || modules[0].type != "Transformer" || modules[1].type != "Pooling") {
    throw Error(std::string(kModulesFile) + ": expected a Transformer and a Pooling module first, found " +
                (modules.empty() ? "none" : modules[0].type) +
                (modules.size() < 2 ? "" : ", " + modules[1].type));
  }
  return modules;
}

std::optional<JsonFile> read_config(const WeightSource& source, const std::string& path) {
  const auto text = source.file(path + "config.json");
  return text ? std::optional<JsonFile>(std::in_place, path + "config.json", *text) : std::nullopt;
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

void normalize_length(std::span<float> vector) {
  constexpr float kLeastNorm = 1e-12F;
  const float norm = std::sqrt(lane_sum(vector, [](float x) { return x * x; }));
  for (float& x : vector) x /= std::max(norm, kLeastNorm);
}

}  // namespace

std::string SentenceHead::transformer_path(const WeightSource& source) {
  const auto modules = read_modules(source);
  return modules.empty() ? "" : modules.front().path;
}

void SentenceHead::add_dense(const WeightSource& source, const std::string& path) {
  const auto config = read_config(source, path);
  if (!config)
    throw Error(source.describe() + " has no " + path + "config.json, which its Dense module needs");
  check_features(*config);
  if (config->boolean("use_residual").value_or(false)) throw config->error("use_residual is not supported");
  if (config->required_count("in_features", 1) != width_) {
    throw config->error("in_features is " + std::to_string(config->required_count("in_features", 1)) +
                        ", but the module before gives " + std::to_string(width_));
  }
  if (!source.has(path + "linear.weight")) {
    throw Error(source.describe() + ": its Dense module " + path +
                " has its weights in a file of its own; such models are not supported yet");
  }
  const size_t out = config->required_count("out_features", 1);
  const bool with_bias = config->boolean("bias").value_or(true);
  steps_.push_back(
      {Linear::load(source, path + "linear", width_, out, with_bias), dense_activation(*config)});
  width_ = out;
}

SentenceHead SentenceHead::load(const WeightSource& source, size_t hidden_size) {
  SentenceHead head;
  head.hidden_size_ = hidden_size;
  head.pooling_ = {PoolingMode::kMean};
  head.width_ = hidden_size;
  const auto modules = read_modules(source);
  if (modules.empty()) return head;

  if (const auto config = read_config(source, modules[1].path)) {
    head.pooling_ = parse_pooling(*config);
    const char* key = config->has("embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
    const size_t dimension = config->count(key, 1).value_or(hidden_size);
    if (dimension != hidden_size) {
      throw config->error(std::string(key) + " is " + std::to_string(dimension) +
                          ", but the transformer gives " + std::to_string(hidden_size));
    }
  } else {
    throw Error(source.describe() + " has no " + modules[1].path +
                "config.json, which its Pooling module needs");
  }
  head.width_ = head.pooling_.size() * hidden_size;
  for (size_t i = 2; i < modules.size(); ++i) {
    const Module& module = modules[i];
    if (module.type == "Dense") {
      head.add_dense(source, module.path);
    } else if (module.type == "Normalize") {
      if (const auto config = read_config(source, module.path)) check_features(*config);
      head.steps_.emplace_back();
    } else {
      throw Error(std::string(kModulesFile) + ": module " + module.type +
                  " is not supported; supported are Transformer, Pooling, Dense and Normalize");
    }
  }
  return head;
}

void SentenceHead::apply(std::span<const float> states, std::span<float> out) const {
  std::vector<float> vector(pooling_.size() * hidden_size_);
  pool(states, hidden_size_, pooling_, vector);
  for (const Step& step : steps_) {
    if (!step.dense) {
      normalize_length(vector);
      continue;
    }
    std::vector<float> next(step.dense->weight->rows());
    step.dense->apply(vector, 1, next);
    activate(step.activation, next);
    vector = std::move(next);
  }
  std::ranges::copy(vector, out.begin());
}

}  // namespace crumb::runtime
