#include "formats/checkpoint/stored_quantization.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/files/text.h"
#include "base/json/bounded_json.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Of config.json.
constexpr std::array<const char*, 2> kQuantizationKeys = {"quantization_config", "compression_config"};

std::string text_of_json(const json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

const json* quantization_in(const json* config) {
  if (config == nullptr) return nullptr;
  for (const char* key : kQuantizationKeys)
    if (const auto found = config->find(key); found != config->end() && !found->is_null()) return &*found;
  return nullptr;
}

bool forget_quantization(json& config) {
  std::size_t erased = 0;
  for (const char* key : kQuantizationKeys) erased += config.erase(key);
  return erased > 0;
}

Result<json> read_modelopt_config(const fs::path& path) {
  const Result<json> config = read_bounded_json(path.string());
  if (!config.ok()) return config.failure();
  const auto part = config.value().is_object() ? config.value().find("quantization") : config.value().end();
  if (!config.value().is_object() || part == config.value().end() || !part->is_object())
    return Failure{quote_text(path.native()) + ": expected a JSON object with an object \"quantization\""};
  const auto algorithm = part->find("quant_algo");
  if (algorithm == part->end() || algorithm->is_null()) return json();
  return json{{"quant_method", "modelopt"}, {"quant_algo", *algorithm}};
}

Result<json> read_gptq_config(const fs::path& path) {
  Result<json> config = read_bounded_json(path.string());
  if (!config.ok()) return config;
  if (!config.value().is_object()) return Failure{quote_text(path.native()) + ": expected a JSON object"};
  if (!config.value().contains("quant_method")) config.value()["quant_method"] = "gptq";
  return config;
}

std::optional<std::string> why_quantized(const json* config, const json& modelopt,
                                         const std::vector<TensorEntry>& tensors) {
  if (config != nullptr) {
    for (const char* key : kQuantizationKeys) {
      const auto found = config->find(key);
      if (found == config->end() || found->is_null()) continue;
      const auto method = found->is_object() ? found->find("quant_method") : found->end();
      return std::string("config.json has ") + key +
             (method != found->end() && method->is_string()
                  ? " (quant_method " + quote_text(method->get_ref<const std::string&>()) + ")"
                  : " (without a quant_method)");
    }
  }
  if (const auto algorithm = modelopt.find("quant_algo"); algorithm != modelopt.end())
    return std::string(kModelOptConfig) + " has the quant_algo " + quote_text(text_of_json(*algorithm));
  for (const TensorEntry& tensor : tensors) {
    const std::size_t dot = tensor.name.rfind('.');
    const std::string prefix = dot == std::string::npos ? "" : tensor.name.substr(0, dot + 1);
    const std::string_view last = std::string_view(tensor.name).substr(prefix.size());
    if (last == "qweight" || last == "qzeros" || last == "weight_packed")
      return "it holds the tensor " + quote_text(tensor.name);
  }
  return std::nullopt;
}

}  // namespace crumb
