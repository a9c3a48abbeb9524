// Graphs in the packed file: what comes back, what a stranger finds inside, and what is refused.
#include "graph/packed/crumb_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "base/files/mapped_file.h"
#include "formats/onnx/wire.h"
#include "graph/facts/lift_quantized.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "graph/onnx/write.h"
#include "graph/qonnx/quantized_constants.h"
#include "models/read_graph.h"
#include "tests/formats/crumb_file/samples.h"
#include "tests/graph/packed/samples.h"
#include "tests/graph/passes/builder.h"
#include "tests/support/capture_copy.h"
#include "tests/support/testing.h"

namespace crumb::graph {
namespace {

using testing::layer_graph;
using testing::read_all;
using testing::same_tensor;
using testing::TempDir;
using Ints = std::vector<std::int64_t>;

/// A graph that is refused says why.
std::string refusal(const std::filesystem::path& path) {
  try {
    read_crumb_graph(path);
    return "";
  } catch (const Error& error) {
    return std::string(error.what()).empty() ? "(an empty message)" : error.what();
  }
}

void check_same(const Graph& found, const Graph& meant) {
  CHECK(found.inputs == meant.inputs);
  CHECK(found.outputs == meant.outputs);
  CHECK(found.opsets == meant.opsets);
  CHECK(found.metadata == meant.metadata);
  CHECK(found.initializers == meant.initializers);
  REQUIRE(found.quantized.size() == meant.quantized.size());
  for (const auto& [name, constant] : meant.quantized) {
    CAPTURE_COPY(name);
    REQUIRE(found.quantized.contains(name));
    const QuantizedConstant& other = found.quantized.at(name);
    CHECK(other.axes == constant.axes);
    CHECK(same_tensor(*other.tensor, *constant.tensor));
    CHECK(other.tensor->spec == constant.tensor->spec);
  }
  REQUIRE(found.nodes.size() == meant.nodes.size());
  for (std::size_t i = 0; i < meant.nodes.size(); ++i) {
    CHECK(found.nodes[i].name == meant.nodes[i].name);
    CHECK(found.nodes[i].op == meant.nodes[i].op);
    CHECK(found.nodes[i].inputs == meant.nodes[i].inputs);
    CHECK(found.nodes[i].outputs == meant.nodes[i].outputs);
    CHECK(found.nodes[i].attributes == meant.nodes[i].attributes);
  }
  // By the bytes of their ONNX files, which knowledge of values is part of.
  CHECK(onnx_bytes(infer_shapes(fold_quantized(found))) == onnx_bytes(infer_shapes(fold_quantized(meant))));
}

/// Written, read, and compared with what was meant.
void check_round_trip(const Graph& graph, int zstd_level = 0) {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  write_crumb_graph(graph, path, {.zstd_level = zstd_level});
  const Graph found = models::read_graph(path);
  check_same(found, graph);
  const auto again = folder.path() / "again.crumb";
  write_crumb_graph(found, again, {.zstd_level = zstd_level});
  CHECK(read_all(path) == read_all(again));
}

/// A network with codes that lie otherwise, large and small initializers of several types.
Graph sample() {
  Graph graph = layer_graph({"MatMul", {12, 7}, 1}, "int4:group=4", 5);
  graph.metadata = {{"crumb.certificates", "{\"w\": 16}"}, {"author", "\xE2\x82\xAC"}};
  graph.values["w"].annotations["finn_datatype"] = "SCALEDINT<4>";
  graph.nodes[0].outputs = {"product"};
  graph.initializers["bias"] = Tensor::floats({7}, testing::normal_floats(7, 3));
  graph.initializers["table"] = Tensor::floats({100, 7}, testing::normal_floats(700, 4));
  graph.initializers["rows"] = Tensor::ints({300}, Ints(300, 3));
  graph.initializers["half"] =
      Tensor(ElementType::kBfloat16, {20, 30}, std::vector<std::byte>(1200, std::byte{1}));
  graph.initializers["nibbles"] =
      Tensor(ElementType::kInt4, {3001}, std::vector<std::byte>(1501, std::byte{0}));
  const auto node = [&](const char* op, std::vector<std::string> inputs, const std::string& output) {
    graph.nodes.push_back({.name = output + "_node",
                           .op = op,
                           .version = 13,
                           .inputs = std::move(inputs),
                           .outputs = {output}});
  };
  node("Add", {"product", "bias"}, "y");
  node("Gather", {"table", "rows"}, "gathered");
  node("Identity", {"half"}, "h");
  node("Identity", {"nibbles"}, "n");
  graph.outputs = {"y", "gathered", "h", "n"};
  for (const char* name : {"h", "n", "gathered"}) graph.values[name] = {};
  graph.values["h"].type = ElementType::kBfloat16;
  graph.values["n"].type = ElementType::kInt4;
  return graph;
}

TEST_CASE("packed graph: every format, granularity and layer comes back") {
  std::uint64_t seed = 1;
  for (const testing::Layer& layer :
       {testing::Layer{"MatMul", {16, 6}, 1}, testing::Layer{"Conv", {6, 4, 4}, 0},
        testing::Layer{"ConvTranspose", {4, 6, 4}, 1}, testing::Layer{"MatMul", {2, 8, 5}, 2}}) {
    for (const std::string spec :
         {"int4", "int2h:group=8", "binary:tensor", "uint3:zero=int", "int8:zero=float:group=4", "nvfp4",
          "mxfp4:pad=on", "nf4", "palette3", "ternary", "e4m3fn", "int4:block=2x8:pad=on"}) {
      if (spec == "nvfp4" && layer.op != "MatMul") continue;  // blocks of 16
      if (spec == "nvfp4" && layer.shape.size() == 3) continue;
      CAPTURE(layer.op);
      CAPTURE(spec);
      ++seed;
      check_round_trip(layer_graph(layer, spec, seed), seed % 2 == 0 ? 0 : 3);
    }
  }
}

TEST_CASE("packed graph: initializers, names and metadata come back") {
  check_round_trip(sample());
  check_round_trip(sample(), 5);
  Graph plain = fold_quantized(sample());  // not a code in it
  check_round_trip(plain);
}

TEST_CASE("packed graph: the structure is an ONNX model with the tensors for inputs") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  write_crumb_graph(sample(), path);
  const CrumbFile file = CrumbFile::open(path).take();
  CHECK(file.header().model == "graph");
  CHECK(holds_graph(file.header()));
  std::vector<std::string> names;
  for (const PackedTensor& tensor : file.header().tensors) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"half", "rows", "table", "w"});
  const PackedFile* entry = file.find_file("graph.onnx");
  REQUIRE(entry);
  const BlobBytes bytes = file.load(entry->blob, "graph.onnx").take();
  const Graph structure = parse_onnx(bytes.bytes(), folder.path()).take();
  CHECK(structure.inputs == std::vector<std::string>{"x", "half", "rows", "table", "w"});
  CHECK(structure.metadata.at("crumb.inputs") == "1");
  CHECK(structure.initializers.size() == 2);  // bias, nibbles
  CHECK(structure.shape_of("w") == Shape{7, 12});
  REQUIRE(structure.nodes[0].op == "Transpose");
  CHECK(structure.nodes[0].name == "crumb.axes:w");
  CHECK(structure.nodes[0].ints_or("perm", {}) == Ints{1, 0});
  CHECK(structure.find(structure.nodes[0].outputs[0])->annotations.at("finn_datatype") == "SCALEDINT<4>");
}

TEST_CASE("packed graph: codes that are an output, and nodes that pose as ours") {
  Graph output = layer_graph({"MatMul", {16, 6}, 1}, "int4", 1);
  output.outputs.emplace_back("w");
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  write_crumb_graph(output, path);
  const Graph found = models::read_graph(path);
  CHECK(found.outputs == output.outputs);
  REQUIRE(found.quantized.contains("w_codes"));
  CHECK(same_tensor(*found.quantized.at("w_codes").tensor, *output.quantized.at("w").tensor));
  CHECK(found.nodes.size() == 2);

  // The Transpose of an earlier file's structure, over a float weight and over codes.
  for (const bool is_codes : {false, true}) {
    Graph posing = layer_graph({"MatMul", {6, 16}, 0}, "int4", 1);
    posing.values["x"].shape = Shape{Dim("n"), 16};
    posing.nodes.insert(posing.nodes.begin(), {.name = "crumb.axes:w",
                                               .op = "Transpose",
                                               .version = 13,
                                               .inputs = {"w"},
                                               .outputs = {"t"},
                                               .attributes = {{"perm", Ints{1, 0}}}});
    posing.nodes[1].inputs[1] = "t";
    if (!is_codes) posing = fold_quantized(posing);
    write_crumb_graph(posing, path);
    const Graph again = models::read_graph(path);
    CHECK(again.nodes.size() == (is_codes ? 1 : 2));
    if (is_codes) CHECK(again.quantized.at("w").axes == Ints{1, 0});
  }
}

TEST_CASE("packed graph: networks of others are lifted and packed") {
  const auto networks = testing::qonnx_networks();
  if (!networks) return testing::skip("qonnx is not installed (scripts/setup tests)");
  for (const char* name : {"bsd300x3-espcn/nn_resize/quant_model", "bsd300x3-espcn/subpixel/quant_model",
                           "floatquant_exec/qonnx_act_weight_fp8", "residual_block_clean",
                           "matmul_update/sdp", "mnist-conv/model"}) {
    CAPTURE(name);
    const Graph lifted = lift_quantized(models::read_graph(*networks / (std::string(name) + ".onnx")));
    check_round_trip(lifted);
    check_round_trip(lifted, 9);
  }
}

/// 784 inputs, layers of 64, 64, 64 and 10: activations and weights behind quantizers of the zoo's TFC
/// networks. By two bits all numbers are -1, 0 or 1, by one -1 or 1.
Graph perceptron(int weight_bits, int activation_bits) {
  Builder made({1, 784});
  made.constant("one", {}, {1});
  made.constant("two", {}, {2});
  made.constant("zero", {}, {0});
  const auto quantized = [&](const std::string& name, int bits) {
    const std::string out = name + "_quantized";
    if (bits == 1) {
      made.node("BipolarQuant", {name, "one"}, {out}, {}, kQonnxDomain);
    } else {
      made.node(
          "Quant", {name, "one", "zero", "two"}, {out},
          {{"signed", std::int64_t{1}}, {"narrow", std::int64_t{1}}, {"rounding_mode", std::string("ROUND")}},
          kQonnxDomain);
    }
    return out;
  };
  const Ints sizes{784, 64, 64, 64, 10};
  std::string x = "x";
  for (std::size_t layer = 1; layer < sizes.size(); ++layer) {
    const std::string number = std::to_string(layer), w = "w" + number, turned = "t" + number;
    const auto count = static_cast<std::size_t>(sizes[layer] * sizes[layer - 1]);
    std::vector<float> weights = testing::normal_values(count, layer);
    for (float& value : weights)
      value = weight_bits == 1 ? std::copysign(1.0F, value) : std::clamp(std::round(value), -1.0F, 1.0F);
    made.constant(w, {sizes[layer], sizes[layer - 1]}, weights);
    const std::string left = quantized(x, activation_bits);
    made.node("Transpose", {quantized(w, weight_bits)}, {turned}, {{"perm", Ints{1, 0}}});
    x = layer + 1 == sizes.size() ? "y" : "x" + number;
    made.node("MatMul", {left, turned}, {x});
  }
  return made.graph;
}

TEST_CASE("packed graph: quantized layers are lifted, packed and small") {
  for (const auto& bits : {std::pair{1, 1}, std::pair{1, 2}, std::pair{2, 2}}) {
    CAPTURE(bits.first);
    CAPTURE(bits.second);
    const Graph lifted = lift_quantized(perceptron(bits.first, bits.second));
    CHECK(lifted.quantized.size() == 4);
    check_round_trip(lifted);
    check_round_trip(lifted, 9);
  }
  const TempDir folder;
  const auto path = folder.path() / "tfc.crumb";
  const Graph tfc = lift_quantized(perceptron(2, 2));
  CHECK(tfc.quantized.size() == 4);
  std::uint64_t weights = 0;
  for (const auto& [weight, constant] : tfc.quantized) weights += constant.tensor->layout.matrix.size();
  CHECK(weights == 784 * 64 + 64 * 64 * 2 + 64 * 10);
  write_crumb_graph(tfc, path);
  const CrumbFile file = CrumbFile::open(path).take();
  CHECK(file.size() < weights * 2 / 8 + file.find_file("graph.onnx")->blob.raw + 4096);
  CHECK(file.size() < 40000);
}

/// What `change` makes of the structure of the sample, every checksum right again.
std::string refusal_of_structure(const std::function<void(Graph&)>& change,
                                 const std::function<void(CrumbHeader&)>& change_header = {}) {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  write_crumb_graph(sample(), path);
  const auto other = folder.path() / "other.crumb";
  {
    const CrumbFile file = CrumbFile::open(path).take();
    const BlobBytes bytes = file.load(file.find_file("graph.onnx")->blob, "").take();
    Graph structure = parse_onnx(bytes.bytes(), folder.path()).take();
    change(structure);
    const std::string changed = onnx_bytes(structure);
    CrumbHeader plan = file.header();
    plan.files[0].blob.raw = changed.size();
    if (change_header) change_header(plan);
    CrumbWriter writer(other, plan);
    for (const PackedTensor& tensor : plan.tensors) {
      for (const auto& part : file.find(tensor.name)->parts) {
        if (part) writer.write(file.load(*part, "").take().bytes());
      }
    }
    writer.write(std::as_bytes(std::span(changed)));
    writer.finish();
  }
  return refusal(other);
}

bool says(const std::string& message, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (message.find(part) != std::string::npos) continue;
    MESSAGE("'" << message << "' does not say '" << part << "'");
    return false;
  }
  return true;
}

TEST_CASE("packed graph: a structure that does not fit the tensors is refused by name") {
  CHECK(refusal_of_structure([](Graph&) {}) == "");
  CHECK(says(refusal_of_structure([](Graph& g) { g.metadata.clear(); }), {"other.crumb", "crumb.inputs"}));
  for (const char* count : {"", "-1", "6", "1x", "99999999999999999999", "1.0"}) {
    CHECK(says(refusal_of_structure([&](Graph& g) { g.metadata["crumb.inputs"] = count; }),
               {"inputs of its own", "0 to 5"}));
  }
  CHECK(says(refusal_of_structure([](Graph& g) { g.metadata["crumb.inputs"] = "0"; }),
             {"takes the tensor 'x'", "does not hold"}));
  CHECK(says(refusal_of_structure([](Graph& g) { g.metadata["crumb.inputs"] = "2"; }),
             {"'half'", "tensor too"}));
  CHECK(says(refusal_of_structure([](Graph& g) {
               g.inputs.emplace_back("more");
               g.values["more"] = {.type = ElementType::kFloat, .shape = Shape{2}};
             }),
             {"takes the tensor 'more'"}));
  CHECK(says(refusal_of_structure([](Graph& g) {
               std::erase(g.inputs, "table");
               g.initializers["table"] = Tensor::floats({2, 7}, std::vector<float>(14));
             }),
             {"no input for the tensor 'table'"}));
  CHECK(says(refusal_of_structure([](Graph& g) {
               g.values["w"].shape = Shape{12, 7};
             }),
             {"'w'", "[12, 7]", "[7, 12]"}));
  CHECK(says(refusal_of_structure([](Graph& g) { g.values["w"].shape.reset(); }), {"'w'", "any shape"}));
  CHECK(says(refusal_of_structure([](Graph& g) {
               g.values["table"].shape = Shape{Dim("n"), 7};
             }),
             {"'table'", "n"}));
  CHECK(
      says(refusal_of_structure([](Graph& g) { g.values["w"].type = ElementType::kInt8; }), {"'w'", "int8"}));
  CHECK(says(refusal_of_structure([](Graph& g) { g.values["half"].type = ElementType::kFloat16; }),
             {"'half'", "float16", "bfloat16"}));
  for (const Ints& perm : {Ints{0, 0}, Ints{1}, Ints{0, 1, 2}, Ints{-1, 0}, Ints{2, 1}, Ints{}}) {
    CHECK(says(refusal_of_structure([&](Graph& g) { g.nodes[0].attributes["perm"] = perm; }),
               {"crumb.axes:w", "permutation of the 2 axes"}));
  }
  CHECK(says(refusal_of_structure([](Graph& g) { g.nodes[0].attributes.clear(); }), {"no list of integers"}));
  // A checkpoint's file may hold its graph as well, and tensors that the graph does not take.
  const auto of_checkpoint = [](CrumbHeader& header) { header.model = "BertModel"; };
  CHECK(refusal_of_structure([](Graph&) {}, of_checkpoint) == "");
  const auto table_called = [](const std::string& name) {
    return [=](Graph& g) {
      std::erase(g.inputs, "table");
      g.initializers[name] = Tensor::floats({2, 7}, std::vector<float>(14));
      for (Node& node : g.nodes) std::ranges::replace(node.inputs, "table", name);
    };
  };
  CHECK(refusal_of_structure(table_called("other"), of_checkpoint) == "");
  CHECK(
      says(refusal_of_structure(table_called("table"), of_checkpoint), {"'table'", "called like a tensor"}));
  CHECK(says(
      refusal_of_structure([](Graph&) {}, [](CrumbHeader& header) { header.files[0].path = "config.json"; }),
      {"checkpoint", "graph.onnx"}));
}

TEST_CASE("packed graph: a checkpoint is no graph, and nothing lies outside") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  testing::write_sample(path, {{"a", {3, 10}, "int4"}});
  CHECK(says(refusal(path), {"m.crumb", "checkpoint (TestModel)", "expected a graph"}));
  CHECK_THROWS_AS(models::read_graph(path), Error);

  // A structure whose small initializer is external data beside the packed file.
  write_crumb_graph(sample(), path);
  const std::string content = read_all(path);
  testing::write_all(folder.path() / "secret", std::string(28, 'x'));
  testing::write_all(folder.path() / "graph.onnx", "not a folder");
  const std::string external = [&] {
    // TensorProto {dims: 7, data_type: 1, name: "bias", external_data {"location": "secret"}, data_location:
    // 1}
    using namespace std::string_literals;
    return "\x08\x07\x10\x01\x42\x04"s + "bias\x6A\x12\x0A\x08location\x12\x06secret\x70\x01"s;
  }();
  const CrumbFile file = CrumbFile::open(path).take();
  const BlobBytes bytes = file.load(file.find_file("graph.onnx")->blob, "").take();
  std::string structure(reinterpret_cast<const char*>(bytes.bytes().data()), bytes.bytes().size());
  // The initializer (GraphProto's field 5) is put at the end of the graph (ModelProto's field 7).
  const auto length = [](std::size_t size) {
    std::string varint;
    for (; size >= 128; size >>= 7) varint += static_cast<char>(size | 128);
    return varint + static_cast<char>(size);
  };
  WireReader reader(std::as_bytes(std::span(structure)), {0, structure.size()});
  WireField field;
  while (reader.next(field) && !field.is(7)) {
  }
  REQUIRE(field.is(7));
  const std::string graph =
      structure.substr(field.payload.begin, field.payload.size) + "\x2A" + length(external.size()) + external;
  const std::size_t before = length(field.payload.size).size();
  structure.replace(field.payload.begin - before, before + field.payload.size, length(graph.size()) + graph);
  const auto other = folder.path() / "other.crumb";
  CrumbHeader plan{.model = "graph", .tensors = {}, .files = {{"graph.onnx", Blob{.raw = structure.size()}}}};
  CrumbWriter writer(other, plan);
  writer.write(std::as_bytes(std::span(structure)));
  writer.finish();
  CHECK(says(refusal(other), {"bias", "external data"}));
}

/// Of every byte: all bits in a slow run, otherwise every third, in turn.
std::vector<std::string> flipped_bits(const std::string& content, std::size_t byte) {
  std::vector<std::string> all;
  for (std::size_t bit = testing::slow() ? 0 : byte % 3; bit < 8; bit += testing::slow() ? 1 : 3) {
    all.push_back(content);
    all.back()[byte] = static_cast<char>(content[byte] ^ (1 << bit));
  }
  return all;
}

TEST_CASE("packed graph, damaged: a flipped bit is found in every byte, and so is every cut") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb";
  write_crumb_graph(layer_graph({"MatMul", {4, 3}, 1}, "int4", 1), path);
  const std::string content = read_all(path);
  REQUIRE(content.size() < 4096);
  std::size_t missed = 0;
  for (std::size_t i = 0; i < content.size(); ++i) {
    for (const std::string& flipped : flipped_bits(content, i)) {
      testing::write_all(path, flipped);
      missed += refusal(path).empty();
    }
  }
  CHECK(missed == 0);
  for (std::size_t size = 0; size < content.size(); ++size) {
    testing::write_all(path, content.substr(0, size));
    missed += refusal(path).empty();
  }
  CHECK(missed == 0);
}

TEST_CASE("packed graph, damaged: a structure changed under right checksums is taken or refused in words") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb", other = folder.path() / "other.crumb";
  write_crumb_graph(layer_graph({"MatMul", {4, 3}, 1}, "int4", 1), path);
  testing::Taken taken(read_all(path));
  const std::string structure = taken.blobs.back();
  std::size_t refused = 0, silent = 0;
  const auto judge = [&](const std::string& changed) {
    taken.blobs.back() = changed;
    testing::write_all(other, taken.build());
    const std::string message = refusal(other);
    refused += !message.empty();
    silent += message == "(an empty message)";
  };
  for (std::size_t i = 0; i < structure.size(); ++i) {
    for (const std::string& flipped : flipped_bits(structure, i)) judge(flipped);
    judge(structure.substr(0, i));
  }
  CHECK(refused > structure.size());  // those cut short among them
  CHECK(silent == 0);
}

TEST_CASE("packed graph, damaged: codes and scales out of range are refused") {
  const TempDir folder;
  const auto path = folder.path() / "m.crumb", other = folder.path() / "other.crumb";
  write_crumb_graph(layer_graph({"MatMul", {4, 4}, 1}, "int4", 1), path);
  const std::string content = read_all(path);
  const auto with = [&](const char* part, char value) {
    testing::Taken taken(content);
    if (part) {
      std::string& blob = taken.blob("w", part);
      blob.assign(blob.size(), value);
    }
    testing::write_all(other, taken.build());
    return refusal(other);
  };
  CHECK(with(nullptr, 0) == "");
  CHECK(says(with("codes", '\x88'), {"'w'", "code"}));
  CHECK(says(with("scales", '\xFF'), {"'w'", "scale"}));
}

}  // namespace
}  // namespace crumb::graph
