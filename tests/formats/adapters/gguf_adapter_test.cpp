// llama.cpp's adapters: written and read back, and wrong in every way. The `gguf` package and llama.cpp's own converter are
// compared in test_gguf_adapters.py.
#include "formats/adapters/gguf_adapter.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>

#include "base/files/mapped_file.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/model.h"
#include "formats/stored_tensor.h"
#include "tests/formats/adapters/samples.h"
#include "tests/formats/gguf/samples.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;
using testing::gguf_text_bytes;
using testing::little;
using testing::refusal;
using testing::says;

constexpr std::size_t kHead = 4;

Adapter drawn_for_gguf(std::mt19937_64& random, DType dtype) {
  static const char* const kNames[] = {"lm_head",
                                       "model.layers.0.self_attn.q_proj",
                                       "model.layers.0.self_attn.k_proj",
                                       "model.layers.0.self_attn.v_proj",
                                       "model.layers.1.self_attn.o_proj",
                                       "model.layers.12.mlp.gate_proj",
                                       "model.layers.2.mlp.up_proj",
                                       "model.layers.2.mlp.down_proj"};
  Adapter adapter;
  if (random() % 2 == 0) adapter.base = "base " + std::to_string(random() % 10);
  std::set<std::string> names;
  for (std::uint64_t n = 1 + random() % 6; n > 0; --n) names.insert(kNames[random() % 8]);
  for (const std::string& name : names)
    adapter.updates.push_back(testing::drawn_update(random, name, dtype, kHead));
  return adapter;
}

/// The product of scale and second matrix agrees: that is what one alpha for all can keep. `rounds`: of the type's.
void check_same_effect(const LowRankUpdate& found, const LowRankUpdate& meant, DType dtype) {
  testing::check_same_down(found, meant);
  const double unit = dtype == DType::kF32 ? 0x1p-24 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
  REQUIRE(found.up.size() == meant.up.size());
  for (std::size_t i = 0; i < found.up.size(); ++i) {
    const double want = static_cast<double>(meant.up[i]) * static_cast<double>(meant.scale);
    const double got = static_cast<double>(found.up[i]) * static_cast<double>(found.scale);
    // One rounding of the matrix; below the type's normal numbers, of a step of 2^-24 (F16).
    const double step =
        std::abs(static_cast<double>(found.scale)) * (dtype == DType::kF16 ? 0x1p-25 : 0x1p-149);
    CHECK(std::abs(got - want) <= std::abs(want) * unit * 1.001 + step);
  }
}

TEST_CASE("an adapter that is written as llama.cpp's is read back") {
  const testing::TempDir temp;
  const fs::path path = temp.path() / "a.gguf";
  std::mt19937_64 random(11);
  int exact = 0, folded = 0;
  for (int round = 0; round < 800; ++round) {
    const DType dtype = testing::drawn_dtype(random);
    const Adapter adapter = drawn_for_gguf(random, dtype);
    static const char* const kTypes[] = {"llama", "mistral", "smollm3", "qwen2", "qwen3"};
    const std::string type = kTypes[random() % 5];
    write_gguf_adapter(adapter, path, {.model_type = type, .head_size = kHead, .dtype = dtype});
    const Adapter found = read_gguf_adapter(path, random() % 2 == 0 ? kHead : 0);  // the file says it
    CHECK(found.base == adapter.base);
    REQUIRE(found.updates.size() == adapter.updates.size());
    for (std::size_t i = 0; i < adapter.updates.size(); ++i) {
      const LowRankUpdate &got = found.updates[i], &meant = adapter.updates[i];
      check_same_effect(got, meant, dtype);
      if (got.scale == meant.scale) {
        ++exact;
        CHECK(testing::same_floats(got.up, meant.up));
      } else {
        ++folded;
      }
    }
  }
  CHECK(exact > folded);
  CHECK(folded > 300);
}

TEST_CASE("scales that one alpha gives are kept, whatever the ranks") {
  const testing::TempDir temp;
  const fs::path path = temp.path() / "a.gguf";
  std::mt19937_64 random(12);
  for (const double alpha : {16.0, 1.0, 7.3, 0.1, -3.0, 1e-30}) {
    CAPTURE(alpha);
    Adapter adapter;
    for (const char* name : {"model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj",
                             "model.layers.2.mlp.up_proj", "model.layers.3.mlp.up_proj"}) {
      LowRankUpdate update = testing::drawn_update(random, name, DType::kF16);
      update.scale = static_cast<float>(alpha) / static_cast<float>(update.rank);
      adapter.updates.push_back(update);
    }
    write_gguf_adapter(adapter, path, {.model_type = "qwen3", .dtype = DType::kF16});
    testing::check_same(read_gguf_adapter(path), adapter);
  }
  // An alpha of 0 would be a scale of 1 there.
  Adapter none;
  none.updates.push_back(testing::drawn_update(random, "lm_head", DType::kF32));
  none.updates[0].scale = 0;
  write_gguf_adapter(none, path, {.model_type = "qwen3"});
  const LowRankUpdate found = read_gguf_adapter(path).updates.at(0);
  CHECK(found.scale == 1);
  CHECK(std::ranges::all_of(found.up, [](float x) { return x == 0; }));
}

/// A small file that can be made wrong.
struct GgufAdapterSample {
  std::vector<testing::GgufSampleEntry> entries = {
      {"general.architecture", 8, gguf_text_bytes("llama")},
      {"general.type", 8, gguf_text_bytes("adapter")},
      {"adapter.type", 8, gguf_text_bytes("lora")},
      {"adapter.lora.alpha", 6, little<float>(6)},
      {"general.base_model.0.repo_url", 8, gguf_text_bytes("https://x/y")}};
  std::vector<testing::GgufSampleTensor> tensors = {
      {"blk.0.ffn_up.weight.lora_a", {3, 2}, 0, floats({1, 2, 3, 4, 5, 6})},
      {"blk.0.ffn_up.weight.lora_b", {2, 1}, 0, floats({7, 8})}};

  static std::string floats(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  void set(const std::string& key, std::uint32_t type, std::string value) {
    std::erase_if(entries, [&](const auto& entry) { return entry.key == key; });
    if (!value.empty()) entries.push_back({key, type, std::move(value)});
  }
  std::string bytes() const { return testing::gguf_file(entries, tensors); }
  Result<Adapter> read(std::size_t head_size = 0) const {
    const std::string file = bytes();
    return parse_gguf_adapter(std::as_bytes(std::span(file)), head_size);
  }
  std::string why(std::size_t head_size = 0) const {
    const Result<Adapter> adapter = read(head_size);
    return adapter.ok() ? "" : adapter.failure().message;
  }
};

std::string why_entry(const char* key, std::uint32_t type, const std::string& value) {
  GgufAdapterSample sample;
  sample.set(key, type, value);
  return sample.why();
}

TEST_CASE("what a GGUF adapter says is read") {
  GgufAdapterSample sample;
  const Adapter adapter = sample.read().take();
  CHECK(adapter.base == "https://x/y");
  REQUIRE(adapter.updates.size() == 1);
  const LowRankUpdate& update = adapter.updates[0];
  CHECK(update.module == "model.layers.0.mlp.up_proj");
  CHECK(update.rank == 2);
  CHECK(update.in == 3);
  CHECK(update.out == 1);
  CHECK(update.scale == 3);
  CHECK(update.down == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(update.up == std::vector<float>{7, 8});

  sample.set("general.base_model.0.name", 8, gguf_text_bytes("Y"));
  CHECK(sample.read().take().base == "Y");
  sample.set("adapter.lora.alpha", 6, "");
  CHECK(sample.read().take().updates[0].scale == 1);
  sample.set("adapter.lora.alpha", 6, little<float>(0));
  CHECK(sample.read().take().updates[0].scale == 1);
  sample.tensors[1].sizes = {2};  // ggml leaves out sizes of 1
  CHECK(sample.read().take().updates[0].up == std::vector<float>{7, 8});
  sample.tensors = {
      {"output.weight.lora_b", {32, 1}, 8, little<std::uint16_t>(0x3c00) + std::string(32, '\2')},
      {"output.weight.lora_a", {1, 32}, 1, std::string(64, '\0')}};
  CHECK(sample.read().take().updates[0].module == "lm_head");
  CHECK(sample.read().take().updates[0].up == std::vector<float>(32, 2));  // Q8_0
}

TEST_CASE("rows of q and k are put in order, which takes the size of a head") {
  GgufAdapterSample sample;
  for (auto& tensor : sample.tensors) tensor.name.replace(6, 6, "attn_q");
  sample.tensors[1] = {
      sample.tensors[1].name, {1, 8}, 0, GgufAdapterSample::floats({0, 1, 2, 3, 4, 5, 6, 7})};
  sample.tensors[0] = {sample.tensors[0].name, {1, 1}, 0, GgufAdapterSample::floats({1})};
  REQUIRE(sample.tensors[0].name == "blk.0.attn_q.weight.lora_a");
  CHECK(says(sample.why(), {"'blk.0.attn_q.weight.lora_b'", "interleaved within heads", "base model"}));
  CHECK(says(sample.why(3), {"8 rows", "whole heads of 3"}));
  CHECK(says(sample.why(1), {"an even number"}));
  CHECK(says(sample.why(16), {"whole heads of 16"}));
  CHECK(sample.read(4).take().updates[0].up == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(sample.read(8).take().updates[0].up == std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7});
  sample.set("llama.attention.key_length", 4, little<std::uint32_t>(4));
  CHECK(sample.read().take().updates[0].up == std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(says(sample.why(8), {"'llama.attention.key_length'", "has 4 elements", "have 8"}));
  sample.set("llama.attention.key_length", 4, "");
  sample.set("llama.attention.head_count", 4, little<std::uint32_t>(2));
  CHECK(says(sample.why(), {"'llama.embedding_length'", "missing"}));
  sample.set("llama.embedding_length", 4, little<std::uint32_t>(16));
  CHECK(sample.read().take().updates[0].up == std::vector<float>{0, 2, 4, 6, 1, 3, 5, 7});
  sample.set("general.architecture", 8, gguf_text_bytes("qwen3"));  // whose rows stay
  CHECK(sample.read().take().updates[0].up == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("rows that lie interleaved and in order are each other's inverse") {
  for (const std::uint64_t n : {2, 4, 6, 64, 128})
    for (std::uint64_t row = 0; row < 3 * n; ++row) {
      CHECK(deinterleaved_row(interleaved_row(row, n), n) == row);
      CHECK(interleaved_row(row, n) / n == row / n);
    }
}

TEST_CASE("a GGUF file that is no adapter of low-rank updates is refused") {
  CHECK(says(why_entry("general.type", 8, ""), {"this is a model, expected an adapter"}));
  CHECK(says(why_entry("general.type", 8, gguf_text_bytes("model")), {"this is a model"}));
  CHECK(says(why_entry("general.type", 8, gguf_text_bytes("mmproj")), {"'mmproj', expected 'adapter'"}));
  CHECK(says(why_entry("general.type", 0, "a"), {"'general.type'"}));
  CHECK(says(why_entry("adapter.type", 8, ""), {"'adapter.type' is missing, expected 'lora'"}));
  CHECK(says(why_entry("adapter.type", 8, gguf_text_bytes("cvec")), {"is 'cvec', expected 'lora'"}));
  CHECK(says(why_entry("general.architecture", 8, gguf_text_bytes("rwkv")), {"'rwkv'", "does not know"}));
  CHECK(says(why_entry("general.architecture", 8, ""), {"the architecture is ''"}));
  CHECK(says(why_entry("adapter.lora.alpha", 6, little<float>(INFINITY)), {"is inf, expected a finite"}));
  CHECK(says(why_entry("adapter.lora.alpha", 8, gguf_text_bytes("6")), {"'adapter.lora.alpha'"}));
  CHECK(says(why_entry("general.base_model.0.name", 0, "a"), {"'general.base_model.0.name'"}));
  const std::string tokens = little<std::uint32_t>(4) + little<std::uint64_t>(1) + little<std::uint32_t>(7);
  CHECK(says(why_entry("adapter.alora.invocation_tokens", 9, tokens), {"activated adapter"}));
  CHECK(says(why_entry("adapter.alora.invocation_tokens", 0, "a"), {"activated adapter"}));
  CHECK(why_entry("adapter.alora.invocation_tokens", 9,
                  little<std::uint32_t>(4) + little<std::uint64_t>(0)) == "");

  const auto why = [](const auto& change) {
    GgufAdapterSample sample;
    change(sample.tensors);
    return sample.why();
  };
  using Tensors = std::vector<testing::GgufSampleTensor>;
  const auto named = [&](const std::string& name) {
    return why([&](Tensors& t) { t.push_back({name, {1}, 0, GgufAdapterSample::floats({1})}); });
  };
  CHECK(says(named("blk.0.attn_norm.weight"), {"'blk.0.attn_norm.weight' is a norm that is saved whole"}));
  CHECK(says(named("blk.0.ffn_up.weight"), {"is none of a low-rank update"}));
  CHECK(says(named("token_embd.weight.lora_a"), {"update of an embedding"}));
  CHECK(says(named("blk.0.attn_norm.weight.lora_a"), {"no linear layer of that name"}));
  CHECK(says(named("blk.0.attn_q.bias.lora_a"), {"no linear layer of that name"}));
  CHECK(says(named("blk.0.ssm_in.weight.lora_b"), {"'llama' has no linear layer"}));
  CHECK(says(named(".lora_b"), {"no linear layer"}));
  CHECK(says(named("blk.1.ffn_up.weight.lora_a"), {"'blk.1.ffn_up.weight.lora_b' is missing"}));
  CHECK(says(named("blk.1.ffn_up.weight.lora_b"), {"'blk.1.ffn_up.weight.lora_a' is missing"}));
  CHECK(says(why([](Tensors& t) { t.clear(); }), {"it holds no tensors"}));
  CHECK(
      says(why([](Tensors& t) { t[0].type = 26; }), {"has the type I32, expected F32, F16, BF16 or blocks"}));
  CHECK(says(why([](Tensors& t) { t[0] = {t[0].name, {256}, 16, std::string(66, 'x')}; }), {"IQ2_XXS"}));
  CHECK(says(why([](Tensors& t) { t[1].sizes = {1, 2}; }), {"[2, 1]", "as many columns as", "[2, 3]"}));
  CHECK(says(why([](Tensors& t) { t[0].sizes = {3, 2, 1, 1}; }), {"[1, 1, 2, 3]", "a matrix"}));
  CHECK(says(why([](Tensors& t) { t[1] = {t[1].name, {2, 0}, 0, ""}; }), {"[0, 2]", "above 0"}));
  CHECK(says(why([](Tensors& t) {
               t[1].data = GgufAdapterSample::floats({NAN, 1});
             }),
             {"1 number", "index 0"}));
}

TEST_CASE("an adapter is no model") {
  const std::string file = GgufAdapterSample().bytes();
  const Result<GgufModel> model = read_gguf_model(std::as_bytes(std::span(file)));
  REQUIRE_FALSE(model.ok());
  CHECK(says(model.failure().message, {"this is an adapter", "'general.type'", "expected a model"}));
}

TEST_CASE("an adapter that llama.cpp has no place for is not written") {
  const testing::TempDir temp;
  const fs::path path = temp.path() / "a.gguf";
  std::mt19937_64 random(13);
  Adapter adapter;
  adapter.updates.push_back(
      testing::drawn_update(random, "model.layers.0.self_attn.q_proj", DType::kF32, kHead));
  adapter.updates[0].scale = 2;
  write_gguf_adapter(adapter, path, {.model_type = "llama", .head_size = kHead});
  const std::string before = testing::file_bytes(path);
  const auto why = [&](const auto& change, const GgufAdapterOptions& options) {
    Adapter changed = adapter;
    change(changed.updates[0]);
    std::string message = refusal([&] { write_gguf_adapter(changed, path, options); });
    CHECK(testing::file_bytes(path) == before);
    CHECK(testing::names_in(temp.path()) == std::set<std::string>{"a.gguf"});
    return message;
  };
  const auto same = [](LowRankUpdate&) {};
  const auto called = [&](const char* name) {
    return why([name](LowRankUpdate& u) { u.module = name; }, {.model_type = "gemma3_text"});
  };
  CHECK(says(why(same, {.model_type = "gpt2"}), {"'gpt2'", "known are llama, qwen2, qwen3"}));
  CHECK(says(why(same, {.model_type = "llama"}), {"'model.layers.0.self_attn.q_proj'", "was not given"}));
  CHECK(says(why(same, {.model_type = "llama", .head_size = 3}), {"whole heads of 3, an even number"}));
  CHECK(says(why(same, {.model_type = "llama", .head_size = 256}), {"whole heads of 256"}));
  CHECK(says(why(same, {.model_type = "qwen3", .head_size = SIZE_MAX}), {"so many elements"}));
  CHECK(says(why(same, {.model_type = "qwen3", .dtype = DType::kI8}), {"I8"}));
  CHECK(says(why(same, {.model_type = "qwen3", .base_model = "\xff"}), {"UTF-8"}));
  CHECK(says(called("model.embed_tokens"), {"'model.embed_tokens'", "embeddings"}));
  CHECK(says(called("model.layers.0.input_layernorm"), {"no linear layer of that name"}));
  CHECK(says(called("model.layers.0.mlp.router"), {"no linear layer of that name"}));
  CHECK(says(called("q_proj"), {"'q_proj'", "architecture gemma3 has no"}));
  CHECK(says(why([](LowRankUpdate& u) { u.down[0] = NAN; }, {.model_type = "qwen3"}), {"nan at index 0"}));
  CHECK(says(why([](LowRankUpdate& u) { u.up[0] = 1e6F; }, {.model_type = "qwen3", .dtype = DType::kF16}),
             {"'blk.0.attn_q.weight.lora_b'", "beyond F16", "1e+06"}));
  CHECK(says(refusal([&] { write_gguf_adapter({}, path, {.model_type = "qwen3"}); }), {"without updates"}));
}

TEST_CASE("GGUF adapters that were changed anywhere are read or refused, never more") {
  std::mt19937_64 random(14);
  GgufAdapterSample sample;
  sample.set("llama.attention.key_length", 4, little<std::uint32_t>(2));
  sample.tensors.push_back({"blk.0.attn_k.weight.lora_a", {2, 1}, 1, std::string(4, '\1')});
  sample.tensors.push_back({"blk.0.attn_k.weight.lora_b", {1, 4}, 30, std::string(8, '\1')});
  const std::string bytes = sample.bytes();
  REQUIRE(sample.why() == "");
  int refused = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::string held = testing::mutated(random, bytes);
    const Result<Adapter> adapter = parse_gguf_adapter(std::as_bytes(std::span(held)), random() % 2 * 2);
    if (adapter.ok())
      check_adapter(adapter.value());
    else
      ++refused;
    CHECK((adapter.ok() || !adapter.failure().message.empty()));
  }
  CHECK(refused > 2000);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    CHECK_FALSE(parse_gguf_adapter(std::as_bytes(std::span(bytes)).first(cut)).ok());
}

}  // namespace
}  // namespace crumb
