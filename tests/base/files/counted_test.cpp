// Numbers in messages.
#include "base/files/counted.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

namespace crumb {
namespace {

TEST_CASE("number_text: the shortest text that reads back as the number") {
  CHECK(number_text(0.1F) == "0.1");
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(static_cast<double>(0.1F)) == "0.10000000149011612");
  CHECK(number_text(std::numeric_limits<float>::max()) == "3.4028235e+38");
  CHECK(number_text(std::numeric_limits<float>::denorm_min()) == "1e-45");
  CHECK(number_text(-0.0F) == "-0");
  CHECK(number_text(-1.5F) == "-1.5");
  CHECK(number_text(std::numeric_limits<float>::infinity()) == "inf");
  CHECK(number_text(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(number_text(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  std::mt19937_64 engine(1);
  int wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = engine();
    const auto narrow = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const auto wide = std::bit_cast<double>(bits);
    wrong += !std::isnan(narrow) && std::strtof(number_text(narrow).c_str(), nullptr) != narrow;
    wrong += !std::isnan(wide) && std::strtod(number_text(wide).c_str(), nullptr) != wide;
  }
  CHECK(wrong == 0);
}

TEST_CASE("count_text and follow_text: one of a thing, or several") {
  CHECK(count_text(0, "tensor") == "0 tensors");
  CHECK(count_text(1, "tensor") == "1 tensor");
  CHECK(count_text(2, "tensor") == "2 tensors");
  CHECK(count_text(1, "axis", "axes") == "1 axis");
  CHECK(count_text(3, "axis", "axes") == "3 axes");
  CHECK(follow_text(1, "byte") == "1 byte follows");
  CHECK(follow_text(2, "byte") == "2 bytes follow");
}

}  // namespace
}  // namespace crumb
