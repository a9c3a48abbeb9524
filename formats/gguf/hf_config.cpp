#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/gguf/config_keys.h"
#include "formats/gguf/hf_files.h"
#include "formats/rotary_factors.h"

namespace crumb {
namespace {

using Json = nlohmann::ordered_json;

/// The shortest decimal that gives the float32 that was stored: 1e-05, not 9.99999974737875e-06.
double shortest(double value) {
  const auto narrow = static_cast<float>(value);
  if (static_cast<double>(narrow) != value) return value;
  return std::strtod(number_text(narrow).c_str(), nullptr);
}

void put_natural(Json& config, const char* name, const std::optional<std::uint64_t>& value) {
  if (value) config[name] = *value;
}

void put_number(Json& config, const char* name, const std::optional<double>& value) {
  if (value) config[name] = shortest(*value);
}

template <class T>
void put_unless_there(Json& config, const char* name, T value) {
  if (!config.contains(name)) config[name] = value;
}

void put_gemma(Json& config, const GgufArchitecture& architecture, std::uint64_t head, std::uint64_t hidden,
               std::uint64_t heads) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  // The 27B models alone scale by another width than the head's.
  const std::uint64_t largest = architecture.name == "gemma2" ? 46 : 62;
  const bool is_largest = config["num_hidden_layers"] == largest && heads != 0;
  config["query_pre_attn_scalar"] = is_largest ? hidden / heads : head;
  if (architecture.name == "gemma3") put_unless_there(config, "rope_local_base_freq", 1e4);
}

Json list_of(const std::vector<float>& factors) {
  Json list = Json::array();
  for (const float factor : factors) list.push_back(shortest(static_cast<double>(factor)));
  return list;
}

/// The factor of queries and keys, where the file has one that is not the usual one.
void put_attention_factor(Json& scaling, const std::optional<double>& found, double usual) {
  if (found && std::abs(*found - usual) > 1e-6 * usual) scaling["attention_factor"] = shortest(*found);
}

void put_longrope(Json& config, GgufFields& fields, const std::string& prefix, const GgufTensorFacts& facts) {
  Json scaling = {{"type", "longrope"},
                  {"short_factor", list_of(facts.short_factors)},
                  {"long_factor", list_of(facts.long_factors)}};
  const std::uint64_t length = config["max_position_embeddings"];
  put_unless_there(config, kOriginalContext, length);
  const std::uint64_t original = config[kOriginalContext];
  put_attention_factor(scaling, fields.number(prefix + "rope.scaling.attn_factor"),
                       usual_longrope_factor(static_cast<double>(length) / static_cast<double>(original),
                                             static_cast<double>(original)));
  config["rope_scaling"] = std::move(scaling);
}

void put_yarn(Json& config, GgufFields& fields, const std::string& prefix) {
  const double factor = fields.number(prefix + "rope.scaling.factor").value_or(1);
  Json scaling = {{"rope_type", "yarn"}, {"factor", shortest(factor)}};
  put_natural(scaling, kOriginalContext, fields.natural(prefix + "rope.scaling.original_context_length"));
  // llama.cpp multiplies by both.
  if (const auto further = fields.number(prefix + "rope.scaling.attn_factor"))
    put_attention_factor(scaling, *further * usual_yarn_factor(factor), usual_yarn_factor(factor));
  config["rope_scaling"] = std::move(scaling);
}

/// By which positions are divided where no type, or a linear one, says so, as llama.cpp reads it: by an older
/// key, too; 0 is none.
double factor_in(GgufFields& fields, const std::string& prefix) {
  const std::optional<double> newer = fields.number(prefix + "rope.scaling.factor");
  const double factor = newer ? *newer : fields.number(prefix + "rope.scale_linear").value_or(1);
  return factor == 0 ? 1 : factor;
}

/// What of a decoder config.json cannot say.
void refuse_what_differs(GgufFields& fields, const GgufArchitecture& architecture, std::uint64_t head) {
  const std::string prefix(std::string(architecture.name) + ".");
  if (!fields.flag(prefix + "attention.causal").value_or(true))
    fields.refuse(prefix + "attention.causal",
                  "it is false, expected true: supported are decoders, which see what came before");
  const auto expect_head = [&](const char* name) {
    if (const auto found = fields.natural(prefix + name); found && *found != head)
      fields.refuse(prefix + name, "it is " + std::to_string(*found) + ", expected a head's " +
                                       std::to_string(head) + " elements");
  };
  expect_head("attention.value_length");
  if (architecture.name != "phi3") expect_head("rope.dimension_count");
}

void put_rope_scaling(Json& config, GgufFields& fields, const std::string& prefix,
                      const GgufTensorFacts& facts) {
  const std::string key = prefix + "rope.scaling.type";
  const std::optional<std::string_view> type = fields.text(key);
  const auto expect_one = [&](const char* name) {
    if (const auto found = fields.number(prefix + name); found && *found != 1)
      fields.refuse(prefix + name, "it is " + number_text(*found) + ", expected 1" +
                                       (type ? " where " + key + " is " + quote_text(*type) : ""));
  };
  const bool has_divisors = facts.rope || !facts.short_factors.empty() || !facts.long_factors.empty();
  if (has_divisors && type != "none" && factor_in(fields, prefix) != 1)
    fields.refuse(key, "positions are divided by " + number_text(factor_in(fields, prefix)) +
                           ", and by a tensor's factors; expected one of them");
  if (facts.rope) {
    expect_one("rope.scaling.attn_factor");
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", facts.rope->factor},
                              {"low_freq_factor", facts.rope->low},
                              {"high_freq_factor", facts.rope->high},
                              {kOriginalContext, facts.rope->context}};
    return;
  }
  const bool has_factors = !facts.short_factors.empty() && !facts.long_factors.empty();
  if (has_factors && (!type || *type == "none" || *type == "longrope"))
    return put_longrope(config, fields, prefix, facts);
  if (!facts.short_factors.empty() || !facts.long_factors.empty() || type == "longrope")
    return fields.refuse(
        key, "it is " + (type ? quote_text(*type) : "not there") + ", with " +
                 (facts.short_factors.empty() ? "no" : "the") + " tensor " + std::string(kShortRopeFactors) +
                 " and " + (facts.long_factors.empty() ? "no" : "the") + " tensor " +
                 std::string(kLongRopeFactors) + ", expected both and 'longrope', or neither");
  if (type == "yarn") return put_yarn(config, fields, prefix);
  expect_one("rope.scaling.attn_factor");
  if (type == "none") return;
  if (type && *type != "linear")
    return fields.refuse(key,
                         "it is " + quote_text(*type) + ", expected 'none', 'linear', 'yarn' or 'longrope'");
  const double factor = factor_in(fields, prefix);
  if (type || factor != 1) config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", shortest(factor)}};
}

}  // namespace

std::uint64_t gguf_head_size(GgufFields& fields, const std::string& architecture) {
  if (const auto size = fields.natural(architecture + ".attention.key_length")) return *size;
  const std::uint64_t heads = fields.needed(architecture + ".attention.head_count");
  return heads == 0 ? 0 : fields.needed(architecture + ".embedding_length") / heads;
}

std::uint64_t gguf_rotary_size(GgufFields& fields, const std::string& architecture) {
  return fields.natural(architecture + ".rope.dimension_count")
      .value_or(gguf_head_size(fields, architecture));
}

std::string make_config(GgufFields& fields, const GgufArchitecture& architecture,
                        const GgufTensorFacts& facts) {
  const std::string prefix(std::string(architecture.name) + ".");
  Json config = {{"architectures", {std::string(architecture.class_name)}},
                 {"model_type", std::string(architecture.model_type)},
                 {"vocab_size", facts.vocabulary},
                 {"tie_word_embeddings", !facts.has_output},
                 {"torch_dtype", "float32"}};
  for (const GgufConfigKey& key : kGgufConfigKeys) {
    if (!key.is_of(architecture.name)) continue;
    const std::string name = prefix + key.gguf;
    switch (key.kind) {
      case GgufConfigKey::Kind::kNeeded: config[key.hf] = fields.needed(name); break;
      case GgufConfigKey::Kind::kNatural: put_natural(config, key.hf, fields.natural(name)); break;
      case GgufConfigKey::Kind::kNumber: put_number(config, key.hf, fields.number(name)); break;
    }
  }
  const std::uint64_t hidden = config["hidden_size"], heads = config["num_attention_heads"];
  const std::uint64_t head = gguf_head_size(fields, std::string(architecture.name));
  config["head_dim"] = head;
  refuse_what_differs(fields, architecture, head);
  put_unless_there(config, "num_key_value_heads", heads);
  put_unless_there(config, "rope_theta", architecture.name == "gemma3" ? 1e6 : 1e4);
  put_rope_scaling(config, fields, prefix, facts);
  if (architecture.is_gemma)
    put_gemma(config, architecture, head, hidden, heads);
  else
    config["hidden_act"] = "silu";
  if (facts.has_attention_bias && architecture.name != "qwen2") config["attention_bias"] = true;
  if (facts.has_mlp_bias) config["mlp_bias"] = true;
  if (architecture.name == "phi3") {
    const std::uint64_t rotary_size = gguf_rotary_size(fields, std::string(architecture.name));
    if (rotary_size < head)
      config["partial_rotary_factor"] = static_cast<double>(rotary_size) / static_cast<double>(head);
  }
  put_natural(config, "bos_token_id", fields.natural("tokenizer.ggml.bos_token_id"));
  put_natural(config, "eos_token_id", fields.natural("tokenizer.ggml.eos_token_id"));
  // Without it transformers takes the architecture's usual one, which may lie outside the vocabulary.
  config["pad_token_id"] = nullptr;
  put_natural(config, "pad_token_id", fields.natural("tokenizer.ggml.padding_token_id"));
  return config.dump(2) + "\n";
}

std::string make_generation_config(GgufFields& fields) {
  Json config = Json::object();
  put_natural(config, "bos_token_id", fields.natural("tokenizer.ggml.bos_token_id"));
  std::vector<std::uint64_t> ends;
  for (const char* key : kGgufEndTokens) {
    const auto end = fields.natural(key);
    if (end && std::ranges::find(ends, *end) == ends.end()) ends.push_back(*end);
  }
  if (ends.size() == 1) config["eos_token_id"] = ends[0];
  if (ends.size() > 1) config["eos_token_id"] = ends;
  put_natural(config, "pad_token_id", fields.natural("tokenizer.ggml.padding_token_id"));
  return config.dump(2) + "\n";
}

}  // namespace crumb
