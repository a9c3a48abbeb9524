#include "formats/checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "formats/checkpoint/classify.h"
#include "formats/safetensors/safetensors.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// A safetensors file of F32 [2, 2] tensors, each filled with its name's first letter.
void put_tensors(const fs::path& path, const std::vector<std::string>& names, DType dtype = DType::kF32) {
  std::vector<TensorDescription> tensors;
  tensors.reserve(names.size());
  for (const std::string& name : names) tensors.push_back({name, dtype, {2, 2}});
  SafetensorsWriter writer(path, tensors);
  for (const TensorDescription& tensor : writer.tensors()) {
    const std::string bytes(dtype_bits(dtype) / 2, tensor.name[0]);
    writer.write(tensor.name, std::as_bytes(std::span(bytes)));
  }
  writer.commit();
}

void put_index(const fs::path& folder, const nlohmann::json& map) {
  put(folder / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
}

std::string why(const fs::path& path) {
  const Result<Checkpoint> opened = Checkpoint::open(path);
  return opened.ok() ? "no failure" : opened.failure().message;
}

using testing::says;

TEST_CASE("one shard is no model, though it is the only file") {
  const testing::TempDir dir;
  put_tensors(dir.path() / "model-00001-of-00002.safetensors", {"a"});
  CHECK(says(why(dir.path()), {"one shard of a model", "model-00001-of-00002.safetensors", "missing"}));
  fs::rename(dir.path() / "model-00001-of-00002.safetensors",
             dir.path() / "model-00001-of-00001.safetensors");
  CHECK(Checkpoint::open(dir.path()).ok());
}

TEST_CASE("a folder with its one safetensors file and everything around it") {
  const testing::TempDir dir;
  put_tensors(dir.path() / "model.safetensors", {"b.weight", "a.weight"});
  put(dir.path() / "config.json", R"({"model_type":"bert"})");
  put(dir.path() / "vocab.txt", "[PAD]\n");
  put(dir.path() / "README.md", "no part of the model");
  put(dir.path() / "modules.json",
      R"([{"idx":0,"path":"","type":"T"},{"path":"1_Pooling"},{"path":"2_Normalize"}])");
  put(dir.path() / "1_Pooling" / "config.json", "{}");

  Checkpoint opened = Checkpoint::open(dir.path()).take();
  const Checkpoint checkpoint = std::move(opened);
  REQUIRE(checkpoint.tensors().size() == 2);
  CHECK(checkpoint.tensors()[0].name == "a.weight");
  CHECK(checkpoint.tensors()[1].bytes == 16);
  CHECK(checkpoint.load(checkpoint.tensors()[1]).take()[3] == std::byte{'b'});
  CHECK(checkpoint.find("a.weight") == &checkpoint.tensors()[0]);
  CHECK(checkpoint.find("a") == nullptr);
  CHECK(checkpoint.input_bytes() == fs::file_size(dir.path() / "model.safetensors"));
  std::vector<std::string> files;
  for (const ModelFile& file : checkpoint.files()) files.push_back(file.path);
  CHECK(files ==
        std::vector<std::string>{"1_Pooling/config.json", "config.json", "modules.json", "vocab.txt"});
  CHECK(checkpoint.find_file("vocab.txt")->bytes.size() == 6);
  REQUIRE(checkpoint.config() != nullptr);
  CHECK((*checkpoint.config())["model_type"] == "bert");
  CHECK(checkpoint.input_paths().size() == 5);
  CHECK_FALSE(checkpoint.quantized());
}

TEST_CASE("only safetensors are needed, under any name, and a single file will do") {
  const testing::TempDir dir;
  put_tensors(dir.path() / "weights-v2.safetensors", {"a"});
  CHECK(Checkpoint::open(dir.path()).take().config() == nullptr);
  CHECK(Checkpoint::open(dir.path()).take().files().empty());
  CHECK(Checkpoint::open(dir.path() / "weights-v2.safetensors").take().tensors().size() == 1);
  fs::rename(dir.path() / "weights-v2.safetensors", dir.path() / "weights.dat");
  CHECK(Checkpoint::open(dir.path() / "weights.dat").take().tensors().size() == 1);
}

TEST_CASE("what a folder holds beside the model is named") {
  const testing::TempDir dir;
  put_tensors(dir.path() / "model.safetensors", {"a"});
  put(dir.path() / "modules.json", R"([{"type": "x.Pooling", "path": "1_Pooling"}])");
  put(dir.path() / "1_Pooling/config.json", "{}");
  for (const char* name : {"sentencepiece.bpe.model", "source.spm", "target.spm", "tekken.json", "vocab.bpe",
                           "chat_template.json", "processor_config.json"})
    put(dir.path() / name, "{}");
  const Checkpoint whole = Checkpoint::open(dir.path()).take();
  CHECK(whole.not_carried().empty());
  CHECK(whole.files().size() == 9);
  for (const char* name : {"README.md", "onnx/model.onnx", "pytorch_model.bin", ".gitattributes", "zz.json"})
    put(dir.path() / name, "x");
  const Checkpoint checkpoint = Checkpoint::open(dir.path()).take();
  CHECK(checkpoint.not_carried() ==
        std::vector<std::string>{"README.md", "onnx/", "pytorch_model.bin", "zz.json"});
  CHECK(checkpoint.files().size() == 9);
  CHECK(Checkpoint::open(dir.path() / "model.safetensors").take().not_carried().empty());
}

TEST_CASE("several PyTorch files and no index") {
  const testing::TempDir dir;
  put(dir.path() / "a.bin", "x");
  put(dir.path() / "b.bin", "x");
  CHECK(says(why(dir.path()), {"several tensor files", "a.bin, b.bin", "model.safetensors.index.json",
                               "pytorch_model.bin nor pytorch_model.bin.index.json"}));
}

TEST_CASE("shards and their index") {
  const testing::TempDir dir;
  put_tensors(dir.path() / "model-00001-of-00002.safetensors", {"a", "d"});
  put_tensors(dir.path() / "model-00002-of-00002.safetensors", {"c", "b"});
  const std::string first = "model-00001-of-00002.safetensors";
  const std::string second = "model-00002-of-00002.safetensors";
  CHECK(says(why(dir.path()), {"several tensor files", first.c_str(), second.c_str()}));

  put_index(dir.path(), {{"a", first}, {"d", first}, {"c", second}, {"b", second}});
  for (const fs::path& path : {dir.path(), dir.path() / "model.safetensors.index.json"}) {
    const Checkpoint checkpoint = Checkpoint::open(path).take();
    REQUIRE(checkpoint.tensors().size() == 4);
    for (const TensorEntry& tensor : checkpoint.tensors())
      CHECK(static_cast<char>(checkpoint.load(tensor).take()[0]) == tensor.name[0]);
    CHECK(checkpoint.input_bytes() == fs::file_size(dir.path() / first) + fs::file_size(dir.path() / second));
    CHECK(checkpoint.input_paths().size() == 3);
  }
  put_index(dir.path(), {{"a", first}, {"x", first}, {"c", second}});
  CHECK(
      says(why(dir.path()), {"places tensor 'x' in 'model-00001-of-00002.safetensors'", "does not hold it"}));
  put_index(dir.path(), {{"a", first}, {"b", first}, {"c", second}});
  CHECK(says(why(dir.path()), {"places tensor 'b' in 'model-00001", "but it lies in 'model-00002"}));
  put_index(dir.path(), {{"a", first}, {"b", "model-00003.safetensors"}});
  CHECK(says(why(dir.path()), {"the shard 'model-00003.safetensors'", "is missing"}));
  for (const char* path : {"../x.safetensors", "/etc/passwd", "sub/../../x", "", ".", "a//../b"}) {
    put_index(dir.path(), {{"a", path}});
    CHECK(says(why(dir.path()), {"tensor 'a' is placed in", "not a plain path inside the folder"}));
  }
  put_index(dir.path(), {{"a", 1}});
  CHECK(says(why(dir.path()), {"tensor 'a' is not placed in a file"}));
  put_index(dir.path(), nlohmann::json::array());
  CHECK(says(why(dir.path()), {"'weight_map' is not an object"}));
  put_index(dir.path(), nlohmann::json::object());
  CHECK(says(why(dir.path()), {"holds no tensors"}));
  put(dir.path() / "model.safetensors.index.json", "{\"weight_map\":{");
  CHECK(says(why(dir.path()), {"index.json", "not JSON at byte"}));
  put(dir.path() / "model.safetensors.index.json", "{}");
  CHECK(says(why(dir.path()), {"no 'weight_map'"}));

  put_tensors(dir.path() / second, {"c", "b", "a"});
  put_index(dir.path(), {{"a", first}, {"b", second}});
  CHECK(says(why(dir.path()), {"tensor 'a' lies in two shards", first.c_str(), second.c_str()}));
}

TEST_CASE("what is no checkpoint is named for what it is") {
  const testing::TempDir dir;
  CHECK(says(why(dir.path() / "none"), {"none", "No such file", "expected a Hugging Face folder"}));
  CHECK(says(why(dir.path()), {"holds no tensor files", "found nothing"}));
  put(dir.path() / "pytorch_model.bin", "PK\x03\x04zip");
  fs::create_directory(dir.path() / "onnx");
  CHECK(says(why(dir.path()), {"pytorch_model.bin", "zip archive"}));
  CHECK(says(why(dir.path() / "pytorch_model.bin"), {"pytorch_model.bin", "zip archive", "cut short"}));
  put(dir.path() / "m.pt", "\x80\x02}q");
  CHECK(says(why(dir.path() / "m.pt"), {"Python pickle", "not read"}));
  put(dir.path() / "m.onnx", "\x08\x07");
  CHECK(says(why(dir.path() / "m.onnx"), {"no ONNX model"}));
  put(dir.path() / "m.npz", "PK\x03\x04zip");
  CHECK(says(why(dir.path() / "m.npz"), {"m.npz", "zip archive", "cut short"}));
  put(dir.path() / "m.gguf", "GGUF\3");
  CHECK(says(why(dir.path() / "m.gguf"), {"m.gguf", "the version", "left"}));
  put(dir.path() / "m.txt", "hello");
  CHECK(says(why(dir.path() / "m.txt"), {"unknown kind", "expected"}));
  put(dir.path() / "config.json", "{}");
  CHECK(says(why(dir.path() / "config.json"), {"no 'weight_map'", "expected"}));
  put(dir.path() / "bad.safetensors", "xx");
  CHECK(says(why(dir.path() / "bad.safetensors"), {"bad.safetensors", "cut short"}));
  put(dir.path() / "empty.safetensors", "");
  CHECK(says(why(dir.path() / "empty.safetensors"), {"cut short"}));
}

TEST_CASE("damage beside the tensors is reported with its file") {
  const testing::TempDir dir;
  put_tensors(dir.path() / "model.safetensors", {"a"});
  put(dir.path() / "config.json", "{\"a\":");
  CHECK(says(why(dir.path()), {"config.json", "not JSON at byte"}));
  put(dir.path() / "config.json", "[]");
  CHECK(says(why(dir.path()), {"config.json", "expected a JSON object"}));
  put(dir.path() / "config.json", "{}");
  put(dir.path() / "modules.json", R"([{"path":"../other"}])");
  CHECK(says(why(dir.path()), {"modules.json", "'../other'", "not a plain path"}));
  put(dir.path() / "modules.json", "{}");
  CHECK(says(why(dir.path()), {"modules.json", "expected a JSON array"}));
  put(dir.path() / "modules.json", "[]");
  CHECK(why(dir.path()) == "no failure");
  fs::create_symlink("nowhere", dir.path() / "tokenizer.json");
  CHECK(says(why(dir.path()), {"tokenizer.json", "No such file"}));
  fs::remove(dir.path() / "tokenizer.json");
  put(dir.path() / "tokenizer.json", "");
  fs::resize_file(dir.path() / "tokenizer.json", Checkpoint::kMaxModelFile + 1);
  CHECK(says(why(dir.path()), {"tokenizer.json", "67108865 bytes", "at most 67108864"}));
}

TEST_CASE("an already quantized checkpoint is refused by name") {
  const testing::TempDir dir;
  put_tensors(dir.path() / "model.safetensors", {"layer.weight"});
  put(dir.path() / "config.json", R"({"quantization_config":{"quant_method":"awq","bits":4}})");
  CHECK(says(why(dir.path()), {"already quantized", "quantization_config", "'awq'"}));
  CheckpointOptions options;
  options.refuse_quantized = false;
  CHECK(Checkpoint::open(dir.path(), options).take().quantized().has_value());
  put(dir.path() / "config.json", R"({"quantization_config":null})");
  CHECK(why(dir.path()) == "no failure");
  for (const char* name : {"layer.qweight", "layer.qzeros", "layer.weight_packed", "qweight"}) {
    put_tensors(dir.path() / "model.safetensors", {"a", name});
    CHECK(says(why(dir.path()), {"already quantized", name}));
  }
  put_tensors(dir.path() / "model.safetensors", {"layer.weight", "layer.weight_scale"});
  CHECK(why(dir.path()) == "no failure");
  put_tensors(dir.path() / "model.safetensors", {"layer.weight", "layer.weight_scale"}, DType::kF8E4M3);
  CHECK(says(why(dir.path()), {"already quantized", "'layer.weight_scale'", "F8_E4M3"}));
}

TEST_CASE("the real MiniLM folder") {
  const auto model = testing::minilm();
  if (!model) return testing::skip("the MiniLM checkpoint is not installed");
  const Checkpoint checkpoint = Checkpoint::open(*model).take();
  CHECK(checkpoint.input_bytes() == fs::file_size(*model / "model.safetensors"));
  std::size_t weights = 0;
  std::size_t embeddings = 0;
  std::size_t kept = 0;
  for (const TensorEntry& tensor : checkpoint.tensors()) {
    const TensorClass found = classify_tensor(tensor.name, tensor.dtype, tensor.shape, checkpoint.config());
    ++(found.role == TensorRole::kWeight      ? weights
       : found.role == TensorRole::kEmbedding ? embeddings
                                              : kept);
    CHECK((found.role == TensorRole::kKept) == !found.kept_because.empty());
  }
  // Six layers of query, key, value, output, intermediate, output; and the pooler.
  CHECK(weights == 6 * 6 + 1);
  CHECK(embeddings == 3);
  CHECK(kept == checkpoint.tensors().size() - weights - embeddings);
  const TensorEntry* words = checkpoint.find("embeddings.word_embeddings.weight");
  REQUIRE(words != nullptr);
  CHECK(words->shape == std::vector<std::uint64_t>{30522, 384});
  for (const char* name : {"config.json", "tokenizer.json", "vocab.txt", "modules.json",
                           "1_Pooling/config.json", "sentence_bert_config.json"})
    CHECK(checkpoint.find_file(name) != nullptr);
}

}  // namespace
}  // namespace crumb
