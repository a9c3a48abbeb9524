#include "tests/fuzz/hostile.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include "base/split_mix.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t most);  // libFuzzer's

namespace crumb::testing {

std::uint64_t Random::next() {
  state_ += kSplitMixStep;
  return split_mix_of_state(state_);
}

std::uint64_t hostile_number(Random& random, std::uint64_t size, std::uint64_t old) {
  const auto power = [](int bits) { return std::uint64_t{1} << bits; };
  const std::uint64_t numbers[] = {
      0,         1,         size,         size - 1,      size + 1,      power(31),
      power(32), power(53), power(58),    power(62),     power(63),     ~std::uint64_t{0},
      old + 1,   old - 1,   old * 2,      0 - old,       size - old,    0 - size,
      power(61), power(60), 0 - power(6), 0 - power(12), power(63) - 1, power(32) - 1};
  switch (random.below(8)) {
    case 0: return random.next() >> random.below(64);
    case 1: return power(static_cast<int>(random.below(64))) + random.below(3) - 1;
    case 2: return random.pick(numbers) + 64 * random.below(4);
    default: return random.pick(numbers);
  }
}

void wrap_product(Random& random, std::span<std::uint64_t> factors, std::uint64_t wanted) {
  if (factors.size() < 2) return;
  // Odd numbers have an inverse modulo 2^64 (Newton's iteration doubles the bits that are right).
  std::uint64_t product = 1;
  const std::size_t last = random.below(factors.size());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    if (i == last) continue;
    factors[i] = (random.next() >> random.below(60)) | 1;
    product *= factors[i];
  }
  std::uint64_t inverse = product;
  for (int i = 0; i < 6; ++i) inverse *= 2 - product * inverse;
  factors[last] = wanted * inverse;
}

std::size_t mutate_with(const Mutation& mutation, std::uint8_t* data, std::size_t size, std::size_t most,
                        unsigned seed) {
  Random random(seed);
  if (!random.one_in(4)) {
    const std::string made = mutation({reinterpret_cast<const char*>(data), size}, random);
    if (!made.empty() && made.size() <= most) {
      std::memcpy(data, made.data(), made.size());
      return made.size();
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}

bool replace_decimals(Random& random, std::string& text, std::uint64_t size) {
  struct Run {
    std::size_t begin, length;
  };
  std::vector<Run> runs;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find_first_of("0123456789", at), text.size());
    at = std::min(text.find_first_not_of("0123456789", begin), text.size());
    if (begin < at) runs.push_back({begin, at - begin});
  }
  if (runs.empty()) return false;
  const std::uint64_t chosen = random.below(runs.size()),
                      more = random.one_in(3) ? random.below(runs.size()) : chosen;
  for (std::size_t i = runs.size(); i-- > 0;) {  // from behind: places before stay
    if (i != chosen && i != more) continue;
    std::uint64_t old = 0;
    std::from_chars(text.data() + runs[i].begin, text.data() + runs[i].begin + runs[i].length, old);
    text.replace(runs[i].begin, runs[i].length, std::to_string(hostile_number(random, size, old)));
  }
  return true;
}

}  // namespace crumb::testing
