#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <tuple>

#include "base/checksum.h"
#include "formats/torch_pickle/torch_pickle.h"
#include "tests/formats/torch_pickle/pickle_samples.h"
#include "tests/support/samples.h"

namespace crumb {
namespace {

using namespace testing;

std::string names(const std::string& file, const std::string& key = {}) {
  const Result<TensorListing> listing = list_file(file, key);
  if (!listing.ok()) return listing.failure().message;
  std::string text;
  for (const StoredTensor& tensor : listing.value().tensors) text += (text.empty() ? "" : " ") + tensor.name;
  for (const SkippedEntry& entry : listing.value().skipped) text += "; " + entry.name + ": " + entry.what;
  return text;
}

StoredTensor only(const std::string& value, const std::vector<std::string>& storages,
                  const Members& more = {}) {
  const TensorListing listing = list_file(archive(dict(text("t"), value), storages, more)).take();
  REQUIRE(listing.tensors.size() == 1);
  CHECK(listing.tensors[0].name == "t");
  return listing.tensors[0];
}

const std::string kSixteen(16, 'x');

TEST_CASE("a tensor lies where its storage lies") {
  const std::string file =
      archive(dict(text("t"), tensor(storage("FloatStorage", "1", 4), 1, {3}, {1})), {"ab", kSixteen});
  const StoredTensor tensor = list_file(file).take().tensors.at(0);
  CHECK(tensor.dtype == DType::kF32);
  CHECK(tensor.shape == std::vector<std::uint64_t>{3});
  CHECK(file.substr(tensor.place.offset, 16) == kSixteen);
  CHECK(tensor.place.stored == 16);
  CHECK(tensor.place.decoded == 16);
  CHECK(tensor.place.coding == StorageCoding::kPlain);
  CHECK(tensor.place.first == 1);
  CHECK(tensor.place.strides.empty());
  CHECK_FALSE(tensor.place.big_endian);
  CHECK_FALSE(tensor.place.crc);
  CHECK(tensor.file.empty());
}

TEST_CASE("a storage's checksum holds for tensors that are all of it") {
  using Sizes = std::vector<std::int64_t>;
  const auto crc = [](std::int64_t first, const Sizes& shape, const Sizes& strides) {
    const std::string value = dict(text("t"), tensor(storage("FloatStorage", "1", 4), first, shape, strides));
    return list_file(archive(value, {"ab", kSixteen})).take().tensors.at(0).place.crc;
  };
  const std::uint32_t expected = crc32_of(std::as_bytes(std::span(kSixteen)));
  CHECK(crc(0, {2, 2}, {2, 1}) == expected);
  CHECK(crc(0, {2, 2}, {1, 2}) == expected);  // read as a whole, then put in order
  CHECK_FALSE(crc(0, {3}, {1}));
  CHECK_FALSE(crc(1, {3}, {1}));
}

TEST_CASE("every storage and type") {
  const std::vector<std::tuple<const char*, DType, int>> typed = {
      {"DoubleStorage", DType::kF64, 8},       {"FloatStorage", DType::kF32, 4},
      {"HalfStorage", DType::kF16, 2},         {"LongStorage", DType::kI64, 8},
      {"IntStorage", DType::kI32, 4},          {"ShortStorage", DType::kI16, 2},
      {"CharStorage", DType::kI8, 1},          {"ByteStorage", DType::kU8, 1},
      {"BoolStorage", DType::kBool, 1},        {"BFloat16Storage", DType::kBF16, 2},
      {"ComplexFloatStorage", DType::kC64, 8}, {"UntypedStorage", DType::kU8, 1}};
  for (const auto& [name, dtype, size] : typed)
    CHECK(only(tensor(storage(name, "0", 16 / size), 0, {16 / size}, {1}), {kSixteen}).dtype == dtype);
  const std::vector<std::tuple<const char*, DType, int>> untyped = {
      {"float8_e4m3fn", DType::kF8E4M3, 1},
      {"float8_e5m2", DType::kF8E5M2, 1},
      {"float8_e4m3fnuz", DType::kF8E4M3Fnuz, 1},
      {"float8_e5m2fnuz", DType::kF8E5M2Fnuz, 1},
      {"float8_e8m0fnu", DType::kF8E8M0, 1},
      {"uint16", DType::kU16, 2},
      {"uint32", DType::kU32, 4},
      {"uint64", DType::kU64, 8}};
  for (const auto& [name, dtype, size] : untyped)
    CHECK(only(tensor_v3(storage("UntypedStorage", "0", 16), name, {16 / size}, {1}), {kSixteen}).dtype ==
          dtype);
  const StoredTensor pairs =
      only(tensor_v3(storage("UntypedStorage", "0", 16), "float4_e2m1fn_x2", {2, 8}, {8, 1}), {kSixteen});
  CHECK(pairs.dtype == DType::kF4);
  CHECK(pairs.shape == std::vector<std::uint64_t>{2, 16});
}

TEST_CASE("views: strides only where the elements do not lie in order") {
  const auto strides = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> steps,
                          std::int64_t first = 0) {
    return only(tensor(storage("ByteStorage", "0", 16), first, shape, steps), {kSixteen}).place.strides;
  };
  using Strides = std::vector<std::uint64_t>;
  CHECK(strides({4, 4}, {4, 1}).empty());
  CHECK(strides({2, 1, 4}, {4, 99, 1}).empty());
  CHECK(strides({}, {}, 15).empty());
  CHECK(strides({0, 5}, {900, 900}, 1000).empty());
  CHECK(strides({1, 1}, {1 << 30, 0}, 15).empty());
  CHECK(strides({4, 4}, {1, 4}) == Strides{1, 4});
  CHECK(strides({2, 2}, {8, 2}, 5) == Strides{8, 2});
  CHECK(strides({16, 3}, {1, 0}) == Strides{1, 0});
  CHECK(strides({2, 8}, {0, 1}, 8) == Strides{0, 1});
}

TEST_CASE("views that leave their storage") {
  const auto message = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> steps,
                          std::int64_t first = 0) {
    return why(
        archive(dict(text("a.b"), tensor(storage("ByteStorage", "0", 16), first, shape, steps)), {kSixteen}));
  };
  CHECK(says(message({17}, {1}), {"tensor 'a.b'", "[17]", "[1]", "storage '0'", "16 elements"}));
  CHECK(says(message({16}, {1}, 1), {"from element 1"}));
  CHECK(says(message({2}, {16}), {"leaves its storage"}));
  CHECK(says(message({}, {}, 16), {"leaves its storage"}));
  CHECK(says(message({3}, {INT64_MAX}), {"leaves its storage"}));
  CHECK(says(message({INT64_MAX, INT64_MAX}, {0, 0}), {"tensor 'a.b'"}));
  CHECK(says(message({2}, {INT64_MAX}, INT64_MAX), {"leaves its storage"}));
  CHECK(says(message({-1}, {1}), {"shape holds -1"}));
  CHECK(says(message({1}, {-1}), {"stride holds -1"}));
  CHECK(says(message({1}, {1}, -1), {"offset"}));
  CHECK(says(message({1, 1}, {1}), {"2 sizes and 1 strides"}));
  CHECK(says(message(std::vector<std::int64_t>(65, 1), std::vector<std::int64_t>(65, 1)), {"65 axes"}));
}

TEST_CASE("storages that are not there or disagree") {
  const auto message = [](const std::string& value, const std::vector<std::string>& storages) {
    return why(archive(dict(text("w"), value), storages));
  };
  CHECK(says(message(floats(4), {}), {"tensor 'w'", "storage '0' is not there", "'data/0'"}));
  CHECK(says(message(floats(4), {"short"}),
             {"tensor 'w'", "storage '0' holds 5 bytes", "4 elements", "take 16"}));
  CHECK(
      says(message(floats(3), {kSixteen}), {"storage '0' holds 16 bytes", "3 elements of float32 take 12"}));
  CHECK(says(message(floats(INT64_MAX), {kSixteen}), {"no file can"}));
  CHECK(says(message(floats(-1), {kSixteen}), {"element count"}));
  // A storage of bytes that ends within an element.
  CHECK(message(floats(4), {kSixteen + "abc"}) == "no failure");
  CHECK(says(message(floats(4), {kSixteen + "abcd"}), {"holds 20 bytes"}));
  const std::string twice = dict(text("w"), tensor(storage("FloatStorage", "../0", 4), 0, {4}, {1}));
  CHECK(says(why(archive(twice, {kSixteen})), {"'../0' is not there"}));
}

TEST_CASE("parameters, typed tensors and old functions are their tensors") {
  const std::string inner = floats(4);
  const std::string old = call(global("torch._utils", "_rebuild_tensor"),
                               tuple(storage("FloatStorage", "0", 4), number(0), numbers({4}), numbers({1})));
  const std::string parameter =
      global("torch._utils", "_rebuild_parameter") + tuple(inner, "\x88", hooks()) + "R";
  const std::string stateful = call(global("torch._utils", "_rebuild_parameter_with_state"),
                                    tuple(inner, "\x88", hooks(), dict(text("a"), "N")));
  const std::string typed = call(
      global("torch._tensor", "_rebuild_from_type_v2"),
      tuple(global("torch._utils", "_rebuild_tensor_v2"), global("torch", "Tensor"),
            tuple(storage("FloatStorage", "0", 4), number(0), numbers({4}), numbers({1}), "\x89", hooks()),
            "}"));
  const std::string device = call(global("torch._utils", "_rebuild_device_tensor_from_cpu_tensor"),
                                  tuple(inner, global("torch", "float32"), text("xla:0"), "\x89"));
  for (const std::string& value : {inner, old, parameter, stateful, typed, device})
    CHECK(only(value, {kSixteen}).shape == std::vector<std::uint64_t>{4});

  std::string deep = inner;
  for (int i = 0; i < 20; ++i)
    deep = global("torch._utils", "_rebuild_parameter") + tuple(deep, "\x88", hooks()) + "R";
  CHECK(says(why(archive(dict(text("w"), deep), {kSixteen})), {"tensor 'w'", "wrapped more than 8 times"}));
  CHECK(says(why(archive(dict(text("w"), call(global("torch._utils", "_rebuild_parameter"), "N\x85")), {})),
             {"tensor 'w'", "given no tensor"}));
  CHECK(says(why(archive(dict(text("w"), call(global("torch._utils", "_rebuild_tensor_v2"), "N\x85")), {})),
             {"tensor 'w'", "from 1 values, expected 6"}));
}

TEST_CASE(
    "tensors of other types are listed as skipped, those without plain elements and views to be computed are "
    "refused") {
  const std::string quantized = call(global("torch._utils", "_rebuild_qtensor"), ")");
  const std::string sparse = call(global("torch._utils", "_rebuild_sparse_tensor"), ")");
  const std::string meta = call(global("torch._utils", "_rebuild_meta_tensor_no_storage"), ")");
  const std::string complex = tensor(storage("ComplexDoubleStorage", "0", 1), 0, {1}, {1});
  CHECK(names(archive(dict(text("t"), floats(4), text("c"), complex), {kSixteen})) ==
        "t; c: a tensor of complex128");
  CHECK(says(why(archive(dict(text("t"), floats(4), text("s"), sparse), {kSixteen})),
             {"tensor 's'", "a sparse tensor", "to_dense()"}));
  CHECK(says(why(archive(dict(text("t"), floats(4), text("m"), meta), {kSixteen})),
             {"tensor 'm'", "a meta tensor, which has no data"}));
  CHECK(says(why(archive(dict(text("q"), quantized), {})), {"tensor 'q'", "made from 0 values"}));

  const auto with_metadata = [](const std::string& metadata) {
    return why(archive(dict(text("w"), call(global("torch._utils", "_rebuild_tensor_v2"),
                                            tuple(storage("FloatStorage", "0", 4), number(0), numbers({4}),
                                                  numbers({1}), "\x89", hooks(), metadata))),
                       {kSixteen}));
  };
  CHECK(says(with_metadata(dict(text("conj"), "\x88")), {"tensor 'w'", "conjugate", "resolve_conj"}));
  CHECK(says(with_metadata(dict(text("neg"), "\x88")), {"negative", "resolve_neg"}));
  CHECK(says(with_metadata(dict(text("other"), "\x88")), {"'other'"}));
  CHECK(with_metadata(dict(text("conj"), "\x89", text("neg"), "\x89")) == "no failure");
  CHECK(with_metadata("N") == "no failure");
}

TEST_CASE("dictionaries and lists are flattened with dots, in the file's order") {
  const std::string t = floats(4);
  const std::vector<std::string> data = {kSixteen};
  CHECK(names(archive(dict(text("b"), dict(text("y"), t, text("x"), t), text("a"), list(t, tuple(t, t))),
                      data)) == "b.y b.x a.0 a.1.0 a.1.1");
  CHECK(names(archive(list(t, t), data)) == "0 1");
  CHECK(names(archive(t, data)) == "");
  CHECK(list_file(archive(t, data)).take().tensors.size() == 1);
  CHECK(names(archive(dict(number(3), t, number(-1), t), data)) == "3 -1");
  CHECK(names(archive(dict(text("w"), t, text("n"), "N", text("i"), number(3), text("f"), "G12345678",
                           text("s"), text("x"), text("l"), list(number(1), "N"), text("d"), "}", text("e"),
                           "]", text("z"), "\x88", text("dt"), global("torch", "float16"), text("dev"),
                           call(global("torch", "device"), ")"), text("set"), "\x8f", text("st"),
                           storage("FloatStorage", "0", 4)),
                      data)) ==
        "w; n: None; i: an integer; f: a number; s: a string; l: a list without tensors (2 entries); "
        "d: an empty dictionary; e: an empty list; z: a boolean; dt: torch.float16; dev: a device; "
        "set: an empty set; st: a storage");
  CHECK(says(names(archive(dict(text("a.b"), t, text("a"), dict(text("b"), t)), data)),
             {"two tensors", "'a.b'"}));
  CHECK(
      says(names(archive(dict("N", t), data)), {"the saved object has a key that is None", "holds tensors"}));
  CHECK(names(archive(dict("N", "N", text("w"), t, ")", "N"), data)) == "w; (None): None; (a tuple): None");
  CHECK(says(names(archive(dict(text("\xff"), t), data)), {"\\xff", "no UTF-8"}));
  CHECK(says(names(archive(dict(text(std::string(5000, 'k')), t), data)), {"more than 4096 bytes"}));
  CHECK(names(archive(dict(text("s"), "\x8f(" + t + "\x90", text("w"), t), data)) ==
        "w; s: a set with 1 tensor");
}

TEST_CASE("wrappers: the model is found, the rest is listed") {
  const std::string t = floats(4);
  const std::string model = dict(text("w"), t, text("v"), t);
  const std::string optimizer =
      dict(text("state"), dict(number(0), dict(text("exp_avg"), t)), text("param_groups"), "]");
  const std::vector<std::string> data = {kSixteen};
  const auto wrapped = [&](const std::string& key) {
    return archive(dict(text(key), model, text("optimizer"), optimizer, text("epoch"), number(3)), data);
  };
  for (const char* key : {"state_dict", "model_state_dict", "model", "module", "net", "weights", "params"})
    CHECK(names(wrapped(key)) == "w v; optimizer: optimizer state (1 tensor); epoch: an integer");
  CHECK(names(wrapped("generator")) ==
        "generator.w generator.v; optimizer: optimizer state (1 tensor); epoch: an integer");
  CHECK(names(wrapped("model"), "model") == "w v");
  CHECK(names(wrapped("model"), "optimizer") == "state.0.exp_avg; param_groups: an empty list");
  CHECK(names(wrapped("model"), "model.w") == "w");
  CHECK(names(wrapped("a.b"), "a.b.w") == "w");

  // Another dictionary of tensors beside the model; a tensor beside it; two that could be the model.
  CHECK(names(archive(dict(text("model"), model, text("ema"), model, text("x"), number(1)), data)) ==
        "w v; ema: a dictionary with 2 tensors; x: an integer");
  CHECK(names(archive(dict(text("model"), model, text("scale"), t, text("x"), number(1)), data)) ==
        "w v; scale: a tensor; x: an integer");
  CHECK(names(archive(dict(text("model"), model, text("net"), model), data)) ==
        "model.w model.v net.w net.v");
  CHECK(names(archive(dict(text("model"), model, text("scale"), t), data)) == "model.w model.v scale");
  // Optimizers by name only at the top, by their entries anywhere.
  CHECK(names(archive(dict(text("a"), dict(text("optim"), dict(text("w"), t))), data)) == "a.optim.w");
  CHECK(names(archive(dict(text("optim"), dict(text("w"), t), text("v"), t), data)) ==
        "v; optim: optimizer state (1 tensor)");
  CHECK(names(archive(dict(text("v"), t, text("train"), dict(text("adam"), optimizer)), data)) ==
        "v; train.adam: optimizer state (1 tensor)");
  CHECK(says(why(archive(optimizer, data)), {"the saved object is optimizer state (1 tensor)"}));
}

TEST_CASE("keys that are not there") {
  const std::string t = floats(4);
  const std::string file =
      archive(dict(text("model"), dict(text("w"), t, text("layers"), list(dict(text("k"), t))), text("epoch"),
                   number(3)),
              {kSixteen});
  CHECK(says(why(file, "modle"), {"no entry 'modle'", "did you mean 'model'?", "'model', 'epoch'"}));
  CHECK(says(why(file, "model.v"), {"'model' has no entry 'v'", "'w', 'layers'"}));
  CHECK(says(why(file, "epoch"), {"'epoch' holds no tensors: it is an integer"}));
  CHECK(says(why(file, "epoch.x"), {"'epoch' is an integer"}));
  CHECK(says(why(file, "model.layers.1"), {"'model.layers' has no entry '1'", "'0'"}));
  CHECK(names(file, "model.layers.0") == "k");
  CHECK(says(why(file, "."), {"no entry '.'"}));
  CHECK(says(why(archive(dict(text("a"), number(1)), {})), {"holds no tensors", "a dictionary", "'a'"}));
  CHECK(says(why(archive("}", {})), {"holds no tensors", "an empty dictionary"}));
}

TEST_CASE("which archives are refused, and as what") {
  const std::string t = floats(4);
  const auto of = [&](const Members& more) { return why(archive(t, {kSixteen}, more)); };
  CHECK(says(of({{"m/code/__torch__.py", "x"}}), {"TorchScript", "torch.jit.load"}));
  CHECK(says(of({{"m/constants.pkl", "x"}}), {"TorchScript"}));
  CHECK(says(of({{"m/.data/extern_modules", "x"}}), {"torch.package"}));
  CHECK(says(of({{"n/data.pkl", "x"}}), {"two saved objects", "'m/' and 'n/'"}));
  CHECK(says(of({{"m/byteorder", "middle"}}), {"'middle'", "'little' or 'big'"}));
  CHECK(says(why(zip_of({{"a.npy", "x"}, {"b.npy", "x"}})), {"NumPy archive"}));
  CHECK(
      says(why(zip_of({{"m/archive_format", "pt2"}, {"m/models/model.json", "{}"}})), {"exported program"}));
  CHECK(says(why(zip_of({{"readme", "x"}})), {"no member NAME/data.pkl"}));
  CHECK(says(why(zip_of({})), {"no member NAME/data.pkl"}));
  CHECK(only(t, {kSixteen}, {{"m/byteorder", "big"}}).place.big_endian);
  CHECK_FALSE(only(t, {kSixteen}, {}).place.big_endian);

  std::string tar = "sys_info";
  tar.resize(257);
  tar += "ustar";
  CHECK(says(why(tar), {"before version 0.1.10", "torch.save"}));
  tar[0] = 'x';
  CHECK(says(why(tar), {"begins with 'xys_'"}));
  CHECK(says(why(pickle("}")), {"a Python pickle that torch.save did not write"}));
  CHECK(says(why("hello"), {"begins with 'hell'"}));
  CHECK(says(why(""), {"begins with ''"}));
}

TEST_CASE("a cut or flipped archive gives a failure or a listing inside the file") {
  const std::string t = tensor(storage("FloatStorage", "0", 4), 0, {2, 2}, {1, 2});
  const std::string file =
      archive(dict(text("model"),
                   dict(text("w"), t, text("b"),
                        tensor_v3(storage("UntypedStorage", "1", 4), "float8_e5m2", {4}, {1})),
                   text("epoch"), number(3)),
              {kSixteen, "wxyz"});
  const auto check = [](const std::string& bytes) {
    const Result<TensorListing> listing = list_file(bytes);
    if (!listing.ok()) {
      CHECK_FALSE(listing.failure().message.empty());
      return false;
    }
    for (const StoredTensor& tensor : listing.value().tensors) {
      CHECK(tensor.place.offset <= bytes.size());
      CHECK(tensor.place.stored <= bytes.size() - tensor.place.offset);
      std::uint64_t last = tensor.place.first;
      for (std::size_t i = 0; i < tensor.place.strides.size(); ++i)
        last += (tensor.shape[i] - 1) * tensor.place.strides[i];
      if (!tensor.place.strides.empty())
        CHECK((last + 1) * dtype_bits(tensor.dtype) / 8 <= tensor.place.decoded);
    }
    return true;
  };
  REQUIRE(check(file));
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(check(file.substr(0, size)));
  }
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string flipped = file;
    for (int bit = 0; bit < 8; ++bit) {
      flipped[i] = static_cast<char>(file[i] ^ (1 << bit));
      check(flipped);
    }
  }
}

TEST_CASE("flipped pickles under a good checksum give a failure or a listing") {
  const std::string body = pickle(
      dict(text("model"),
           dict(text("w"), tensor(storage("FloatStorage", "0", 4), 0, {2, 2}, {1, 2}), text("p"),
                global("torch._utils", "_rebuild_parameter") + tuple(floats(4), "\x88", hooks()) + "R"),
           text("epoch"), number(3)));
  int listed = 0, refused = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = body;
      flipped[i] = static_cast<char>(body[i] ^ (1 << bit));
      const Result<TensorListing> listing =
          list_file(zip_of({{"m/data.pkl", flipped}, {"m/data/0", kSixteen}}));
      (listing.ok() ? listed : refused) += 1;
    }
    (void)list_file(zip_of({{"m/data.pkl", body.substr(0, i)}, {"m/data/0", kSixteen}})).ok();
  }
  CHECK(listed > 0);
  CHECK(refused > listed);
}

/// Of processor time: other programs do not count.
double seconds(const auto& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// `levels` dictionaries, each of which holds the one below it twice.
std::string doubled(int levels, const std::string& innermost) {
  std::string value = innermost + "q" + std::string(1, '\x01');
  for (int i = 0; i < levels; ++i)
    value = "}(" + text("a") + value + text("b") + "h" + std::string(1, static_cast<char>(i + 1)) + "uq" +
            std::string(1, static_cast<char>(i + 2));
  return value;
}

TEST_CASE("values within themselves, and values shared over and over") {
  const std::string t = floats(4);
  const std::vector<std::string> data = {kSixteen};
  CHECK(says(why(archive("]q\x01(h\x01" + t + "e", data)), {"'0' contains itself"}));
  CHECK(says(why(archive(dict(text("w"), t, text("l"), "]q\x01(h\x01" + t + "e"), data)),
             {"'l.0' contains itself"}));
  CHECK(names(archive(dict(text("w"), t, text("l"), std::string("]q\x01h\x01") + "a"), data)) ==
        "w; l: a list without tensors (1 entry)");
  CHECK(names(archive(doubled(3, t), data)).size() == 8 * 5 + 7);
  CHECK(names(archive(dict(text("w"), t, text("laughs"), doubled(60, "N")), data)) ==
        "w; laughs: a dictionary without tensors (2 entries)");
  CHECK(seconds([&] { CHECK(says(why(archive(doubled(60, t), data)), {"repeats its values so often"})); }) <
        5);

  // A large dictionary, many times: neither its names nor the looks into it may multiply.
  std::string large = "}(";
  for (int i = 0; i < 20000; ++i) large += number(i) + (i == 0 ? t : "N");
  large += "uq\x05";
  std::string uses = "](" + large;
  for (int i = 0; i < 20000; ++i) uses += "h\x05";
  CHECK(seconds([&] { CHECK(says(why(archive(uses + "e", data)), {"repeats its values so often"})); }) < 5);
}

TEST_CASE("nesting without end") {
  const std::string t = floats(4);
  std::string open, close;
  for (int i = 0; i < 200; ++i) {
    open += "](";
    close += "e";
  }
  CHECK(says(why(archive(open + t + close, {kSixteen})), {"nested more than 100 deep"}));
  open.clear(), close.clear();
  for (int i = 0; i < 1000000; ++i) {
    open += "]";
    close += "a";
  }
  CHECK(seconds([&] {
          CHECK(says(why(archive(open + t + close, {kSixteen})), {"nested more than 100 deep"}));
          CHECK(says(why(archive(std::string(1000000, '(') + t, {kSixteen})), {"marks on its stack"}));
        }) < 5);
}

TEST_CASE("more values than a checkpoint has") {
  for (const char* opcode : {"]", "N", "("}) {
    std::string body = "\x80\x02";
    for (std::size_t i = 0; i < (std::size_t{1} << 25); ++i) body += opcode;
    CHECK(says(why(zip_of({{"m/data.pkl", body}})), {"more than 16777216 values"}));
  }
}

TEST_CASE("100,000 tensors are listed in well under a second") {
  std::string value = "}(";
  for (int i = 0; i < 100000; ++i) value += text("layers." + std::to_string(i) + ".weight") + floats(4);
  const std::string file = archive(value + "u", {kSixteen});
  double took = 0;
  std::size_t count = 0;
  took = seconds([&] { count = list_file(file).take().tensors.size(); });
  CHECK(count == 100000);
  CHECK(took < 20);  // A fraction of a second in a release build; room for sanitizers.
  MESSAGE("listed in " << took << " s");
}

}  // namespace
}  // namespace crumb
