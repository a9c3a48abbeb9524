// Adapters that are drawn, and files of them that can be wrong.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/adapters/adapter.h"
#include "formats/dtype.h"
#include "formats/half.h"

namespace crumb::testing {

/// Normally distributed, and rounded to a type of 32 or 16 bits.
inline std::vector<float> drawn_matrix(std::mt19937_64& random, std::size_t count, DType dtype) {
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) {
    value = draw(random);
    if (dtype == DType::kF16) value = f16_to_float(float_to_f16(value));
    if (dtype == DType::kBF16) value = bf16_to_float(float_to_bf16(value));
  }
  return values;
}

inline DType drawn_dtype(std::mt19937_64& random) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
  return kTypes[random() % 3];
}

/// A scale as trainers choose it, or any.
inline float drawn_scale(std::mt19937_64& random, std::size_t rank) {
  const auto r = static_cast<double>(rank);
  constexpr double kAlphas[] = {0.5, 1, 7.3, 8, 16, 32};
  switch (random() % 8) {
    case 0: return 0;
    case 1: return std::uniform_real_distribution<float>(-3, -0.05F)(random);
    case 2: return static_cast<float>(kAlphas[random() % 6] / std::sqrt(r));
    case 3: return static_cast<float>(kAlphas[random() % 6] / r);
    default: return static_cast<float>(16 / r);
  }
}

inline LowRankUpdate drawn_update(std::mt19937_64& random, std::string module, DType dtype,
                                  std::size_t out_step = 1) {
  constexpr std::size_t kSizes[] = {1, 2, 3, 5, 8, 17};
  LowRankUpdate update;
  update.module = std::move(module);
  update.rank = kSizes[random() % 6];
  update.in = kSizes[random() % 6];
  update.out = kSizes[random() % 6] * out_step;
  update.down = drawn_matrix(random, update.rank * update.in, dtype);
  update.up = drawn_matrix(random, update.out * update.rank, dtype);
  update.scale = drawn_scale(random, update.rank);
  return update;
}

inline bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(
      a, b, {}, [](float x) { return std::bit_cast<std::uint32_t>(x); },
      [](float x) { return std::bit_cast<std::uint32_t>(x); });
}

/// All but the scale and the second matrix.
inline void check_same_down(const LowRankUpdate& a, const LowRankUpdate& b) {
  CHECK(a.module == b.module);
  CHECK(a.rank == b.rank);
  CHECK(a.in == b.in);
  CHECK(a.out == b.out);
  CHECK(same_floats(a.down, b.down));
}

inline void check_same(const Adapter& a, const Adapter& b) {
  CHECK(a.base == b.base);
  REQUIRE(a.updates.size() == b.updates.size());
  for (std::size_t i = 0; i < a.updates.size(); ++i) {
    check_same_down(a.updates[i], b.updates[i]);
    CHECK(same_floats(a.updates[i].up, b.updates[i].up));
    CHECK(a.updates[i].scale == b.updates[i].scale);
  }
}

/// What it throws, or "".
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

inline void put_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// A file with some bytes changed, cut or put in.
inline std::string mutated(std::mt19937_64& random, std::string bytes) {
  for (std::size_t n = 1 + random() % 3; n > 0 && !bytes.empty(); --n) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes.resize(at); break;
      case 2: bytes.insert(at, 1, static_cast<char>(random())); break;
      default: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
    }
  }
  return bytes;
}

}  // namespace crumb::testing
