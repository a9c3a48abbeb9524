#include "tests/fuzz/calls_models.h"

#include <limits>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/packed/crumb_graph.h"
#include "graph/quantize/key_cache.h"

namespace crumb::testing {
namespace {

using graph::Dim;
using graph::ElementType;

graph::Tensor weight(std::int64_t rows, std::int64_t columns, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    values.push_back(static_cast<float>(static_cast<int>((i * 7 + seed * 5) % 13) - 6) / 4);
  return graph::Tensor::floats({rows, columns}, values);
}

/// logits = (x + attention(x Wq, x Wk, x Wv)) Wh of x = table[ids].
graph::Graph network(bool past_in_place) {
  graph::Graph made;
  made.opsets[""] = 24;
  const auto node = [&](const char* op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
    made.nodes.push_back({.name = "n_" + outputs[0],
                          .op = op,
                          .domain = "",
                          .version = 24,
                          .inputs = std::move(inputs),
                          .outputs = std::move(outputs),
                          .attributes = {}});
  };
  const auto value = [&](const char* name, ElementType type, graph::Shape shape) {
    made.values[name] = {type, std::move(shape), {}};
    return name;
  };
  const auto places = [](const char* size) {
    return graph::Shape{Dim("batch"), Dim(std::int64_t{1}), Dim(size), Dim(kWidth)};
  };
  made.inputs = {value("input_ids", ElementType::kInt64, {Dim("batch"), Dim("sequence")}),
                 value("past_key_values.0.key", ElementType::kFloat, places("past")),
                 value("past_key_values.0.value", ElementType::kFloat, places("past"))};
  made.outputs = {value("logits", ElementType::kFloat, {Dim("batch"), Dim("sequence"), Dim(kWords)}),
                  value("present.0.key", ElementType::kFloat, places("all")),
                  value("present.0.value", ElementType::kFloat, places("all"))};
  std::vector<float> table;
  for (std::int64_t i = 0; i < kWords * kWidth; ++i)
    table.push_back(static_cast<float>(i * 5 % 11) / 8 - 0.5F);
  table[static_cast<std::size_t>(kWords * kWidth) - 1] = std::numeric_limits<float>::quiet_NaN();
  made.initializers["table"] = graph::Tensor::floats({kWords, kWidth}, table);
  int seed = 0;
  for (const char* name : {"wq", "wk", "wv"}) made.initializers[name] = weight(kWidth, kWidth, ++seed);
  made.initializers["head"] = weight(kWidth, kWords, ++seed);
  node("Gather", {"table", "input_ids"}, {"x"});
  node("MatMul", {"x", "wq"}, {"q"});
  node("MatMul", {"x", "wk"}, {"k"});
  node("MatMul", {"x", "wv"}, {"v"});
  std::string past = "past_key_values.0.key";
  if (!past_in_place) {
    node("Neg", {past}, {"minus"});
    node("Neg", {"minus"}, {"again"});
    past = "again";
  }
  node("Attention", {"q", "k", "v", "", past, "past_key_values.0.value"},
       {"attended", "present.0.key", "present.0.value"});
  made.nodes.back().attributes = {
      {"q_num_heads", std::int64_t{1}}, {"kv_num_heads", std::int64_t{1}}, {"is_causal", std::int64_t{1}}};
  node("Add", {"x", "attended"}, {"y"});
  node("MatMul", {"y", "head"}, {"logits"});
  return made;
}

/// Words a to j behind [UNK] and <s>.
std::string tokenizer_json(bool has_first) {
  std::string vocabulary = R"("[UNK]": 0, "<s>": 1)";
  for (int i = 2; i < kWords; ++i)
    vocabulary += std::string(", \"") + static_cast<char>('a' + i - 2) + "\": " + std::to_string(i);
  const std::string frame =
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
  "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
  "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}})";
  return R"({"version": "1.0", "added_tokens": [{"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
  "normalized": false, "special": true}], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": )" +
         (has_first ? frame : "null") +
         R"(, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": false},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
  "max_input_chars_per_word": 100, "vocab": {)" +
         vocabulary + "}}}";
}

std::string config_json(bool switches) {
  const std::string sizes =
      R"("hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
  "num_key_value_heads": 1, "vocab_size": 12, "max_position_embeddings": 24, "eos_token_id": 2)";
  if (!switches) return R"({"model_type": "llama", )" + sizes + "}";
  return R"({"model_type": "phi3", "original_max_position_embeddings": 8,
  "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [1.0, 4.0]}, )" +
         sizes + "}";
}

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}{% if add_generation_prompt %}a{% endif "
    "%}";

graph::Graph network_of(std::size_t model) {
  graph::Graph made = network(model != 1);
  if (model != 2) return made;
  return graph::with_quantized_cache(graph::infer_shapes(std::move(made)), QuantSpec::parse_cache("int8"));
}

}  // namespace

void write_model(std::size_t model, const std::filesystem::path& path) {
  graph::write_crumb_graph(network_of(model), path,
                           {.files = {{"config.json", config_json(model == 1)},
                                      {"tokenizer.json", tokenizer_json(model != 1)},
                                      {"chat_template.jinja", kTemplate}}});
}

}  // namespace crumb::testing
