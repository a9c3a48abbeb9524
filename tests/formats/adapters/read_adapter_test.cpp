// Whatever an adapter lies in is told by what lies there.
#include "formats/adapters/read_adapter.h"

#include <doctest/doctest.h>

#include <random>

#include "formats/adapters/gguf_adapter.h"
#include "formats/adapters/peft.h"
#include "tests/formats/adapters/samples.h"
#include "tests/formats/gguf/samples.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;
using testing::put_file;
using testing::says;

TEST_CASE("an adapter is read from either form") {
  const testing::TempDir temp;
  std::mt19937_64 random(21);
  Adapter adapter{"base", {testing::drawn_update(random, "model.layers.0.self_attn.k_proj", DType::kF32, 4)}};
  adapter.updates[0].scale = 2;
  write_peft(adapter, temp.path() / "folder.gguf");  // names do not count
  write_gguf_adapter(adapter, temp.path() / "file.safetensors", {.model_type = "llama", .head_size = 4});
  testing::check_same(read_adapter(temp.path() / "folder.gguf"), adapter);
  testing::check_same(read_adapter(temp.path() / "file.safetensors"), adapter);
  testing::check_same(read_adapter(temp.path() / "file.safetensors", 4), adapter);
}

TEST_CASE("an adapter that the peft package saved, and what llama.cpp's converter made of it") {
  const fs::path folder = testing::repo_root() / "tests/fixtures/adapters";
  const Adapter saved = read_adapter(folder / "peft");
  REQUIRE(saved.updates.size() == 14);
  CHECK(saved.updates[0].module == "model.layers.0.mlp.down_proj");
  CHECK(saved.updates[0].rank == 2);
  CHECK(saved.updates[0].in == 24);
  CHECK(saved.updates[0].out == 16);
  CHECK(saved.updates[0].scale == 1.5F);
  Adapter converted = read_adapter(folder / "converted.gguf", 4);
  converted.base = saved.base;
  testing::check_same(converted, saved);
  CHECK(says(testing::refusal([&] { (void)read_adapter(folder / "converted.gguf"); }), {"base model"}));
}

TEST_CASE("what is no adapter is refused by what it is") {
  const testing::TempDir temp;
  const auto why = [&](const char* name) {
    const std::string message = testing::refusal([&] { (void)read_adapter(temp.path() / name); });
    CHECK(says(message, {name}));
    return message;
  };
  fs::create_directory(temp.path() / "empty");
  fs::create_directory(temp.path() / "model");
  put_file(temp.path() / "model" / "config.json", "{}");
  put_file(temp.path() / "text", "hello");
  put_file(temp.path() / "none.gguf", "");
  put_file(temp.path() / "adapter_config.json", "{}");
  put_file(temp.path() / "x.json", "{}");
  put_file(temp.path() / "cut.gguf", "GGUF");
  put_file(temp.path() / "model.gguf",
           testing::gguf_file({{"general.architecture", 8, testing::gguf_text_bytes("llama")}}, {}));
  CHECK(says(why("absent"), {"No such file"}));
  CHECK(says(why("empty"), {"is a folder without adapter_config.json; expected a low-rank adapter"}));
  CHECK(says(why("model"), {"is a model's folder; expected a low-rank adapter"}));
  CHECK(says(why("text"), {"a file of an unknown kind; expected"}));
  CHECK(says(why("none.gguf"), {"a file of an unknown kind; expected"}));
  CHECK(says(why("adapter_config.json"), {"one of the two files of PEFT's folder"}));
  CHECK(says(why("x.json"), {"a JSON file; expected"}));
  CHECK(says(why("model.gguf"), {"this is a model, expected an adapter"}));
  (void)why("cut.gguf");
}

}  // namespace
}  // namespace crumb
