// PEFT's folders: written and read back, and wrong in every way. What the package itself makes is compared in test_peft.py.
#include "formats/adapters/peft.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/files/mapped_file.h"
#include "formats/safetensors/safetensors.h"
#include "tests/formats/adapters/samples.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::check_same;
using testing::refusal;
using testing::says;

Adapter drawn_peft(std::mt19937_64& random, DType dtype) {
  static const char* const kNames[] = {
      "lm_head",  "model.layers.0.self_attn.q_proj", "model.layers.10.mlp.up_proj",
      "a",        "model.layers.1.mlp.down_proj",    "x+y.(z)[0]|^$",
      "größe.q",  "model.layers.1.self_attn.lora_A", "b\\s.default",
      "q.weight", "model.layers.0.self_attn.k_proj", "base_model.model.v"};
  Adapter adapter;
  if (random() % 2 == 0) adapter.base = "some/base-" + std::to_string(random() % 10);
  std::set<std::string> names;
  for (std::uint64_t n = 1 + random() % 6; n > 0; --n) names.insert(kNames[random() % 12]);
  for (const std::string& name : names) adapter.updates.push_back(testing::drawn_update(random, name, dtype));
  return adapter;
}

TEST_CASE("an adapter that is written for PEFT is read back, bit for bit") {
  const testing::TempDir temp;
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const DType dtype = testing::drawn_dtype(random);
    const Adapter adapter = drawn_peft(random, dtype);
    const fs::path folder = temp.path() / ("a" + std::to_string(random() % 3));  // often over an older one
    write_peft(adapter, folder, {.dtype = dtype});
    check_same(read_peft(folder), adapter);
    CHECK(testing::names_in(folder) == std::set<std::string>{kPeftConfig, kPeftTensors});
  }
}

TEST_CASE("what is written for PEFT is the same each time, and beside other files") {
  const testing::TempDir temp;
  std::mt19937_64 random(2);
  const Adapter adapter = drawn_peft(random, DType::kF32);
  const fs::path one = temp.path() / "one", two = temp.path() / "two";
  fs::create_directory(two);
  testing::put_file(two / "README.md", "mine");
  write_peft(adapter, one, {.base_model = "other"});
  write_peft(adapter, two, {.base_model = "other"});
  for (const char* name : {kPeftConfig, kPeftTensors})
    CHECK(testing::file_bytes(one / name) == testing::file_bytes(two / name));
  CHECK(testing::file_bytes(two / "README.md") == "mine");
  CHECK(read_peft(one).base == "other");
}

TEST_CASE("an adapter that cannot be written for PEFT leaves what was there") {
  const testing::TempDir temp;
  std::mt19937_64 random(3);
  const fs::path folder = temp.path() / "a";
  Adapter adapter;
  adapter.updates.push_back(testing::drawn_update(random, "m.q", DType::kF32));
  write_peft(adapter, folder);
  const std::string config = testing::file_bytes(folder / kPeftConfig);
  const auto why = [&](const auto& change, const PeftOptions& options = {}) {
    Adapter changed = adapter;
    change(changed, changed.updates[0]);
    std::string message = refusal([&] { write_peft(changed, folder, options); });
    CHECK(refusal([&] { write_peft(changed, temp.path() / "new", options); }) == message);
    CHECK_FALSE(fs::exists(temp.path() / "new"));
    CHECK(testing::file_bytes(folder / kPeftConfig) == config);
    CHECK(testing::names_in(folder) == std::set<std::string>{kPeftConfig, kPeftTensors});
    return message;
  };
  using Update = LowRankUpdate;
  CHECK(says(why([](Adapter& a, Update&) { a.updates.clear(); }), {"without updates"}));
  CHECK(says(why([](Adapter&, Update& u) { u.module.clear(); }), {"without a name"}));
  CHECK(says(why([](Adapter&, Update& u) { u.module = "\xff"; }), {"'\\xff'", "not UTF-8"}));
  CHECK(says(why([](Adapter& a, Update&) { a.base = "\xff"; }), {"'\\xff'", "not UTF-8"}));
  CHECK(says(why([](Adapter& a, Update& u) { a.updates.push_back(Update(u)); }), {"'m.q'", "twice"}));
  CHECK(says(why([](Adapter& a, Update& u) {
               Update other = u;
               other.module = "m.a";
               a.updates.push_back(other);
             }),
             {"'m.a' stands behind 'm.q'"}));
  CHECK(says(why([](Adapter&, Update& u) { u.rank = 0; }), {"rank 0", "expected 1 or more"}));
  CHECK(says(why([](Adapter&, Update& u) { u.in += 1; }), {"first matrix", "numbers, expected"}));
  CHECK(says(why([](Adapter&, Update& u) { u.out = SIZE_MAX; }), {"second matrix", "numbers, expected"}));
  CHECK(says(why([](Adapter&, Update& u) { u.up.back() = NAN; }), {"second matrix has nan at index"}));
  CHECK(says(why([](Adapter&, Update& u) { u.down[0] = INFINITY; }), {"first matrix has inf at index 0"}));
  CHECK(says(why([](Adapter&, Update& u) { u.scale = INFINITY; }), {"scale is inf"}));
  CHECK(says(why([](Adapter&, Update& u) { u.up[0] = 70000; }, {.dtype = DType::kF16}),
             {"base_model.model.m.q.lora_B.weight", "beyond F16", "70000"}));
  CHECK(says(why([](Adapter&, Update& u) { u.up[0] = 3.4e38F; }, {.dtype = DType::kBF16}), {"beyond BF16"}));
  CHECK(says(why([](Adapter&, Update&) {}, {.dtype = DType::kF64}), {"F64", "expected F32, F16 or BF16"}));
  CHECK(says(why([](Adapter&, Update&) {}, {.task_type = "\xff"}), {"UTF-8"}));

  testing::put_file(temp.path() / "file", "x");
  CHECK(says(refusal([&] { write_peft(adapter, temp.path() / "file"); }), {"file'", "it is a file"}));
  CHECK(says(refusal([&] { write_peft(adapter, temp.path() / "no" / "such"); }), {"cannot make the folder"}));
}

/// The two files of a folder, as values that can be changed.
struct PeftSample {
  json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 6}};
  struct Tensor {
    std::string name, dtype;
    std::vector<std::uint64_t> shape;
    std::vector<float> values;
  };
  std::vector<Tensor> tensors = {{"base_model.model.q.lora_A.weight", "F32", {2, 3}, {1, 2, 3, 4, 5, 6}},
                                 {"base_model.model.q.lora_B.weight", "F32", {1, 2}, {7, 8}}};

  std::string weights() const {
    std::vector<TensorDescription> all;
    for (const Tensor& t : tensors) all.push_back({t.name, dtype_from_name(t.dtype).value(), t.shape});
    std::string bytes = safetensors_header(all);
    for (const Tensor& t : tensors)
      bytes.append(reinterpret_cast<const char*>(t.values.data()), 4 * t.values.size());
    return bytes;
  }
  Result<Adapter> read() const {
    const std::string held = weights();
    return parse_peft(config.dump(), std::as_bytes(std::span(held)));
  }
  std::string why() const {
    const Result<Adapter> adapter = read();
    return adapter.ok() ? "" : adapter.failure().message;
  }
};

/// Why a configuration with this field is refused; "" where it is not.
std::string why_field(const char* key, const json& value) {
  PeftSample sample;
  sample.config[key] = value;
  return sample.why();
}

TEST_CASE("PEFT's scale is alpha by rank, or by its square root") {
  PeftSample sample;
  CHECK(sample.read().take().updates.at(0).scale == 3);
  sample.config["use_rslora"] = true;
  CHECK(sample.read().take().updates.at(0).scale == static_cast<float>(6 / std::sqrt(2.0)));
  sample.config["lora_alpha"] = -0.5;
  CHECK(sample.read().take().updates.at(0).scale == static_cast<float>(-0.5 / std::sqrt(2.0)));
  sample.config.erase("lora_alpha");  // 8, as PEFT has it
  CHECK(sample.read().take().updates.at(0).scale == static_cast<float>(8 / std::sqrt(2.0)));
  sample.config["r"] = 3;
  sample.config["rank_pattern"] = {{"q", 2}};
  sample.config["use_rslora"] = false;
  CHECK(sample.read().take().updates.at(0).scale == 4);
  sample.config["alpha_pattern"] = {{"q", 1e39}};
  CHECK(says(sample.why(), {"'q' has the alpha 1e+39"}));
}

TEST_CASE("PEFT's patterns: the first that matches the name or what follows a dot") {
  struct Row {
    const char* patterns;  // of alpha_pattern, as it stands in the file
    const char* module;
    double alpha;
  };
  const Row rows[] = {
      {R"({"q": 1, "k": 2})", "m.q", 1},
      {R"({"q": 1, "m.q": 2})", "m.q", 1},
      {R"({"m.q": 2, "q": 1})", "m.q", 2},  // the file's order, not that of the names
      {R"({"z|q": 5, "a": 1})", "m.q", 5},
      {R"({"^q": 1})", "m.q", 9},
      {R"({"^m\\.q": 1})", "m.q", 1},
      {R"({"m.q": 1})", "mxq", 1},
      {R"({"m\\.q": 1})", "mxq", 9},
      {R"({"q": 1})", "mq", 9},
      {R"({"layers.[0-4].q": 3})", "m.layers.4.q", 3},
      {R"({"layers.[0-4].q": 3})", "m.layers.5.q", 9},
      {R"({".*\\.layers\\.(1|3)\\..*": 4})", "m.layers.3.mlp.up", 4},
      {R"({"q.*": 4})", "m.q.x.y", 4},
      {R"({"q+": 4})", "q+", 4},  // matches nothing, but is the name
      {R"({})", "q", 9},
      {R"(null)", "q", 9},
  };
  for (const Row& row : rows) {
    CAPTURE(row.patterns);
    PeftSample sample;
    for (PeftSample::Tensor& tensor : sample.tensors)
      tensor.name.replace(tensor.name.find(".q."), 3, "." + std::string(row.module) + ".");
    const std::string config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 9, "alpha_pattern": )" +
                               std::string(row.patterns) + "}";
    const std::string weights = sample.weights();
    const Adapter adapter = parse_peft(config, std::as_bytes(std::span(weights))).take();
    CHECK(adapter.updates.at(0).scale == static_cast<float>(row.alpha / 2));
  }
  CHECK(says(why_field("alpha_pattern", {{"(?=q)", 1}}), {"\"alpha_pattern\", '(?=q)'", "look-around"}));
  CHECK(says(why_field("alpha_pattern", {{"q)|(", 1}}), {"'q)|('"}));
  CHECK(says(why_field("alpha_pattern", {{"q", "1"}}), {"'q' is \"1\", expected a number"}));
  CHECK(says(why_field("rank_pattern", {{"q", 1.5}}), {"'q' is 1.5, expected an integer of 1 or more"}));
  CHECK(says(why_field("rank_pattern", {1, 2}), {"\"rank_pattern\" must be an object, found [1,2]"}));
  CHECK(says(why_field("rank_pattern", {{"q", 3}}), {"'q' has rank 2", "says 3"}));
  json many = json::object();
  for (int i = 0; i < 4097; ++i) many["q" + std::to_string(i)] = 1;
  CHECK(says(why_field("alpha_pattern", many), {"more than 4096 patterns"}));
}

TEST_CASE("what is no plain LoRA is refused by its field") {
  struct Row {
    const char* key;
    json value;
    const char* found;
  };
  const Row rows[] = {
      {"peft_type", "ADALORA", "\"peft_type\" is 'ADALORA', expected 'LORA'"},
      {"peft_type", nullptr, "\"peft_type\" is missing"},
      {"peft_type", 3, "\"peft_type\" must be a string, found 3"},
      {"use_dora", true, "\"use_dora\" is true (DoRA"},
      {"use_qalora", true, "QA-LoRA"},
      {"alora_invocation_tokens", {1, 2}, "\"alora_invocation_tokens\" is [1,2] (activated LoRA"},
      {"invocation_string", "go", "activated LoRA"},
      {"monteclora_config", {{"num_samples", 8}}, "MonteCLoRA"},
      {"use_bdlora", {{"nblocks", 2}}, "BD-LoRA"},
      {"arrow_config", {{"top_k", 3}}, "Arrow"},
      {"kasa_config", {{"beta", 1e-4}}, "KaSA"},
      {"velora_config", {{"num_groups", 4}}, "VeLoRA"},
      {"lora_bias", true, "a bias"},
      {"fan_in_fan_out", true, "transposed"},
      {"modules_to_save", {"lm_head"}, "saved whole"},
      {"trainable_token_indices", {1}, "rows of embeddings"},
      {"layer_replication", {{0, 2}}, "several times"},
      {"target_parameters", {"experts"}, "no linear layer"},
      {"bias", "lora_only", "\"bias\" is 'lora_only'"},
      {"bias", "all", "expected 'none'"},
      {"init_lora_weights", "pissa_niter_16", "changes the base's weights"},
      {"init_lora_weights", "PiSSA", "changes the base's weights"},
      {"init_lora_weights", "olora", "changes the base's weights"},
      {"init_lora_weights", "loftq", "changes the base's weights"},
      {"init_lora_weights", "corda", "changes the base's weights"},
      {"init_lora_weights", "lora_ga", "changes the base's weights"},
      {"init_lora_weights", "newest", "which Crumb does not know"},
      {"init_lora_weights", 3, "must be a string"},
      {"use_newest", true, "\"use_newest\" is true, a field that Crumb does not know"},
      {"newest", 0, "a field that Crumb does not know"},
      {"r", 0, "\"r\" is 0, expected an integer of 1 or more"},
      {"r", 2.5, "expected an integer"},
      {"r", "2", "\"r\" must be a number"},
      {"r", nullptr, "\"r\" is null"},
      {"lora_alpha", nullptr, "\"lora_alpha\" is null"},
      {"use_rslora", 1, "must be true or false"},
      {"base_model_name_or_path", 1, "must be a string"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.key);
    CHECK(says(why_field(row.key, row.value), {"adapter_config.json: ", row.found}));
  }
  const std::pair<const char*, json> fine[] = {{"use_dora", false},
                                               {"use_dora", nullptr},
                                               {"modules_to_save", json::array()},
                                               {"use_newest", false},
                                               {"newest", json::object()},
                                               {"newest", ""},
                                               {"init_lora_weights", "eva"},
                                               {"init_lora_weights", "gaussian"},
                                               {"init_lora_weights", "orthogonal"},
                                               {"init_lora_weights", "mica"},
                                               {"init_lora_weights", false},
                                               {"init_lora_weights", nullptr},
                                               {"bias", "none"},
                                               {"lora_dropout", 0.1},
                                               {"qalora_group_size", 16},
                                               {"target_modules", "all-linear"}};
  for (const auto& row : fine) {
    CAPTURE(row.first);
    CHECK(why_field(row.first, row.second) == "");
  }
}

TEST_CASE("tensors that are no matrices of an update are refused by their names") {
  const auto why = [](const char* name, const std::string& dtype = "F32",
                      std::vector<std::uint64_t> shape = {1}, std::vector<float> values = {1}) {
    PeftSample sample;
    sample.tensors.push_back({name, dtype, std::move(shape), std::move(values)});
    return sample.why();
  };
  const std::pair<const char*, const char*> rows[] = {
      {"base_model.model.q.lora_magnitude_vector", "DoRA"},
      {"base_model.model.e.lora_embedding_A", "embedding"},
      {"base_model.model.q.lora_B.bias", "a bias of the update"},
      {"base_model.model.q.lora_B.default.bias", "a bias of the update"},
      {"base_model.model.q.bias", "a bias of the base"},
      {"base_model.model.q.base_layer.weight", "saved whole"},
      {"base_model.model.lm_head.weight", "saved whole"},
      {"base_model.model.lm_head.modules_to_save.weight", "saved whole"},
      {"base_model.model.e.token_adapter.trainable_tokens_delta", "rows of an embedding"},
      {"base_model.model.q.lora_C.weight", "none that Crumb knows"},
      {"base_model.model.lora_A.weight", "none that Crumb knows"},
      {"base_model.model.q.lora_A.other.weight", "none that Crumb knows"},
      {"q.lora_A.weight", "none that Crumb knows"},
      {"", "none that Crumb knows"},
  };
  for (const auto& row : rows)
    CHECK(says(why(row.first), {"adapter_model.safetensors: tensor '", row.first, "' is ", row.second}));
  CHECK(says(why("base_model.model.q.lora_A.default.weight"),
             {"lora_A.default.weight' is 'base_model.model.q.lora_A.weight' again"}));
  CHECK(says(why("base_model.model.k.lora_A.weight", "I32"), {"k.lora_A.weight' is I32, expected F32"}));
  CHECK(says(why("base_model.model.k.lora_A.weight"),
             {"'base_model.model.k.lora_B.weight' is missing", "'base_model.model.k.lora_A.weight'"}));
  CHECK(says(why("base_model.model.k.lora_B.default.weight"),
             {"'base_model.model.k.lora_A.default.weight' is missing"}));

  const auto changed = [](const auto& change) {
    PeftSample sample;
    change(sample.tensors[0], sample.tensors[1]);
    return sample.why();
  };
  using Tensor = PeftSample::Tensor;
  CHECK(changed([](Tensor&, Tensor&) {}) == "");
  CHECK(changed([](Tensor& a, Tensor& b) {
          a.name = "base_model.model.q.lora_A.default.weight";
          b.name = "base_model.model.q.lora_B.default.weight";
        }) == "");
  CHECK(says(changed([](Tensor& a, Tensor&) { a.shape = {6}; }), {"lora_A.weight' has the shape [6]"}));
  CHECK(says(changed([](Tensor&, Tensor& b) { b.shape = {1, 2, 1}; }), {"lora_B", "[1, 2, 1]", "a matrix"}));
  CHECK(says(changed([](Tensor&, Tensor& b) {
               b.shape = {2, 1};
             }),
             {"lora_B.weight' has the shape [2, 1]", "as many columns as", "[2, 3]"}));
  CHECK(says(changed([](Tensor& a, Tensor&) { a.shape = {3, 2}; }), {"has the shape [1, 2]", "[3, 2]"}));
  CHECK(says(changed([](Tensor& a, Tensor&) { a = {a.name, "F32", {0, 3}, {}}; }), {"[0, 3]", "above 0"}));
  CHECK(says(changed([](Tensor& a, Tensor&) { a.values[4] = NAN; }),
             {"lora_A.weight' has 1 number", "infinite or NaN", "index 4"}));
  CHECK(says(changed([](Tensor&, Tensor& b) { b.values = {-INFINITY, NAN}; }), {"2 numbers", "index 0"}));
  CHECK(says(changed([](Tensor& a, Tensor& b) {
               a = {a.name, "F32", {3, 2}, a.values};
               b = {b.name, "F32", {1, 3}, {1, 2, 3}};
             }),
             {"'q' has rank 3, and adapter_config.json says 2"}));
  PeftSample none;
  none.tensors.clear();
  CHECK(says(none.why(), {"it holds no tensors"}));
}

TEST_CASE("a folder that is not PEFT's is refused") {
  const testing::TempDir temp;
  std::mt19937_64 random(4);
  Adapter adapter;
  adapter.updates.push_back(testing::drawn_update(random, "m.q", DType::kF32));
  const fs::path folder = temp.path() / "a";
  const auto why = [&] { return refusal([&] { (void)read_peft(folder); }); };
  CHECK(says(why(), {"/a'", "no adapter_config.json"}));
  write_peft(adapter, folder);
  CHECK(why() == "");
  fs::rename(folder / kPeftTensors, folder / "adapter_model.bin");
  CHECK(says(why(), {"/a'", "adapter_model.bin, which is not read"}));
  fs::remove(folder / "adapter_model.bin");
  CHECK(says(why(), {"no adapter_model.safetensors, expected"}));
  testing::put_file(folder / kPeftTensors, "");
  CHECK(says(why(), {"/a': adapter_model.safetensors: "}));
  testing::put_file(folder / kPeftConfig, "[]");
  CHECK(says(why(), {"/a': adapter_config.json: expected a JSON object"}));
}

TEST_CASE("files of PEFT's that were changed anywhere are read or refused, never more") {
  std::mt19937_64 random(5);
  PeftSample sample;
  sample.config["rank_pattern"] = {{"^q", 2}, {"k.*", 4}};
  const std::string config = sample.config.dump(), weights = sample.weights();
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    const bool is_config = random() % 2 == 0;
    const std::string said = is_config ? testing::mutated(random, config) : config;
    const std::string held = is_config ? weights : testing::mutated(random, weights);
    const Result<Adapter> adapter = parse_peft(said, std::as_bytes(std::span(held)));
    if (adapter.ok())
      check_adapter(adapter.value());
    else
      ++refused;
    CHECK((adapter.ok() || !adapter.failure().message.empty()));
  }
  CHECK(refused > 2000);
  for (std::size_t cut = 0; cut < weights.size(); ++cut)
    CHECK_FALSE(parse_peft(config, std::as_bytes(std::span(weights)).first(cut)).ok());
  for (std::size_t cut = 0; cut < config.size(); ++cut)
    CHECK_FALSE(parse_peft(std::string_view(config).substr(0, cut), std::as_bytes(std::span(weights))).ok());
}

}  // namespace
}  // namespace crumb
