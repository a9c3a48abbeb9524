#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/gguf/config_keys.h"
#include "formats/gguf/gguf_metadata.h"
#include "formats/rotary_factors.h"

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

std::string type_of_scaling(const GgufArchitecture& architecture, const ConfigJson* scaling) {
  if (scaling == nullptr) return "default";
  for (const char* key : {"rope_type", "type"}) {
    const auto found = scaling->find(key);
    if (found == scaling->end() || !found->is_string()) continue;
    const std::string type = found->get<std::string>();
    // Names that one type had before, the second for a while in phi3 alone.
    return type == "su" || (type == "yarn" && architecture.name == "phi3") ? "longrope" : type;
  }
  return "default";
}

/// Divisors of frequencies for texts of all lengths, and nothing else: what rope_freqs.weight says of every
/// architecture.
bool has_divisors_alone(const ConfigJson& scaling) {
  const auto of_short = scaling.find("short_factor"), of_long = scaling.find("long_factor");
  return of_short != scaling.end() && of_long != scaling.end() && *of_short == *of_long &&
         number_in(scaling, "attention_factor").value_or(1) == 1;
}

Result<Llama3Scaling> llama3_of(const ConfigJson& scaling) {
  const auto factor = number_in(scaling, "factor"), low = number_in(scaling, "low_freq_factor"),
             high = number_in(scaling, "high_freq_factor"), context = number_in(scaling, kOriginalContext);
  if (!factor || !low || !high || !context)
    return Failure{
        "config.json: the rotary scaling llama3 needs factor, low_freq_factor, high_freq_factor "
        "and original_max_position_embeddings"};
  return Llama3Scaling{
      .factor = *factor, .low = *low, .high = *high, .context = static_cast<std::uint64_t>(*context)};
}

Result<std::vector<float>> factors_in(const ConfigJson& scaling, const char* key) {
  std::vector<float> factors;
  const auto list = scaling.find(key);
  const bool is_list =
      list != scaling.end() && list->is_array() &&
      std::ranges::all_of(*list, [](const ConfigJson& factor) { return factor.is_number(); });
  if (!is_list)
    return Failure{"config.json: the rotary scaling longrope needs a list of numbers " + quote_text(key)};
  for (const ConfigJson& factor : *list) factors.push_back(factor.get<float>());
  return factors;
}

/// What llama.cpp's YaRN has no word for; empty where there is nothing.
std::string beyond_llama_cpps_yarn(const ConfigJson& scaling) {
  for (const auto& [key, usual] : {std::pair("beta_fast", 32.0), std::pair("beta_slow", 1.0)}) {
    const double found = number_in(scaling, key).value_or(usual);
    if (found != 0 && found != usual)
      return std::string(key) + " is " + number_text(found) + ", and llama.cpp takes " + number_text(usual);
  }
  const auto truncate = scaling.find("truncate");
  if (truncate != scaling.end() && *truncate == false) return "truncate is false, and llama.cpp truncates";
  return {};
}

using Put = std::function<void(const char* key, GgufDatum value)>;

Status put_yarn(const ConfigJson& scaling, const Put& put) {
  if (const std::string why = beyond_llama_cpps_yarn(scaling); !why.empty())
    return Failure{"its rotary scaling is yarn, whose " + why};
  const Result<std::uint32_t> original = natural_in(scaling, kOriginalContext);
  if (!original.ok()) return original.failure();
  const double factor = number_in(scaling, "factor").value_or(1);
  put("rope.scaling.factor", static_cast<float>(factor));
  put("rope.scaling.original_context_length", original.value());
  const double further = number_in(scaling, "attention_factor").value_or(1) / usual_yarn_factor(factor);
  if (std::abs(further - 1) > 1e-6) put("rope.scaling.attn_factor", static_cast<float>(further));
  return {};
}

Status put_scaling(const GgufArchitecture& architecture, const ConfigJson& config, const Put& put) {
  const ConfigJson* const scaling = scaling_of(config);
  const std::string type = type_of_scaling(architecture, scaling);
  if (type == "default" || type == "llama3") return {};
  if (type == "longrope" && architecture.name != "phi3" && has_divisors_alone(*scaling)) return {};
  const bool is_phi3s = type == "longrope" && architecture.name == "phi3";
  if (type != "linear" && type != "yarn" && !is_phi3s)
    return Failure{"its rotary scaling is " + quote_text(type) +
                   "; to GGUF go the default, linear, llama3, yarn, and of phi3 longrope"};
  put("rope.scaling.type", type);
  if (type == "yarn") return put_yarn(*scaling, put);
  if (type == "linear")
    put("rope.scaling.factor", static_cast<float>(number_in(*scaling, "factor").value_or(1)));
  else
    put("rope.scaling.attn_factor", static_cast<float>(number_in(*scaling, "attention_factor").value_or(1)));
  return {};
}

}  // namespace

Result<std::vector<RopeTensor>> rope_tensors(const GgufArchitecture& architecture, const ConfigJson& config) {
  const ConfigJson* const scaling = scaling_of(config);
  const std::string type = type_of_scaling(architecture, scaling);
  std::vector<RopeTensor> made;
  if (type == "llama3") {
    const Result<Llama3Scaling> llama3 = llama3_of(*scaling);
    if (!llama3.ok()) return llama3.failure();
    const auto count = static_cast<std::size_t>(number_in(config, "rotary_size").value_or(0) / 2);
    RopeTensor& tensor = made.emplace_back(RopeTensor{std::string(kRopeFactors), {}});
    for (const double factor :
         llama3_factors(llama3.value(), number_in(config, "rope_theta").value_or(1e4), count))
      tensor.factors.push_back(static_cast<float>(factor));
  }
  if (type == "longrope" && architecture.name != "phi3") {
    Result<std::vector<float>> factors = factors_in(*scaling, "short_factor");
    if (!factors.ok()) return factors.failure();
    made.push_back({std::string(kRopeFactors), factors.take()});
  } else if (type == "longrope") {
    for (const auto& [name, key] :
         {std::pair(kLongRopeFactors, "long_factor"), std::pair(kShortRopeFactors, "short_factor")}) {
      Result<std::vector<float>> factors = factors_in(*scaling, key);
      if (!factors.ok()) return factors.failure();
      made.push_back({std::string(name), factors.take()});
    }
  }
  return made;
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
  if (const Status added = put_scaling(architecture, config, put); !added.ok()) return added.failure();
  return made;
}

}  // namespace crumb
