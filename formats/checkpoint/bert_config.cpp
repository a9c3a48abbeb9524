#include "formats/checkpoint/bert_config.h"

#include <algorithm>
#include <array>

namespace crumb {
namespace {

struct Named {
  std::string_view model_type;
  BertKind kind;
};

constexpr std::array<Named, 5> kKinds = {{{"bert", BertKind::kBert},
                                          {"camembert", BertKind::kRoberta},
                                          {"mpnet", BertKind::kMpnet},
                                          {"roberta", BertKind::kRoberta},
                                          {"xlm-roberta", BertKind::kRoberta}}};

/// Buckets of transformers' MPNet, whatever its configuration says of the table.
constexpr size_t kMpnetBuckets = 32;

BertKind kind_of(const JsonFile& file) {
  const auto type = file.string("model_type");
  if (!type) throw file.error("it has no \"model_type\"; supported are " + BertConfig::known());
  const auto* const found = std::ranges::find(kKinds, *type, &Named::model_type);
  if (found == kKinds.end())
    throw file.error("the architecture is \"" + *type + "\"; supported are " + BertConfig::known());
  const std::string positions = file.string("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    throw file.error("position_embedding_type is \"" + positions + "\"; supported is \"absolute\"");
  }
  if (file.boolean("is_decoder").value_or(false)) throw file.error("it is a decoder; supported are encoders");
  return found->kind;
}

void read_positions(const JsonFile& file, BertConfig& config) {
  config.max_positions = file.required_count("max_position_embeddings", 2);
  if (config.kind == BertKind::kBert) return;
  // MPNet's is 1 in the code of transformers, whatever the file says.
  config.padding_id = config.kind == BertKind::kMpnet ? 1 : file.count("pad_token_id").value_or(1);
  constexpr size_t kShortestText = 2;  // the first and the last token
  if (config.max_positions < *config.padding_id + 1 + kShortestText)
    throw file.error("max_position_embeddings is " + std::to_string(config.max_positions) +
                     ", and positions begin behind that of padding, " + std::to_string(*config.padding_id) +
                     ": expected at least " + std::to_string(*config.padding_id + 1 + kShortestText));
}

void read_tables(const JsonFile& file, BertConfig& config) {
  if (config.kind != BertKind::kMpnet) {
    config.type_vocab_size = file.count("type_vocab_size", 1).value_or(2);
    return;
  }
  config.relative_buckets = file.count("relative_attention_num_buckets", 1).value_or(kMpnetBuckets);
  if (config.relative_buckets < kMpnetBuckets)
    throw file.error("relative_attention_num_buckets is " + std::to_string(config.relative_buckets) +
                     ", expected at least " + std::to_string(kMpnetBuckets) +
                     ": distances have that many buckets");
}

}  // namespace

bool BertConfig::knows(std::string_view model_type) {
  return std::ranges::find(kKinds, model_type, &Named::model_type) != kKinds.end();
}

std::string BertConfig::known() {
  std::string text;
  for (const Named& kind : kKinds) text += (text.empty() ? "" : ", ") + std::string(kind.model_type);
  return text;
}

BertConfig BertConfig::parse(const JsonFile& file) {
  BertConfig config;
  config.kind = kind_of(file);
  config.hidden_size = file.required_count("hidden_size", 1);
  config.num_layers = file.required_count("num_hidden_layers", 0);
  config.num_heads = file.required_count("num_attention_heads", 1);
  config.intermediate_size = file.required_count("intermediate_size", 1);
  config.vocab_size = file.required_count("vocab_size", 1);
  read_positions(file, config);
  read_tables(file, config);
  if (config.hidden_size % config.num_heads != 0) {
    throw file.error("hidden_size " + std::to_string(config.hidden_size) +
                     " is no multiple of num_attention_heads " + std::to_string(config.num_heads));
  }
  const double epsilon = file.number("layer_norm_eps").value_or(1e-12);
  if (!(epsilon >= 0 && epsilon < 1)) throw file.error("layer_norm_eps must lie in [0, 1)");
  config.layer_norm_eps = static_cast<float>(epsilon);
  const std::string name = file.string("hidden_act").value_or("gelu");
  const auto activation = parse_activation(name);
  if (!activation) {
    throw file.error("hidden_act is \"" + name +
                     "\"; supported are gelu, gelu_new, gelu_pytorch_tanh, relu and silu");
  }
  config.activation = *activation;
  return config;
}

}  // namespace crumb
