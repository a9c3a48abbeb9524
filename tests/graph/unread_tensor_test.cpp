// Tensors whose values lie elsewhere (graph/tensor.h): the same as others, and read when they have to be.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "graph/strided_index.h"
#include "graph/tensor.h"
#include "tests/support/block_rows.h"
#include "tests/support/samples.h"

namespace {

using crumb::Error;
using crumb::graph::ElementType;
using crumb::graph::Tensor;

TEST_CASE(
    "unread tensors: values are those of others, read for each who wants floats, and once for all who want "
    "bytes") {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::int64_t> shape;
    for (std::size_t axis = random() % 4; axis > 0; --axis)
      shape.push_back(static_cast<std::int64_t>(random() % 6));
    std::vector<float> values(static_cast<std::size_t>(crumb::graph::count_elements(shape).take()));
    std::ranges::generate(values, [&] { return static_cast<float>(random() % 1000) - 500.0F; });
    const Tensor plain = Tensor::floats(shape, values);
    const auto reads = std::make_shared<int>(0);
    const Tensor unread = Tensor::unread(shape, [values, reads] {
      ++*reads;
      return values;
    });
    CHECK(unread.byte_count() == plain.bytes().size());
    CHECK(unread.shape() == shape);
    CHECK(unread.type() == plain.type());
    const Tensor copy = unread, flat = unread.reshaped({plain.size()});
    CHECK(copy == unread);
    CHECK(*reads == 0);
    const int floats = static_cast<int>(random() % 3);
    for (int i = 0; i < floats; ++i) CHECK(flat.to_floats() == values);
    CHECK(*reads == floats);
    CHECK(unread.is_unread());
    CHECK(std::ranges::equal(copy.bytes(), plain.bytes()));
    CHECK(copy.bytes().data() == unread.bytes().data());
    CHECK(unread == plain);
    CHECK(flat.to_floats() == values);
    CHECK(*reads == floats + 1);
    CHECK(!unread.is_unread());
    CHECK(unread.byte_count() == plain.bytes().size());
  }
}

TEST_CASE("tensors in parts: any part is that of the whole, and the whole is read when it is kept") {
  std::mt19937 random(5);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr std::array kTypes{ElementType::kFloat, ElementType::kInt8, ElementType::kInt64};
  for (int round = 0; round < 200; ++round) {
    const ElementType type = kTypes[below(kTypes.size())];
    const std::size_t each = crumb::graph::info(type).bits / 8;
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(below(6)),
                                          static_cast<std::int64_t>(below(6))};
    std::vector<std::byte> bytes(static_cast<std::size_t>(shape[0] * shape[1]) * each);
    std::ranges::generate(bytes, [&] { return static_cast<std::byte>(below(100)); });
    const Tensor plain(type, shape, bytes);
    const Tensor parts = Tensor::in_parts(type, shape, [bytes](std::uint64_t first, std::span<std::byte> to) {
      std::ranges::copy(std::span(bytes).subspan(first, to.size()), to.begin());
    });
    const Tensor whole = Tensor::unread(type, shape, [bytes] { return bytes; });
    CHECK(parts.gives_parts());
    CHECK(plain.gives_parts());
    CHECK(!whole.gives_parts());
    CHECK(parts.is_unread());
    CHECK(parts.byte_count() == bytes.size());
    for (int run = 0; run < 4; ++run) {
      const std::size_t all = bytes.size() / each, first = below(all + 1), size = below(all + 1 - first);
      for (const Tensor* tensor : {&parts, &plain, &whole}) {
        std::vector<std::byte> found(size * each);
        tensor->read(first * each, found);
        CHECK(std::ranges::equal(found, std::span(bytes).subspan(first * each, found.size())));
      }
    }
    CHECK(parts.to_floats() == plain.to_floats());
    CHECK(parts == plain);
    CHECK(std::ranges::equal(parts.bytes(), bytes));
    CHECK(!parts.is_unread());
    CHECK(whole == plain);
    CHECK(std::ranges::equal(whole.bytes(), bytes));
    CHECK(whole.gives_parts());
  }
}

TEST_CASE("unread tensors: transposed again and again they are read as they lie, and moved once at most") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int64_t> shape;
    for (std::size_t axis = 1 + random() % 4; axis > 0; --axis)
      shape.push_back(static_cast<std::int64_t>(random() % 20));
    std::vector<float> values(static_cast<std::size_t>(crumb::graph::count_elements(shape).take()));
    std::ranges::generate(values, [&] { return static_cast<float>(random() % 1000) - 500.0F; });
    const auto reads = std::make_shared<int>(0);
    const Tensor stored = Tensor::unread(shape, [values, reads] {
      ++*reads;
      return values;
    });
    Tensor unread = stored, plain = Tensor::floats(shape, values);
    std::vector<std::int64_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    const std::vector<std::int64_t> sorted = order;
    for (std::size_t step = random() % 5; step > 0; --step) {
      std::vector<std::int64_t> perm = sorted;
      std::ranges::shuffle(perm, random);
      unread = transposed(unread, perm);
      plain = transposed(plain, perm);
      order = crumb::graph::permuted_shape(order, perm);
    }
    REQUIRE(*reads == 0);
    REQUIRE(unread.shape() == plain.shape());
    REQUIRE((unread.origin() == nullptr) == (order == sorted));
    REQUIRE(unread.to_floats() == plain.to_floats());
    REQUIRE(std::ranges::equal(unread.held().bytes(), plain.bytes()));
    REQUIRE(*reads == 2);
    const Tensor back = transposed(unread, crumb::graph::inverse(order));
    REQUIRE(back.shares_with(stored));
    const std::optional<Tensor> as_stored =
        crumb::graph::transposed_as_stored(unread, crumb::graph::inverse(order));
    REQUIRE(as_stored.has_value() == (order != sorted));
    REQUIRE((!as_stored || as_stored->shares_with(stored)));
    if (order != sorted)
      REQUIRE(!crumb::graph::transposed_as_stored(unread.reshaped({plain.size()}),
                                                  std::array<std::int64_t, 1>{0}));
    // What was kept stays the same values.
    (void)unread.bytes();
    REQUIRE(transposed(unread, crumb::graph::inverse(order)).to_floats() == values);
  }
}

TEST_CASE("unread tensors: as many values come as the shape has, or it is an error") {
  const Tensor wrong = Tensor::unread({2, 3}, [] { return std::vector<float>(5); });
  CHECK_THROWS_AS((void)wrong.to_floats(), Error);
  CHECK_THROWS_AS((void)wrong.bytes(), Error);
  CHECK_THROWS_AS((void)Tensor::unread({-1}, [] { return std::vector<float>(); }), Error);
}

TEST_CASE(
    "tensors of packed rows have their values, whole, in parts and transposed, and say what is behind them") {
  std::mt19937_64 engine(5);
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t rows = 1 + engine() % 30, cols = 1 + engine() % 30;
    const auto blocks = std::make_shared<const crumb::testing::BlockRows>(
        rows, cols, 1 + engine() % 5, 1 + engine() % 5, crumb::testing::normal_values(rows * cols, engine()));
    std::vector<float> expected = blocks->values();
    const bool transposed = engine() % 2 == 1;
    const Tensor tensor = Tensor::of_rows({blocks, transposed});
    if (transposed) {
      const std::vector<float> from = expected;
      for (std::size_t i = 0; i < from.size(); ++i) expected[i % cols * rows + i / cols] = from[i];
    }
    REQUIRE(tensor.packed_rows());
    CHECK(tensor.packed_rows()->source == blocks);
    CHECK(tensor.gives_parts() != transposed);
    CHECK(tensor.to_floats() == expected);
    const std::uint64_t first = engine() % expected.size();
    std::vector<float> part(1 + engine() % (expected.size() - first));
    tensor.read(first * sizeof(float), std::as_writable_bytes(std::span(part)));
    CHECK(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(first)));
    CHECK(tensor == Tensor::floats(tensor.shape(), expected));
    const Tensor flat = tensor.reshaped({tensor.size()});
    CHECK(flat.to_floats() == expected);
    CHECK(!flat.packed_rows());
    CHECK(Tensor(tensor).packed_rows());
  }
  CHECK(!Tensor::scalar(1.0F).packed_rows());
}

}  // namespace
