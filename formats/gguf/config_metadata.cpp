#include <nlohmann/json.hpp>

#include "base/files/text.h"
#include "formats/gguf/config_keys.h"
#include "formats/gguf/gguf_metadata.h"

namespace crumb {
namespace {

using ConfigJson = nlohmann::json;

std::optional<double> number_in(const ConfigJson& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}

Result<std::uint32_t> natural_in(const ConfigJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > UINT32_MAX)
    return Failure{"config.json: \"" + std::string(key) + "\" must be a natural number below 2^32"};
  return static_cast<std::uint32_t>(found->get<std::uint64_t>());
}

/// "rope_scaling" or "rope_parameters"; null where there is none.
const ConfigJson* scaling_of(const ConfigJson& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object()) return &*found;
  }
  return nullptr;
}

std::string type_of_scaling(const ConfigJson* scaling) {
  if (scaling == nullptr) return "default";
  for (const char* key : {"rope_type", "type"}) {
    const auto found = scaling->find(key);
    if (found != scaling->end() && found->is_string()) return found->get<std::string>();
  }
  return "default";
}

}  // namespace

Result<std::optional<Llama3Scaling>> find_llama3_parameters(const ConfigJson& config) {
  const ConfigJson* const scaling = scaling_of(config);
  if (type_of_scaling(scaling) != "llama3") return std::optional<Llama3Scaling>();
  const auto factor = number_in(*scaling, "factor"), low = number_in(*scaling, "low_freq_factor"),
             high = number_in(*scaling, "high_freq_factor");
  // The file's own is stronger, as in parse_rotation().
  constexpr const char* kContext = "original_max_position_embeddings";
  auto context = number_in(config, kContext);
  if (!context) context = number_in(*scaling, kContext);
  if (!context) context = number_in(config, "max_position_embeddings");
  if (!factor || !low || !high || !context)
    return Failure{
        "config.json: the rotary scaling llama3 needs factor, low_freq_factor, high_freq_factor "
        "and original_max_position_embeddings"};
  return std::optional(Llama3Scaling{
      .factor = *factor, .low = *low, .high = *high, .context = static_cast<std::uint64_t>(*context)});
}

Result<std::vector<GgufPair>> config_metadata(const GgufArchitecture& architecture,
                                              const ConfigJson& config) {
  const std::string name(architecture.name), prefix = name + ".";
  std::vector<GgufPair> made = {{"general.architecture", name}, {"general.type", std::string("model")}};
  const auto put = [&](const char* key, GgufDatum value) {
    made.push_back({prefix + key, std::move(value)});
  };
  for (const GgufConfigKey& key : kGgufConfigKeys) {
    if (!key.is_of(architecture.name)) continue;
    const auto found = config.find(key.hf);
    if (found == config.end() || found->is_null()) {
      if (key.kind == GgufConfigKey::Kind::kNeeded)
        return Failure{"config.json: \"" + std::string(key.hf) + "\" is missing"};
      continue;
    }
    if (key.kind == GgufConfigKey::Kind::kNumber) {
      const auto number = number_in(config, key.hf);
      if (!number) return Failure{"config.json: \"" + std::string(key.hf) + "\" must be a number"};
      put(key.gguf, static_cast<float>(*number));
      continue;
    }
    const Result<std::uint32_t> natural = natural_in(config, key.hf);
    if (!natural.ok()) return natural.failure();
    put(key.gguf, natural.value());
  }
  for (const auto& [hf, gguf] :
       {std::pair("head_dim", "attention.value_length"), std::pair("rotary_size", "rope.dimension_count"),
        std::pair("vocab_size", "vocab_size")}) {
    const Result<std::uint32_t> natural = natural_in(config, hf);
    if (!natural.ok()) return natural.failure();
    put(gguf, natural.value());
  }
  const ConfigJson* const scaling = scaling_of(config);
  const std::string type = type_of_scaling(scaling);
  if (type == "linear") {
    put("rope.scaling.type", std::string("linear"));
    put("rope.scaling.factor", static_cast<float>(number_in(*scaling, "factor").value_or(1)));
  } else if (type != "default" && type != "llama3") {
    return Failure{"its rotary scaling is " + quote_text(type) +
                   "; to GGUF go the default, linear and llama3"};
  }
  return made;
}

}  // namespace crumb
