// Scales and zero points of any shape: what QuantizeLinear makes of the form that was found is what broadcasting meant, and
// there is none only where operators have none.
#include "export/qcdq/linear_parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace crumb::exporting {
namespace {

using graph::ConstantValue;
using Ints = std::vector<std::int64_t>;

std::int64_t product(const Ints& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies());
}

/// NumPy's rule, of a part that spreads over a whole of at least as many axes.
bool spreads(const Ints& part, const Ints& whole) {
  if (part.size() > whole.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const std::int64_t size = part[part.size() - 1 - i];
    if (size != 1 && size != whole[whole.size() - 1 - i]) return false;
  }
  return true;
}

std::int64_t index_in(const Ints& part, const Ints& place) {
  std::int64_t index = 0;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const std::int64_t at = part[i] == 1 ? 0 : place[place.size() - part.size() + i];
    index = index * part[i] + at;
  }
  return index;
}

/// Where QuantizeLinear finds the number of an element.
std::int64_t index_of(const LinearParameters& made, const Ints& place) {
  if (!made.has_axis()) return 0;
  const auto axis = static_cast<std::size_t>(made.axis);
  if (made.block == 0) return place[axis];
  std::int64_t index = 0;
  for (std::size_t i = 0; i < place.size(); ++i)
    index = index * made.shape[i] + (i == axis ? place[i] / made.block : place[i]);
  return index;
}

TEST_CASE("linear parameters: any shapes that spread, and no others") {
  std::mt19937 engine(3);
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(engine() % n); };
  int found = 0, blocked = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Ints whole(static_cast<std::size_t>(below(5)));
    for (std::int64_t& size : whole) size = 1 + below(4);
    const auto part = [&] {
      Ints shape(whole.end() - below(static_cast<unsigned>(whole.size()) + 1), whole.end());
      for (std::int64_t& size : shape)
        if (below(2) == 0) size = 1;
      if (below(8) == 0) shape.insert(shape.begin(), 1 + below(2));
      if (below(8) == 0 && !shape.empty())
        shape[static_cast<std::size_t>(below(static_cast<unsigned>(shape.size())))] = 1 + below(4);
      return shape;
    };
    ConstantValue scale{.shape = part(), .values = {}}, zero{.shape = part(), .values = {}};
    for (std::int64_t i = product(scale.shape); i > 0; --i)
      scale.values.push_back(static_cast<double>(i) / 4);
    const bool is_shifted = below(2) == 0;
    for (std::int64_t i = product(zero.shape); i > 0; --i)
      zero.values.push_back(is_shifted ? static_cast<double>(i) : 3);
    const Ints of_scale = product(scale.shape) == 1 ? Ints{} : scale.shape;
    const Ints of_zero = !is_shifted || product(zero.shape) == 1 ? Ints{} : zero.shape;

    bool fits = spreads(of_scale, whole) && spreads(of_zero, whole);
    std::size_t axes = 0;
    Ints shared;  // sizes of the axes along which nothing changes
    for (std::size_t back = 1; back <= whole.size(); ++back) {
      const auto size = [&](const Ints& shape) {
        return back > shape.size() ? 1 : shape[shape.size() - back];
      };
      const bool is_own = size(of_scale) != 1 || size(of_zero) != 1;
      axes += is_own;
      if (!is_own && whole[whole.size() - back] != 1) shared.push_back(whole[whole.size() - back]);
    }
    const std::int64_t opset = below(2) == 0 ? 13 : 21;
    CAPTURE(whole);
    CAPTURE(scale.shape);
    CAPTURE(zero.shape);
    CAPTURE(opset);
    const auto made = linear_parameters(scale, zero, graph::Shape(whole.begin(), whole.end()), opset);
    REQUIRE(made.ok() == (fits && (axes <= 1 || opset >= 21)));
    if (!made.ok()) {
      ++refused;
      continue;
    }
    const LinearParameters& form = made.value();
    REQUIRE(static_cast<std::int64_t>(form.scale.size()) == product(form.shape));
    REQUIRE(form.zero.size() == form.scale.size());
    CHECK((axes > 1) == (form.block > 0));
    if (form.block > 0 && shared.empty()) CHECK(product(form.shape) == product(whole));
    if (form.block > 0 && !shared.empty()) {  // no more scales than one block along one of them leaves
      CHECK(std::ranges::any_of(
          shared, [&](std::int64_t size) { return product(form.shape) * size == product(whole); }));
    }
    ++found;
    blocked += form.block > 0;
    Ints place(whole.size(), 0);
    for (std::int64_t i = 0; i < product(whole); ++i) {
      const auto at = static_cast<std::size_t>(index_of(form, place));
      REQUIRE(at < form.scale.size());
      CHECK(static_cast<double>(form.scale[at]) ==
            scale.values[static_cast<std::size_t>(index_in(of_scale, place))]);
      CHECK(static_cast<double>(form.zero[at]) ==
            zero.values[static_cast<std::size_t>(index_in(of_zero, place))]);
      for (std::size_t axis = whole.size(); axis-- > 0 && ++place[axis] == whole[axis];) place[axis] = 0;
    }
  }
  CHECK(found > 8000);
  CHECK(blocked > 500);
  CHECK(refused > 2000);
}

TEST_CASE("linear parameters: scales that are none, and shapes that are not known") {
  const ConstantValue one{.shape = {}, .values = {1}}, two{.shape = {2}, .values = {1, 2}};
  for (const double bad : {0.0, HUGE_VAL, std::nan("")})
    CHECK_FALSE(linear_parameters({.shape = {2}, .values = {1, bad}}, one, graph::Shape{2}, 21).ok());
  CHECK_FALSE(linear_parameters({.shape = {0}, .values = {}}, one, graph::Shape{2}, 21).ok());
  CHECK_FALSE(linear_parameters(one, {.shape = {0}, .values = {}}, graph::Shape{2}, 21).ok());
  CHECK(linear_parameters(one, one, {}, 13).ok());
  CHECK_FALSE(linear_parameters(two, one, {}, 21).ok());
  const graph::Shape open{graph::Dim(), 2};
  CHECK(linear_parameters(two, one, open, 13).value().shape == Ints{2});
  const ConstantValue four{.shape = {2, 2}, .values = {1, 2, 3, 4}};
  CHECK(linear_parameters(four, one, graph::Shape{2, 2}, 21).ok());
  CHECK_FALSE(linear_parameters(four, one, open, 21).ok());
}

}  // namespace
}  // namespace crumb::exporting
