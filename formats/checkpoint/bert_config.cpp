#include "formats/checkpoint/bert_config.h"

namespace crumb {
namespace {

void check_architecture(const JsonFile& file) {
  const auto type = file.string("model_type");
  if (!type) throw file.error("it has no \"model_type\"; supported is \"bert\"");
  if (*type != "bert") throw file.error("the architecture is \"" + *type + "\"; supported is \"bert\"");
  const std::string positions = file.string("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    throw file.error("position_embedding_type is \"" + positions + "\"; supported is \"absolute\"");
  }
  if (file.boolean("is_decoder").value_or(false)) throw file.error("it is a decoder; supported are encoders");
}

}  // namespace

BertConfig BertConfig::parse(const JsonFile& file) {
  check_architecture(file);
  BertConfig config;
  config.hidden_size = file.required_count("hidden_size", 1);
  config.num_layers = file.required_count("num_hidden_layers", 0);
  config.num_heads = file.required_count("num_attention_heads", 1);
  config.intermediate_size = file.required_count("intermediate_size", 1);
  config.vocab_size = file.required_count("vocab_size", 1);
  config.max_positions = file.required_count("max_position_embeddings", 2);
  config.type_vocab_size = file.count("type_vocab_size", 1).value_or(2);
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
