#include "runtime/sentences/sentence_encoder.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "jobs/engines/graph_inputs.h"
#include "models/checkpoint_graph.h"
#include "tests/models/memory_source.h"
#include "tests/support/testing.h"

namespace crumb::runtime {
namespace {

using testing::FolderSource;
using testing::MemorySource;

constexpr const char* kConfig =
    R"({"model_type": "bert", "vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 2,
  "num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 10, "type_vocab_size": 2,
  "hidden_act": "ACTIVATION", "layer_norm_eps": 1e-5})";
constexpr const char* kText = "red runs zzz fox";  // [CLS] 5 9 [UNK] 7 [SEP]

std::string config_with(const std::string& activation) {
  std::string text = kConfig;
  return text.replace(text.find("ACTIVATION"), 10, activation);
}

std::string pooling_config(const std::string& mode) {
  return R"({"word_embedding_dimension": 8, "pooling_mode": ")" + mode + "\"}";
}

/// The model of make_golden.py.
MemorySource tiny() {
  MemorySource source;
  const auto add = [&](const std::string& name, std::vector<size_t> shape) {
    source.tensors[name].shape = std::move(shape);
  };
  const auto add_linear = [&](const std::string& name, size_t in, size_t out) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  };
  const auto add_norm = [&](const std::string& name) {
    add(name + ".weight", {8});
    add(name + ".bias", {8});
  };
  add("embeddings.word_embeddings.weight", {12, 8});
  add("embeddings.position_embeddings.weight", {10, 8});
  add("embeddings.token_type_embeddings.weight", {2, 8});
  add_norm("embeddings.LayerNorm");
  for (const std::string layer : {"encoder.layer.0.", "encoder.layer.1."}) {
    for (const char* part : {"query", "key", "value"}) add_linear(layer + "attention.self." + part, 8, 8);
    add_linear(layer + "attention.output.dense", 8, 8);
    add_norm(layer + "attention.output.LayerNorm");
    add_linear(layer + "intermediate.dense", 8, 12);
    add_linear(layer + "output.dense", 12, 8);
    add_norm(layer + "output.LayerNorm");
  }
  int t = 0;
  for (auto& [name, tensor] : source.tensors) {
    size_t count = 1;
    for (const size_t size : tensor.shape) count *= size;
    for (size_t i = 0; i < count; ++i) {
      const double one = name.ends_with("LayerNorm.weight") ? 1 : 0;
      tensor.values.push_back(static_cast<float>(0.4 * std::sin(0.37 * static_cast<double>(i) + t) + one));
    }
    ++t;
  }
  source.files["config.json"] = config_with("gelu");
  source.files["vocab.txt"] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\n##dish\nfox\ncat\nruns\nblue\n##s\n";
  return source;
}

/// tiny() as a sentence-transformers folder with this pooling, and `more` modules after it.
MemorySource tiny_sentence_model(const std::string& mode, const std::string& more = "") {
  MemorySource source = tiny();
  source.files["modules.json"] = R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
    {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"})" +
                                 more + "]";
  source.files["1_Pooling/config.json"] = pooling_config(mode);
  return source;
}

SentenceEncoder load(const models::WeightSource& source) {
  return SentenceEncoder::load(
      jobs::for_runtime(models::graph_of_weights(source).graph),
      [&](const std::string& path) { return source.file(path); }, source.describe());
}

std::string load_error(const MemorySource& source) {
  try {
    load(source);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void check_error(const MemorySource& source, const std::string& part) {
  const std::string message = load_error(source);
  INFO(message);
  CHECK(message.find(part) != std::string::npos);
}

void check_near(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(2e-6).scale(1));
}

// Golden vectors: make_golden.py.
TEST_CASE("a tiny BERT gives what transformers gives, for every activation") {
  MemorySource source = tiny();
  const auto check = [&](const std::string& activation, const std::vector<float>& expected) {
    source.files["config.json"] = config_with(activation);
    check_near(load(source).embed({kText}), expected);
  };
  check("gelu",
        {1.263502F, -0.2677182F, 0.4309027F, -0.2700599F, 0.2537576F, -0.7313964F, 0.4759679F, -0.4932343F});
  check("gelu_new",
        {1.263403F, -0.2676013F, 0.431232F, -0.2702094F, 0.2537182F, -0.7312617F, 0.4759543F, -0.4934471F});
  check("relu",
        {1.372435F, -0.4706574F, 0.2988375F, -0.06611801F, 0.1917638F, -0.835613F, 0.5168023F, -0.380444F});
}

TEST_CASE("every pooling mode, and normalisation") {
  const auto check = [](const std::string& mode, const std::vector<float>& expected) {
    check_near(load(tiny_sentence_model(mode)).embed({kText}), expected);
  };
  check("cls", {2.751608F, -0.2146146F, 0.2344264F, -0.03838882F, 0.1349515F, -1.278688F, -0.1270451F,
                -0.03942625F});
  check("max",
        {2.77873F, -0.03416307F, 0.9216562F, 0.2291157F, 0.6309221F, -0.1546248F, 1.245052F, -0.03942625F});
  check("mean_sqrt_len_tokens",
        {3.094934F, -0.6557729F, 1.055492F, -0.6615088F, 0.6215766F, -1.791548F, 1.165878F, -1.208172F});
  check("weightedmean",
        {1.095626F, -0.2709385F, 0.5109432F, -0.307734F, 0.2177128F, -0.6543959F, 0.57886F, -0.5832809F});
  check("lasttoken", {0.03729193F, -0.3705705F, 0.4087167F, -0.692615F, -0.06664833F, -0.2454912F, 1.243198F,
                      -0.4469263F});
  const auto normalized = tiny_sentence_model("mean", R"(, {"type": "x.Normalize", "path": "2_Normalize"})");
  check_near(load(normalized).embed({kText}), {0.7299848F, -0.1546735F, 0.2489529F, -0.1560264F, 0.1466078F,
                                               -0.4225623F, 0.2749892F, -0.2849648F});
}

TEST_CASE("a dense module multiplies, adds its bias and activates") {
  MemorySource source = tiny_sentence_model("mean", R"(, {"type": "x.Dense", "path": "2_Dense"})");
  source.files["2_Dense/config.json"] =
      R"({"in_features": 8, "out_features": 1, "activation_function": "torch.nn.modules.activation.Tanh"})";
  check_error(source, "Dense module 2_Dense/ has no weights");
  source.tensors["2_Dense/linear.weight"] = {{1, 8}, {1, 0, 0, 0, 0, 0, 0, 0}};
  source.tensors["2_Dense/linear.bias"] = {{1}, {-1}};
  const SentenceEncoder encoder = load(source);
  CHECK(encoder.width() == 1);
  check_near(encoder.embed({kText}), {std::tanh(1.263502F - 1)});
}

TEST_CASE("names may stand behind bert., and norms may be called gamma and beta") {
  const MemorySource plain = tiny();
  MemorySource renamed = plain;
  renamed.tensors.clear();
  for (const auto& [plain_name, tensor] : plain.tensors) {
    std::string name = plain_name;
    if (const auto at = name.find("LayerNorm.weight"); at != std::string::npos)
      name.replace(at, 16, "LayerNorm.gamma");
    if (const auto at = name.find("LayerNorm.bias"); at != std::string::npos)
      name.replace(at, 14, "LayerNorm.beta");
    renamed.tensors["bert." + name] = tensor;
  }
  CHECK(load(renamed).embed({kText}) == load(plain).embed({kText}));
}

TEST_CASE("a line's vector depends on that line alone: not on threads, order or neighbours") {
  const SentenceEncoder encoder = load(tiny());
  std::vector<std::string> lines;
  for (int i = 0; i < 300; ++i) {
    std::string line;
    for (int word = 0; word < i % 9; ++word)
      line += (i + word) % 3 == 0 ? "red " : (i + word) % 3 == 1 ? "fox " : "reddish ";
    lines.push_back(line);
  }
  const auto once = encoder.embed(lines, 1);
  CHECK(encoder.embed(lines, 2) == once);
  CHECK(encoder.embed(lines, 7) == once);
  CHECK(encoder.embed(lines, 0) == once);
  for (size_t i = 0; i < lines.size(); i += 13) {
    const auto alone = encoder.embed({lines[i]}, 1);
    CHECK(std::equal(alone.begin(), alone.end(),
                     once.begin() + static_cast<std::ptrdiff_t>(i * encoder.width())));
  }
  CHECK(encoder.embed({}).empty());
}

TEST_CASE("progress counts up to all lines, and may end the work") {
  const SentenceEncoder encoder = load(tiny());
  const std::vector<std::string> lines(500, "red fox red fox red fox");
  size_t last = 0;
  encoder.embed(lines, 3, [&](size_t done, size_t total) {
    CHECK(done > last);
    CHECK(total == lines.size());
    last = done;
  });
  CHECK(last == lines.size());
  const auto stop = [](size_t, size_t) { throw Interrupted(); };
  CHECK_THROWS_AS(encoder.embed(lines, 3, stop), Interrupted);
}

TEST_CASE("texts end at max_position_embeddings, and a default prompt comes first") {
  MemorySource source = tiny();
  const SentenceEncoder encoder = load(source);
  CHECK(encoder.tokenizer().max_length() == 10);
  CHECK(encoder.embed({"red red red red red red red red red red red"}) ==
        encoder.embed({"red red red red red red red red"}));
  source.files["config_sentence_transformers.json"] =
      R"({"prompts": {"q": "blue "}, "default_prompt_name": "q"})";
  CHECK(load(source).embed({"fox"}) == encoder.embed({"blue fox"}));
}

TEST_CASE("what is missing or wrong is named") {
  MemorySource source = tiny();
  source.tensors.erase("encoder.layer.1.output.dense.bias");
  check_error(
      source,
      "has no tensor 'encoder.layer.1.output.dense.bias', which its configuration asks for with shape [8]");
  source = tiny();
  source.tensors["encoder.layer.0.intermediate.dense.weight"].shape = {8, 12};
  check_error(source,
              "tensor 'encoder.layer.0.intermediate.dense.weight' has shape [8, 12], its configuration asks "
              "for [12, 8]");
  source = tiny();
  source.files.erase("config.json");
  check_error(source, "no config.json");
  source = tiny();
  source.files["config.json"] = R"({"model_type": "distilbert"})";
  check_error(source, "found the architecture 'distilbert'");
  source = tiny();
  source.files["config.json"] = config_with("mish");
  check_error(source, "hidden_act is \"mish\"");
  source = tiny();
  source.files["vocab.txt"] += "one\ntoo many\n";
  check_error(source, "go up to 13");
  check_error(tiny_sentence_model("mean", R"(, {"type": "x.LSTM", "path": "2"})"),
              "module LSTM is not supported");
  source = tiny_sentence_model("mean");
  source.files.erase("1_Pooling/config.json");
  check_error(source, "no 1_Pooling/config.json");
  source.files["modules.json"] = "{}";
  check_error(source, "modules.json");
}

// Values by sentence-transformers 6.2.
TEST_CASE("the real model embeds as sentence-transformers does") {
  const auto folder = testing::minilm();
  if (!folder) return testing::skip("the MiniLM checkpoint is not installed");
  const SentenceEncoder encoder = load(FolderSource(*folder));
  CHECK(encoder.width() == 384);
  CHECK(encoder.tokenizer().max_length() == 256);
  std::string long_text;
  for (int i = 0; i < 600; ++i) long_text += "word ";
  const std::vector<std::string> lines = {
      "hello world", "", "The [MASK] of İstanbul: ß ﬁ 👩‍🚀 中文 naïve.", long_text};
  const float expected[4][6] = {{-0.0344772F, 0.0310232F, 0.00673498F, 0.026109F, -0.039362F, -0.160302F},
                                {-0.118838F, 0.0482988F, -0.00254816F, -0.0110112F, 0.0519507F, 0.0102917F},
                                {-0.0649046F, 0.0452739F, 0.0340443F, -0.0330181F, -0.0867529F, 0.0428374F},
                                {-0.00812365F, -0.095586F, -0.0386731F, 0.049662F, -0.0437937F, 0.0237198F}};
  const auto found = encoder.embed(lines);
  for (size_t line = 0; line < lines.size(); ++line) {
    for (size_t i = 0; i < 6; ++i) CHECK(std::fabs(found[line * 384 + i] - expected[line][i]) < 2e-6F);
  }
}

}  // namespace
}  // namespace crumb::runtime
