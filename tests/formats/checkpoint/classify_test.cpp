#include "formats/checkpoint/classify.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace crumb {
namespace {

TensorClass classified(const std::string& name, std::vector<std::uint64_t> shape = {8, 8},
                       DType dtype = DType::kF32) {
  return classify_tensor(name, dtype, shape);
}

TEST_CASE("names fall into words") {
  using Words = std::vector<std::string>;
  CHECK(name_words("encoder.LayerNorm2.weight") == Words{"encoder", "layer", "norm", "weight"});
  CHECK(name_words("RMSNorm.h0") == Words{"rms", "norm", "h"});
  CHECK(name_words("ln_f") == Words{"ln", "f"});
  CHECK(name_words("").empty());
  CHECK(name_words("..7_-").empty());
}

TEST_CASE("norms are kept, whatever they are called, and only norms") {
  for (const char* name :
       {"encoder.layer.0.attention.output.LayerNorm.weight", "embeddings.LayerNorm.weight",
        "transformer.h.0.ln_1.weight", "ln_f.weight", "model.layers.0.input_layernorm.weight",
        "final_layer_norm.weight", "rms_norm", "features.batchnorm1.weight", "bn1.weight",
        "model.norm.weight", "blocks.0.norm1.weight", "self_attn.q_norm.weight", "a.BatchNorm2d.gamma"}) {
    INFO(name);
    CHECK(classified(name).role == TensorRole::kKept);
    CHECK(classified(name).kept_because == "normalisation");
    CHECK(classified(name, {8}).kept_because == "normalisation");
  }
  for (const char* name :
       {"normal_proj.weight", "abnormal.weight", "denormalize_fc.weight", "lnear.weight", "subnet.0.weight",
        "norman.weight", "encoder.layer.0.attention.self.query.weight"}) {
    INFO(name);
    CHECK(classified(name).role == TensorRole::kWeight);
  }
}

TEST_CASE("embeddings, position and token-type tables") {
  for (const char* name : {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight",
                           "embeddings.token_type_embeddings.weight", "transformer.wte.weight", "wpe.weight",
                           "model.embed_tokens.weight", "tok_embeddings.weight", "pos_embed",
                           "encoder.position_table", "token_type.weight", "token_emb.weight",
                           "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                           "relative_position_bias_table"}) {
    INFO(name);
    CHECK(classified(name).role == TensorRole::kEmbedding);
    CHECK(classified(name).kept_because.empty());
  }
  for (const char* name : {"patch_embed.proj.weight", "embeddings.patch_embeddings.projection.weight",
                           "lm_head.weight", "member.weight", "embedded.weight", "pooler.dense.weight"}) {
    INFO(name);
    CHECK(classified(name).role == TensorRole::kWeight);
  }
}

TEST_CASE("what stays says why") {
  CHECK(classified("a.weight", {8}).kept_because == "one-dimensional");
  CHECK(classified("a.weight", {}).kept_because == "a scalar");
  CHECK(classified("a.bias", {8}).kept_because == "a bias");
  CHECK(classified("attn.bias", {1, 1, 8, 8}).kept_because == "a bias");
  CHECK(classified("lstm.bias_ih_l0", {32}).kept_because == "a bias");
  CHECK(classified("embeddings.position_ids", {1, 512}, DType::kI64).kept_because ==
        "not floating point (I64)");
  CHECK(classified("a.weight", {2, 2}, DType::kC64).kept_because == "not floating point (C64)");
  CHECK(classified("a.weight", {2, 2}, DType::kBool).kept_because == "not floating point (BOOL)");
  CHECK(classified("a.scales", {2, 2}, DType::kF8E8M0).kept_because == "scales (F8_E8M0)");
}

TEST_CASE("every floating type and every rank from two on is a weight") {
  for (const DTypeInfo& info : kDTypes)
    if (info.is_floating && info.dtype != DType::kF8E8M0)
      CHECK(classified("conv1.weight", {4, 4}, info.dtype).role == TensorRole::kWeight);
  for (std::size_t rank = 2; rank < 6; ++rank)
    CHECK(classified("x", std::vector<std::uint64_t>(rank, 2)).role == TensorRole::kWeight);
  CHECK(classified("", {2, 2}).role == TensorRole::kWeight);
  CHECK(classified("...", {2, 2}).role == TensorRole::kWeight);
  CHECK(classified("lstm.weight_ih_l0").role == TensorRole::kWeight);
  CHECK(classified("attn.in_proj_weight").role == TensorRole::kWeight);
}

TEST_CASE("the configuration tells a shared table from a layer that is called shared") {
  const std::vector<std::uint64_t> shape = {8, 8};
  const auto role = [&](const char* name, const char* config) {
    const nlohmann::json parsed = nlohmann::json::parse(config);
    return classify_tensor(name, DType::kF32, shape, &parsed).role;
  };
  CHECK(role("shared.weight", R"({"model_type":"t5"})") == TensorRole::kEmbedding);
  CHECK(role("model.shared.weight", R"({"is_encoder_decoder":true})") == TensorRole::kEmbedding);
  CHECK(role("shared.weight", R"({"model_type":"bert"})") == TensorRole::kWeight);
  CHECK(role("shared.weight", R"({"model_type":7,"is_encoder_decoder":"yes"})") == TensorRole::kWeight);
  CHECK(classified("shared.weight").role == TensorRole::kWeight);
}

}  // namespace
}  // namespace crumb
