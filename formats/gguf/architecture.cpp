#include "formats/gguf/architecture.h"

#include <algorithm>
#include <array>
#include <utility>

namespace crumb {
namespace {

constexpr std::array<GgufArchitecture, 8> kArchitectures = {{
    {"llama", "llama", "LlamaForCausalLM", true, false, false, GgufBiases::kAll},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", false, false, false, GgufBiases::kOfQkv},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", false, false, false},
    {"gemma2", "gemma2", "Gemma2ForCausalLM", false, true, true},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", false, true, true},
    {"phi3", "phi3", "Phi3ForCausalLM", false, false, false},
    {"olmo2", "olmo2", "Olmo2ForCausalLM", false, false, false},
    {"smollm3", "smollm3", "SmolLM3ForCausalLM", true, false, false},
}};

constexpr std::array<GgufLayerName, 2> kOutside = {{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
}};

/// Of every architecture, unless its own table below says otherwise.
constexpr std::array<GgufLayerName, 9> kCommon = {{
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"attn_norm", "input_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
}};

constexpr std::array<GgufLayerName, 2> kQwen3 = {{
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
}};

constexpr std::array<GgufLayerName, 5> kGemma = {{
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
}};

constexpr std::array<GgufLayerName, 2> kPhi3 = {{
    {"attn_qkv", "self_attn.qkv_proj"},
    {"ffn_up", "mlp.gate_up_proj"},
}};

constexpr std::array<GgufLayerName, 6> kOlmo2 = {{
    {"attn_norm", ""},  // norms stand behind, not before
    {"ffn_norm", ""},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
}};

std::span<const GgufLayerName> own_names(const GgufArchitecture& architecture) {
  if (architecture.is_gemma) return kGemma;
  if (architecture.name == "qwen3") return kQwen3;
  if (architecture.name == "phi3") return kPhi3;
  if (architecture.name == "olmo2") return kOlmo2;
  return {};
}

/// By a transformers name; one that an own name stands before does not count.
std::optional<std::string_view> find_gguf_name(const GgufArchitecture& architecture, std::string_view hf) {
  const std::span<const GgufLayerName> own = own_names(architecture);
  for (const GgufLayerName& name : own)
    if (name.hf == hf) return name.gguf;
  for (const GgufLayerName& name : kCommon)
    if (name.hf == hf && std::ranges::find(own, name.gguf, &GgufLayerName::gguf) == own.end())
      return name.gguf;
  return std::nullopt;
}

std::optional<std::string_view> find_name(std::span<const GgufLayerName> names, std::string_view gguf) {
  const auto found = std::ranges::find(names, gguf, &GgufLayerName::gguf);
  return found == names.end() ? std::nullopt : std::optional(found->hf);
}

constexpr std::string_view kLayer = "blk.", kHfLayer = "model.layers.";

/// The number behind `before`, without a sign or needless zeros; empty where it is none.
std::string_view layer_number(std::string_view name, std::string_view before = kLayer) {
  if (!name.starts_with(before)) return {};
  const std::string_view number = name.substr(before.size(), name.find('.', before.size()) - before.size());
  if (number.size() > 6 || (number.size() > 1 && number.front() == '0')) return {};
  return std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; }) ? number
                                                                                  : std::string_view();
}

/// The name, and ".weight" or ".bias" at its end; nothing where it ends in another way.
std::pair<std::string_view, std::string_view> cut_name(std::string_view name) {
  const std::size_t dot = std::min(name.rfind('.'), name.size());
  const std::string_view end = name.substr(dot);
  return end == ".weight" || end == ".bias" ? std::pair(name.substr(0, dot), end)
                                            : std::pair(name, std::string_view());
}

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() { return kArchitectures; }

const GgufArchitecture* find_gguf_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &GgufArchitecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

const GgufArchitecture* find_gguf_architecture_of(std::string_view model_type) {
  if (model_type == "mistral") model_type = "llama";
  const auto found = std::ranges::find(kArchitectures, model_type, &GgufArchitecture::model_type);
  return found == kArchitectures.end() ? nullptr : &*found;
}

std::string_view name_in_layer(std::string_view name) {
  const std::string_view number = layer_number(name);
  return number.empty() ? name : name.substr(std::min(name.size(), kLayer.size() + number.size() + 1));
}

bool interleaves_rows(const GgufArchitecture& architecture, std::string_view name) {
  const std::string_view part = name_in_layer(name);
  return architecture.interleaves_heads && (part.starts_with("attn_q.") || part.starts_with("attn_k."));
}

std::optional<std::string> hugging_face_name(const GgufArchitecture& architecture, std::string_view name) {
  const auto [stem, end] = cut_name(name);
  if (end.empty()) return std::nullopt;
  if (stem == "output" && end == ".weight") return "lm_head.weight";
  if (const auto outside = find_name(kOutside, stem)) return std::string(*outside).append(end);

  const std::string_view number = layer_number(stem);
  if (number.empty()) return std::nullopt;
  const std::string_view part = name_in_layer(stem);
  std::optional<std::string_view> found = find_name(own_names(architecture), part);
  if (!found) found = find_name(kCommon, part);
  if (!found || found->empty()) return std::nullopt;
  return "model.layers." + std::string(number) + "." + std::string(*found) + std::string(end);
}

std::optional<std::string> gguf_scale_name(std::string_view name) {
  const auto [stem, end] = cut_name(name);
  if (end != ".weight" || (layer_number(stem).empty() && stem != "output")) return std::nullopt;
  return std::string(stem) + ".scale";
}

std::optional<std::string> gguf_name(const GgufArchitecture& architecture, std::string_view name) {
  const auto [stem, end] = cut_name(name);
  if (end.empty()) return std::nullopt;
  if (name == "lm_head.weight") return "output.weight";
  for (const GgufLayerName& outside : kOutside)
    if (outside.hf == stem) return std::string(outside.gguf).append(end);
  const std::string_view number = layer_number(stem, kHfLayer);
  if (number.empty() || stem.size() <= kHfLayer.size() + number.size()) return std::nullopt;
  const auto found = find_gguf_name(architecture, stem.substr(kHfLayer.size() + number.size() + 1));
  if (!found) return std::nullopt;
  return std::string(kLayer) + std::string(number) + "." + std::string(*found) + std::string(end);
}

}  // namespace crumb
