// A rule means the same for a model's tensors, which crumb quantize plans without samples, and for its
// network, which it plans with stages, samples or activations.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "graph/buffers.h"
#include "graph/quantize/plan.h"
#include "graph/quantize/rules.h"
#include "models/fresh_network.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/recipe/name_pattern.h"
#include "tests/support/testing.h"

using crumb::QuantSpec;
using crumb::Recipe;
using crumb::Rule;
using crumb::SpecOrKeep;
using crumb::graph::Graph;

namespace {

const std::map<std::string, std::string> kConfigs = {
    {"llama", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32,
       "intermediate_size": 48, "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 2,
       "vocab_size": 40, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
       "rope_theta": 10000.0, "attention_bias": true, "tie_word_embeddings": false})"},
    {"tied",
     R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 32, "head_dim": 8,
       "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
       "vocab_size": 40, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
       "rope_theta": 10000.0, "tie_word_embeddings": true})"},
    {"fused", R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 32,
       "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
       "vocab_size": 40, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
       "rope_theta": 10000.0, "tie_word_embeddings": false, "pad_token_id": 1})"},
    {"encoder", R"({"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 32,
       "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 40,
       "type_vocab_size": 2, "max_position_embeddings": 64, "layer_norm_eps": 1e-12, "hidden_act": "gelu"})"},
};

constexpr const char* kLeftOut = "pooler.dense.weight";

/// A configuration's network, and the tensors that a checkpoint of it has.
struct Model {
  Graph graph;
  std::vector<crumb::TensorEntry> tensors;
};

Model model_of(const std::string& config) {
  const crumb::testing::TempDir folder;
  std::ofstream(folder.path() / "config.json") << config;
  Model model{.graph = crumb::models::fresh_network(folder.path() / "config.json", 1).graph, .tensors = {}};
  const std::set<std::string> buffers = crumb::graph::buffers(model.graph);
  const auto add = [&](const std::string& name, const std::vector<std::uint64_t>& shape) {
    crumb::TensorEntry entry;
    entry.name = name;
    entry.dtype = crumb::DType::kF32;
    entry.shape = shape;
    model.tensors.push_back(entry);
  };
  for (const auto& [name, tensor] : model.graph.initializers)
    if (tensor.type() == crumb::graph::ElementType::kFloat && !buffers.contains(name))
      add(name, {tensor.shape().begin(), tensor.shape().end()});
  add(kLeftOut, {32, 32});
  model.graph = crumb::graph::prepare(std::move(model.graph), Recipe{});
  return model;
}

/// What becomes of each tensor but the one that the network leaves out; nothing where a rule is refused.
using Plan = std::optional<std::map<std::string, std::string>>;

Plan plan_of_tensors(const Model& model, const Recipe& recipe) {
  std::map<std::string, std::string> specs;
  try {
    for (const crumb::PlannedTensor& planned : plan_tensors(model.tensors, nullptr, recipe))
      if (planned.entry->name != kLeftOut) specs[planned.entry->name] = to_string(planned.spec);
  } catch (const crumb::Error&) {
    return {};
  }
  return specs;
}

Plan plan_of_network(const Model& model, const Recipe& recipe) {
  const crumb::graph::Constants constants(model.graph);
  std::map<std::string, std::string> specs;
  try {
    for (const auto& [name, constant] : apply_rules(model.graph, constants, recipe, {kLeftOut}).constants)
      specs[name] = to_string(constant.spec);
  } catch (const crumb::Error&) {
    return {};
  }
  for (auto constant = specs.begin(); constant != specs.end();) {  // numbers of the network's own
    const bool is_stored =
        std::ranges::find(model.tensors, constant->first, &crumb::TensorEntry::name) != model.tensors.end();
    CHECK((is_stored || constant->second == "keep"));
    constant = is_stored ? std::next(constant) : specs.erase(constant);
  }
  return specs;
}

bool names_left_out(const Recipe& recipe) {
  return std::ranges::any_of(recipe.rules, [](const Rule& rule) {
    return std::ranges::any_of(
        rule.match.name, [](const std::string& name) { return crumb::NamePattern(name).names(kLeftOut); });
  });
}

class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}
  unsigned below(std::size_t n) { return static_cast<unsigned>(engine_() % n); }

  Recipe recipe(const Model& model) {
    Recipe recipe{.weights = spec(), .embeddings = spec()};
    for (unsigned i = 1 + below(3); i > 0; --i) {
      Rule rule{.weights = spec(), .optional = below(4) == 0};
      for (unsigned k = below(3); k > 0; --k) rule.match.name.push_back(pattern(model));
      if (below(3) == 0 || rule.match.name.empty())
        rule.match.role.push_back(static_cast<Rule::Role>(below(3)));
      recipe.rules.push_back(rule);
    }
    return recipe;
  }

 private:
  SpecOrKeep spec() {
    static const char* const kSpecs[] = {"int2", "int3", "int4", "int5", "int8:tensor"};
    return below(4) == 0 ? SpecOrKeep() : QuantSpec::parse(kSpecs[below(5)]);
  }

  /// A name, a layer, or a part of one, with wildcards in it, as a regular expression, or misspelt.
  std::string pattern(const Model& model) {
    std::string name = model.tensors[below(model.tensors.size())].name;
    for (unsigned up = below(4); up > 0 && !crumb::layer_of(name).empty(); --up)
      name = std::string(crumb::layer_of(name));
    switch (below(8)) {
      case 0: return "*" + name.substr(below(name.size()));
      case 1: return name.substr(0, 1 + below(name.size())) + "*";
      case 2: name[below(name.size())] = '?'; return name;
      case 3: return "*." + name.substr(name.rfind('.') + 1);
      case 4:
        return "re:" + std::string(name.rfind('.') == name.npos ? "" : ".*\\.") +
               name.substr(name.rfind('.') + 1);
      case 5: name.insert(below(name.size()), below(2) == 0 ? "*" : "z"); return name;
      default: return name;
    }
  }

  std::mt19937 engine_;
};

}  // namespace

TEST_CASE("rules: a model's tensors and its network are reached alike") {
  Draws draws(49);
  std::size_t planned = 0, refused = 0;
  for (const auto& config : kConfigs) {
    CAPTURE(config.first);
    const Model model = model_of(config.second);
    for (int round = 0; round < 1000; ++round) {
      const Recipe recipe = draws.recipe(model);
      CAPTURE(to_yaml(recipe));
      const Plan tensors = plan_of_tensors(model, recipe), network = plan_of_network(model, recipe);
      if (!tensors && network && names_left_out(recipe))
        continue;  // what the network leaves out has no role there
      REQUIRE(tensors.has_value() == network.has_value());
      CHECK(tensors == network);
      ++(tensors ? planned : refused);
    }
  }
  CHECK(planned > 1000);
  CHECK(refused > 500);
}
