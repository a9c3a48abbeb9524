#include "formats/torch_pickle/torch_stream.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "formats/torch_pickle/torch_pickle.h"
#include "tests/formats/torch_pickle/pickle_samples.h"
#include "tests/support/samples.h"

namespace crumb {
namespace {

using namespace testing;

const std::string kFourFloats = "0123456789abcdef";

std::string floats_of(std::string_view key, std::int64_t count, const std::string& view = "N") {
  return tensor(stream_storage("FloatStorage", key, count, view), 0, {1}, {1});
}

/// An object of one tensor, of the storage '7' of four floats.
std::string one() { return dict(text("w"), floats_of("7", 4)); }

TEST_CASE("tensors lie where counts lead to") {
  const std::string file =
      stream(dict(text("a"), tensor(stream_storage("FloatStorage", "20", 4), 1, {3}, {1}), text("b"),
                  tensor(stream_storage("HalfStorage", "3", 2), 0, {2}, {1}), text("none"),
                  tensor(stream_storage("LongStorage", "1", 0), 0, {0, 2}, {2, 1}), text("c"),
                  tensor(stream_storage("FloatStorage", "20", 4), 0, {2, 2}, {1, 2})),
             {{"1", 0, ""}, {"20", 4, kFourFloats}, {"3", 2, "wxyz"}});
  const std::vector<StoredTensor> tensors = list_file(file).take().tensors;
  REQUIRE(tensors.size() == 4);
  CHECK(file.substr(tensors[0].place.offset, tensors[0].place.stored) == kFourFloats);
  CHECK(tensors[0].place.first == 1);
  CHECK(tensors[0].place.coding == StorageCoding::kPlain);
  CHECK_FALSE(tensors[0].place.crc);
  CHECK(file.substr(tensors[1].place.offset, tensors[1].place.stored) == "wxyz");
  CHECK(tensors[1].dtype == DType::kF16);
  CHECK(tensors[2].shape == std::vector<std::uint64_t>{0, 2});
  CHECK(tensors[3].place.offset == tensors[0].place.offset);
  CHECK(tensors[3].place.strides == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("parts of storages") {
  const auto of = [](const std::string& first, const std::string& second) {
    return stream(dict(text("a"), first, text("b"), second), {{"7", 4, kFourFloats}});
  };
  const auto part = [](std::string_view key, std::int64_t first, std::int64_t count) {
    return tuple(text(key), number(first), number(count));
  };
  const std::string file = of(floats_of("7", 4), floats_of("7", 4, part("8", 1, 2)));
  const StoredTensor tensor = list_file(file).take().tensors.at(1);
  CHECK(file.substr(tensor.place.offset, tensor.place.stored) == kFourFloats.substr(4, 8));
  CHECK(tensor.place.decoded == 8);
  CHECK(why(of(floats_of("7", 4, part("8", 1, 2)), floats_of("7", 4, part("8", 1, 2)))) == "no failure");
  const auto message = [&](const std::string& view) {
    return why(of(floats_of("7", 4), floats_of("7", 4, view)));
  };
  CHECK(says(message(part("8", 3, 2)),
             {"storage '7' has 4 elements", "the view '8' of 2 elements from 3 on leaves"}));
  CHECK(says(message(part("8", INT64_MAX, INT64_MAX)), {"leaves"}));
  CHECK(says(message(part("8", -1, 2)), {"no natural number"}));
  CHECK(says(message("]"), {"no tuple of a key"}));
  CHECK(says(message(tuple(number(8), number(0), number(1))), {"no tuple of a key"}));
  CHECK(says(message(part("7", 0, 4)), {"'7' is both a storage and a view"}));
  CHECK(says(message(part("8", 4, 0)), {"tensor 'b'", "leaves its storage '7', which has 0 elements"}));
  CHECK(says(why(of(floats_of("7", 4, part("8", 0, 2)), floats_of("7", 4, part("8", 1, 2)))),
             {"two parts", "'8'"}));
}

TEST_CASE("what comes before the object") {
  const auto message = [](const std::string& start) { return why(start + pickle(one()) + pickle("]")); };
  const std::string start = stream_start();
  CHECK(looks_like_torch_stream(std::as_bytes(std::span(start))));
  CHECK_FALSE(looks_like_torch_stream(std::as_bytes(std::span(start)).first(14)));
  CHECK(says(message(stream_start(1000)), {"version", "1000", "expected 1001"}));
  CHECK(says(message(stream_start(1001, dict(text("little_endian"), "\x89"))),
             {"'little_endian' is False", "expected True"}));
  CHECK(says(message(stream_start(1001, dict(text("little_endian"), "N"))), {"'little_endian' is None"}));
  CHECK(says(message(stream_start(1001, "]")),
             {"description of the system is a list", "expected a dictionary"}));
  CHECK(says(message(stream_start(1001, global("torch", "float16"))),
             {"description of the system", "asks for 'torch.float16'"}));
  CHECK(says(why(start),
             {"the saved object, pickled from byte ", std::to_string(start.size()).c_str(), "cut short"}));
  CHECK(says(why(start + pickle(global("posix", "system"))), {"the saved object", "'os.system'"}));
}

TEST_CASE("the list of storages and their counts") {
  const std::string object = one();
  const std::string before = stream_start() + pickle(object);
  CHECK(why(stream(object, {{"7", 4, kFourFloats}})) == "no failure");
  CHECK(says(why(before), {"the list of storages", "cut short"}));
  CHECK(says(why(before + pickle("N")), {"is None, expected a list of strings"}));
  CHECK(says(why(before + pickle(list(number(7)))), {"holds an integer, expected a list of strings"}));
  CHECK(says(why(stream(object, {})), {"tensor 'w'", "storage '7' is not there", "does not name it"}));
  CHECK(says(why(stream(object, {{"8", 4, kFourFloats}})), {"names '8'", "saved object does not have"}));
  CHECK(says(why(stream(object, {{"7", 4, kFourFloats}, {"7", 4, kFourFloats}})), {"names '7' twice"}));
  for (const std::int64_t count : {std::int64_t{3}, std::int64_t{5}, std::int64_t{-1}, INT64_MAX, INT64_MIN})
    CHECK(says(why(stream(object, {{"7", count, kFourFloats}})),
               {"storage '7' at byte", ("count " + std::to_string(count)).c_str(), "4 elements of float32"}));
  CHECK(says(why(stream(object, {{"7", 4, "short"}})), {"takes 16 bytes", "of which 5 are there"}));
  CHECK(says(why(stream(object, {{"7", 4, kFourFloats + "!"}})), {"goes on for 1 byte", "expected its end"}));
  // A count that no file has: of the object, and of both.
  const std::string huge = dict(text("w"), floats_of("7", INT64_MAX));
  CHECK(says(why(stream(huge, {{"7", INT64_MAX, kFourFloats}})), {"no file can"}));
  const std::string large = dict(text("w"), floats_of("7", INT64_MAX / 4));
  CHECK(
      says(why(stream(large, {{"7", INT64_MAX / 4, kFourFloats}})), {"cut short", "of which 16 are there"}));
}

TEST_CASE("storages that the object describes in two ways") {
  const auto message = [](const std::string& second) {
    return why(stream(dict(text("a"), floats_of("7", 4), text("b"), second), {{"7", 4, kFourFloats}}));
  };
  CHECK(says(message(tensor(stream_storage("ByteStorage", "7", 16), 0, {1}, {1})),
             {"storage '7'", "4 elements of float32", "16 of uint8"}));
  CHECK(says(message(floats_of("7", 3)), {"4 elements", "of 3 of float32"}));
  CHECK(says(message(storage("FloatStorage", "7", 4)), {"six values"}));
  CHECK(says(message(floats_of(std::string(65, '1'), 4)), {"takes 65 bytes, at most 64"}));
  const std::string empty =
      stream(dict(text("a"), tensor(stream_storage("ByteStorage", "7", 0), 0, {0}, {1}), text("b"),
                  tensor(stream_storage("FloatStorage", "7", 0), 0, {0}, {1})),
             {{"7", 0, ""}});
  CHECK(why(empty) == "no failure");
}

TEST_CASE("a cut or flipped stream gives a failure or a listing inside the file") {
  const std::string view = tuple(text("9"), number(1), number(2));
  const std::string file = stream(
      dict(text("model"),
           dict(text("w"), tensor(stream_storage("FloatStorage", "7", 4), 0, {2, 2}, {1, 2}), text("b"),
                floats_of("7", 4, view)),
           text("h"), tensor(stream_storage("HalfStorage", "8", 2), 0, {2}, {1}), text("epoch"), number(3)),
      {{"7", 4, kFourFloats}, {"8", 2, "wxyz"}});
  const auto is_listed = [](const std::string& bytes) {
    const Result<TensorListing> listing = list_file(bytes);
    if (!listing.ok()) return false;
    for (const StoredTensor& tensor : listing.value().tensors) {
      const TensorPlace& place = tensor.place;
      CHECK(place.offset <= bytes.size());
      CHECK(place.stored <= bytes.size() - place.offset);
      std::uint64_t last = place.first;
      for (std::size_t i = 0; i < place.strides.size(); ++i) last += (tensor.shape[i] - 1) * place.strides[i];
      if (!place.strides.empty()) CHECK((last + 1) * dtype_bits(tensor.dtype) / 8 <= place.decoded);
    }
    return true;
  };
  REQUIRE(is_listed(file));
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(is_listed(file.substr(0, size)));
  }
  int listed = 0, refused = 0;
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string flipped = file;
    for (int bit = 0; bit < 8; ++bit) {
      flipped[i] = static_cast<char>(file[i] ^ (1 << bit));
      (is_listed(flipped) ? listed : refused) += 1;
    }
  }
  CHECK(listed > 8 * 20);  // at least in the elements
  CHECK(refused > listed);
}

}  // namespace
}  // namespace crumb
