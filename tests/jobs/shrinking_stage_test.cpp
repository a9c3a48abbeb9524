// Stages that shrink a network: they run before it is planned, what they leave is quantized, and the report
// compares with what was given. The stage here is a program's own, as the product's would be.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "cli/flags/target_flags.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/safetensors/safetensors.h"
#include "graph/buffers.h"
#include "graph/onnx/array_files.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/write.h"
#include "graph/quantize/compare.h"
#include "jobs/quantize.h"
#include "models/configured_network.h"
#include "models/fresh_network.h"
#include "models/read_graph.h"
#include "models/resized_config.h"
#include "runtime/engine.h"
#include "tests/graph/quantize/build_graph.h"
#include "tests/models/memory_source.h"
#include "tests/support/samples.h"
#include "tests/support/testing.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::Tensor;
using testing::says;

/// The places of the largest of `norms`, in order: `share` of them, at least one.
std::vector<std::size_t> kept_places(const std::vector<double>& norms, double share) {
  std::vector<std::size_t> places(norms.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) { return norms[a] > norms[b]; });
  places.resize(
      std::max<std::size_t>(1, static_cast<std::size_t>(share * static_cast<double>(places.size()))));
  std::ranges::sort(places);
  return places;
}

/// A matrix [rows, columns] with some of its rows, or of its columns.
Tensor picked(const Tensor& matrix, const std::vector<std::size_t>& places, bool rows) {
  const auto columns = static_cast<std::size_t>(matrix.shape()[1]),
             all = static_cast<std::size_t>(matrix.shape()[0]);
  const std::vector<float> from = matrix.to_floats();
  std::vector<float> to;
  for (std::size_t r = 0; r < all; ++r) {
    if (rows && !std::ranges::binary_search(places, r)) continue;
    for (std::size_t c = 0; c < columns; ++c)
      if (rows || std::ranges::binary_search(places, c)) to.push_back(from[r * columns + c]);
  }
  const auto count = static_cast<std::int64_t>(places.size());
  return Tensor::floats({rows ? count : matrix.shape()[0], rows ? matrix.shape()[1] : count}, to);
}

/// Channels between MatMul 'a' and MatMul 'b' of h = relu(x a), y = h b, or between those of a decoder's
/// feed-forward networks: those with the smallest rows of the second go.
ptq::StageReport drop_channels(const Stage& stage, ptq::Setting& setting) {
  CHECK(setting.plan.constants.empty());  // before there is a plan
  ptq::StageReport report{.stage = to_string(stage), .measure = "matrices", .layers = {}, .notes = {}};
  std::map<std::string, Tensor>& constants = setting.graph.initializers;
  for (std::size_t layer = 0;; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".mlp.";
    const bool is_decoder = constants.contains(name + "down_proj.weight");
    if (!is_decoder && layer > 0) break;
    const std::string last = is_decoder ? name + "down_proj.weight" : "b";
    const Tensor behind = constants.at(last);
    const auto width = static_cast<std::size_t>(behind.shape()[1]);
    std::vector<double> norms(static_cast<std::size_t>(behind.shape()[0]));
    const std::vector<float> values = behind.to_floats();
    for (std::size_t i = 0; i < values.size(); ++i)
      norms[i / width] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    // Layers are left with different sizes.
    const auto places = kept_places(norms, stage.value("share") / static_cast<double>(1 + layer % 2));
    constants[last] = picked(behind, places, true);
    for (const std::string& first : is_decoder
                                        ? std::vector{name + "gate_proj.weight", name + "up_proj.weight"}
                                        : std::vector<std::string>{"a"})
      constants[first] = picked(constants.at(first), places, false);
    report.layers.push_back({.layer = last});
    if (!is_decoder) break;
  }
  const Graph whole = setting.graph;
  std::set<std::string> ends(whole.inputs.begin(), whole.inputs.end());
  ends.insert(whole.outputs.begin(), whole.outputs.end());
  std::erase_if(setting.graph.values, [&](const auto& value) { return !ends.contains(value.first); });
  setting.graph = graph::infer_shapes(setting.graph);
  return report;
}

StageInfo dropping() {
  return {.name = "drop_channels",
          .help = "channels go",
          .options = {{"share", StageOption::Kind::kNumber, 0.5, "of the channels that stay", 0, 1}},
          .in_floats = InFloats::kShrinks};
}

struct ShrunkPlace {
  testing::TempDir folder;
  fs::path network = folder.path() / "net.onnx", samples = folder.path() / "x.npy",
           output = folder.path() / "net.crumb";
  Graph given;

  ShrunkPlace(std::uint64_t channels, unsigned seed) {
    graph::testing::GraphBuilder build({16, 12});
    build.random.seed(seed);
    build.weight("a", {12, static_cast<std::int64_t>(channels)});
    build.weight("b", {static_cast<std::int64_t>(channels), 6});
    build.node("MatMul", {"x", "a"}, "h").node("Relu", {"h"}, "r").node("MatMul", {"r", "b"}, "y");
    given = build.done();
    graph::write_onnx(given, network);
    build.weight("samples", {16, 12});
    graph::write_array(samples, build.graph.initializers.at("samples"));
  }
  QuantizeRequest request(const std::string& recipe) const {
    return {.input = network.string(),
            .output = output.string(),
            .recipe = parse_recipe(recipe, "the test"),
            .data = {samples.string()},
            .device = {},
            .shapes = {},
            .read_files = {}};
  }
};

TEST_CASE(
    "a stage that shrinks runs before the plan, and the report compares with the network that was given") {
  const ptq::OwnStage own(dropping(), drop_channels);
  std::mt19937 engine(3);
  for (int round = 0; round < 8; ++round) {
    const std::uint64_t channels = 8 + engine() % 40;
    const double share = static_cast<double>(25 + engine() % 50) / 100;
    const bool rounds = engine() % 2 == 0, has_edges = engine() % 2 == 0;
    CAPTURE(channels);
    CAPTURE(share);
    const ShrunkPlace place(channels, engine());
    const auto left = static_cast<std::int64_t>(share * static_cast<double>(channels));
    Observer silent;
    const QuantizeReport report =
        quantize(place.request("weights: int8:channel\n" +
                               std::string(has_edges ? "activations: uint8:tensor\n" : "") +
                               "stages: [\"drop_channels:share=" + std::to_string(share) + "\"" +
                               (rounds ? ", gptq" : "") + "]\n"),
                 silent);
    REQUIRE(report.tensors.size() == 2);
    CHECK(report.tensors[0].shape == std::vector<std::uint64_t>{12, static_cast<std::uint64_t>(left)});
    CHECK(report.stages.front().stage.starts_with("drop_channels"));
    CHECK(report.recipe.stages.front().name == "drop_channels");
    // Samples round what is left, asked for or not.
    CHECK(report.stages.size() == 2);
    CHECK(report.plan.edges.size() == (has_edges ? 2 : 0));

    const Graph made = models::open_graph(place.output.string());
    CHECK(made.quantized.at("b").shape() == std::vector<std::int64_t>{left, 6});
    const runtime::Engine runtime(1);
    const Tensor x = graph::read_array(place.samples);
    const std::vector<float> meant = runtime.prepare(place.given)->run({x})[0].to_floats(),
                             found = runtime.prepare(made)->run({x})[0].to_floats();
    const Distortion lost = distortion(meant, found);
    REQUIRE(report.comparison);
    REQUIRE(report.comparison->outputs.size() == 1);
    CHECK(report.comparison->outputs[0].distortion.sqnr_db == doctest::Approx(lost.sqnr_db).epsilon(1e-6));
    CHECK(lost.sqnr_db < 25);  // eight bits alone lose less: what went is counted
  }
}

TEST_CASE(
    "a stage that shrinks is refused by name behind one that is for the plan, and where nobody runs it") {
  const ptq::OwnStage own(dropping(), drop_channels);
  CHECK_THROWS_AS(ptq::OwnStage(dropping(), drop_channels), Error);
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* before : {"gptq", "equalize", "rounding", "low_rank:rank=2"}) {
    const std::string text = message([&] {
      parse_recipe("weights: int8\nstages: [" + std::string(before) + ", drop_channels]\n", "the test");
    });
    CHECK(says(text, {"'drop_channels'", "makes a smaller network", before, "put it first"}));
    const std::vector<Stage> stages{parse_stage("drop_channels"), parse_stage(before),
                                    parse_stage("drop_channels")};
    CHECK_THROWS_AS(count_shrinking(stages), Error);
  }
  CHECK(count_shrinking(std::vector<Stage>{}) == 0);
  CHECK(count_shrinking(std::vector{parse_stage("drop_channels"), parse_stage("drop_channels"),
                                    parse_stage("gptq")}) == 2);
  const Recipe recipe = parse_recipe("weights: int8\nstages: [drop_channels, gptq]\n", "the test");
  CHECK(says(message([&] { refuse_stages(recipe); }), {"'drop_channels'", "for crumb quantize alone"}));
  ptq::Setting setting{.graph = {}, .plan = {}};
  CHECK(says(message([&] { ptq::run_stages({parse_stage("drop_channels")}, setting); }),
             {"'drop_channels'", "crumb quantize alone"}));
}

TEST_CASE("a stage that shrinks on samples has those of the network that was given, and is refused without") {
  static std::size_t rows = 0;
  const ptq::OwnStage own(
      dropping(),
      [](const Stage& stage, ptq::Setting& setting) {
        const auto network = setting.engine->prepare(setting.graph);
        setting.samples([&](const std::vector<Tensor>& inputs) {
          CHECK(network->run(inputs)[0].shape()[1] == 6);
          rows += static_cast<std::size_t>(inputs[0].shape()[0]);
        });
        return drop_channels(stage, setting);
      },
      true);
  const ShrunkPlace place(20, 2);
  Observer silent;
  QuantizeRequest request = place.request("weights: int4:channel\nstages: [drop_channels, gptq]\n");
  rows = 0;
  const QuantizeReport report = quantize(request, silent);
  CHECK(rows == 16);
  CHECK(report.stages.size() == 2);
  CHECK(report.tensors[1].shape == std::vector<std::uint64_t>{10, 6});
  request.data.clear();
  CHECK_THROWS_WITH_AS(quantize(request, silent),
                       "the stage drop_channels needs samples that run through the network: --data", Error);
}

TEST_CASE("a stage that shrinks keeps inputs and outputs, and one of a program's own is gone when it ends") {
  {
    const ptq::OwnStage own(dropping(), [](const Stage& stage, ptq::Setting& setting) {
      setting.graph.outputs.push_back("h");
      return ptq::StageReport{.stage = to_string(stage), .measure = {}, .layers = {}, .notes = {}};
    });
    const ShrunkPlace place(8, 1);
    Observer silent;
    CHECK_THROWS_WITH_AS(
        quantize(place.request("weights: int8:channel\nstages: [drop_channels]\n"), silent),
        "the stage 'drop_channels' gave the network other inputs or outputs; what shrinks keeps them", Error);
    CHECK(!fs::exists(place.output));
  }
  CHECK_THROWS_AS(parse_stage("drop_channels"), Error);
}

constexpr const char* kDecoder =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 40,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "rope_theta": 10000.0,
        "initializer_range": 0.3, "tie_word_embeddings": false})";

/// A folder with a checkpoint of that configuration; its network in floats.
Graph write_decoder(const fs::path& folder, std::uint64_t seed) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << kDecoder;
  Graph graph = models::fresh_network(folder / "config.json", seed).graph;
  const std::set<std::string> buffers = graph::buffers(graph);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : graph.initializers) {
    if (tensor.type() != graph::ElementType::kFloat || buffers.contains(name)) continue;
    const bool is_linear = name.ends_with("_proj.weight") || name == "lm_head.weight";
    Tensor& stored = tensors[name] = tensor;
    if (!is_linear) continue;
    const auto in = static_cast<std::size_t>(tensor.shape()[0]),
               out = static_cast<std::size_t>(tensor.shape()[1]);
    const std::vector<float> from = tensor.to_floats();
    std::vector<float> to(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) to[i % out * in + i / out] = from[i];
    stored = Tensor::floats({tensor.shape()[1], tensor.shape()[0]}, to);
  }
  std::vector<TensorDescription> descriptions;
  for (const auto& [name, tensor] : tensors)
    descriptions.push_back({name, DType::kF32, {tensor.shape().begin(), tensor.shape().end()}});
  SafetensorsWriter writer(folder / "model.safetensors", std::move(descriptions));
  for (const TensorDescription& one : std::vector(writer.tensors()))
    writer.write(one.name, tensors.at(one.name).bytes());
  writer.commit();
  return graph;
}

/// Logits of four tokens behind nothing.
std::vector<float> logits_of(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const std::string& input : graph.inputs) {
    if (input == "input_ids") inputs.push_back(Tensor::ints({1, 4}, std::vector<std::int64_t>{7, 1, 30, 12}));
    if (input == "attention_mask") inputs.push_back(Tensor::ints({1, 4}, std::vector<std::int64_t>(4, 1)));
    if (input == "position_ids")
      inputs.push_back(Tensor::ints({1, 4}, std::vector<std::int64_t>{0, 1, 2, 3}));
    if (input.starts_with("past")) inputs.push_back(Tensor::floats({1, 2, 0, 8}, {}));
  }
  const std::vector<Tensor> outputs = runtime::Engine(1).prepare(graph)->run(inputs);
  return outputs
      .at(static_cast<std::size_t>(std::ranges::find(graph.outputs, "logits") - graph.outputs.begin()))
      .to_floats();
}

TEST_CASE(
    "a decoder that a stage makes smaller is packed with the sizes of its layers, and is what its "
    "config.json says") {
  const ptq::OwnStage own(dropping(), drop_channels);
  const testing::TempDir folder;
  const fs::path output = folder.path() / "small.crumb";
  ptq::Setting by_hand{.graph = graph::prepare(write_decoder(folder.path() / "model", 5), Recipe{}),
                       .plan = {}};
  const std::vector<float> whole = logits_of(by_hand.graph);
  const Stage stage = parse_stage("drop_channels:share=0.5");
  drop_channels(stage, by_hand);

  QuantizeRequest request{.input = (folder.path() / "model").string(),
                          .output = output.string(),
                          .recipe = parse_recipe("weights: int8:channel\nembeddings: keep\nstages: "
                                                 "[\"drop_channels:share=0.5\"]\n",
                                                 "the test"),
                          .data = {},
                          .device = {},
                          .shapes = {},
                          .read_files = {}};
  Observer silent;
  quantize(request, silent);

  const TensorSource packed = TensorSource::open(output);
  models::expect_network_of_configuration(packed);
  const std::string config = *models::weights_of(packed)->file("config.json");
  std::vector<std::size_t> widths;
  for (const DecoderLayer& layer : DecoderConfig::parse(JsonFile("config.json", config)).layers) {
    widths.push_back(layer.inner_size);
    CHECK(layer.heads == 4);
  }
  CHECK(widths == std::vector<std::size_t>{24, 12, 24});
  CHECK(says(config, {"\"num_attention_heads\": 4", "\"rope_theta\": 10000.0"}));

  const std::vector<float> small = logits_of(by_hand.graph), found = logits_of(models::open_graph(output));
  CHECK(distortion(small, found).sqnr_db > 25);
  CHECK(distortion(whole, found).sqnr_db < 20);
}

TEST_CASE("sizes that config.json cannot say are refused, and the same sizes change nothing") {
  testing::MemorySource checkpoint;
  const auto message = [&](const Graph& graph) {
    try {
      models::resized_files(checkpoint, graph);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const testing::TempDir folder;
  Graph graph = write_decoder(folder.path(), 6);
  CHECK(says(message(graph), {"no config.json"}));
  checkpoint.files["config.json"] = R"({"model_type": "bert"})";
  CHECK(says(message(graph), {"'bert'", "cannot say the sizes"}));
  checkpoint.files["config.json"] = kDecoder;
  CHECK(models::resized_files(checkpoint, graph).empty());
  // Heads that an attention has, and its output matrix has not.
  for (graph::Node& node : graph.nodes)
    if (node.is("Attention")) node.attributes["q_num_heads"] = std::int64_t{2};
  CHECK(says(message(graph), {"layer 0", "2 heads of 8", "o_proj.weight' takes 32"}));
  Graph gone = write_decoder(folder.path(), 6);
  gone.initializers.erase("model.layers.1.mlp.down_proj.weight");
  CHECK(says(message(gone), {"'model.layers.1.mlp.down_proj.weight'"}));
  // All layers with fewer: a number again.
  Graph fewer = write_decoder(folder.path(), 6);
  for (int layer = 0; layer < 3; ++layer) {
    Tensor& down = fewer.initializers["model.layers." + std::to_string(layer) + ".mlp.down_proj.weight"];
    down = picked(down, {1, 5, 9, 33}, true);
  }
  CHECK(says(models::resized_files(checkpoint, fewer).at("config.json"), {"\"intermediate_size\": 4,"}));
}

TEST_CASE("a budget counts the network as it is, and refuses a stage that makes it smaller") {
  const ptq::OwnStage own(dropping(), drop_channels);
  cli::TargetFlags flags;
  flags.target = "3.5bpw";
  cli::RecipeFlags recipe;
  recipe.stages = "drop_channels";
  try {
    cli::wish_of(flags, recipe, true);
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(says(error.what(), {"--target counts the network as it is", "drop_channels makes it smaller"}));
  }
}

TEST_CASE("comparing feeds each network the empty caches that it takes") {
  const auto decoder_like = [](std::int64_t heads) {
    graph::testing::GraphBuilder build({2, 3});
    build.graph.inputs.push_back("past");
    build.graph.values["past"] = graph::testing::GraphBuilder::floats({1, heads, 0, 4});
    build.constant("zero", {1}, {0});
    build.node("ReduceSum", {"past"}, "sum", {{"keepdims", std::int64_t{0}}}).node("Add", {"x", "sum"}, "y");
    return build.done();
  };
  const runtime::Engine engine(1);
  const auto batches = [](const auto& batch) {
    batch({Tensor::floats({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}), Tensor::floats({1, 2, 0, 4}, {})});
  };
  const graph::GraphComparison found = graph::compare(decoder_like(4), decoder_like(2), {}, engine, batches);
  REQUIRE(found.outputs.size() == 1);
  CHECK(found.outputs[0].distortion.max_abs_error == 0);
}

}  // namespace
}  // namespace crumb::jobs
