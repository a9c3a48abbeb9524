// Mutations that know a format: they write the numbers at which sizes go wrong where the format has its numbers, and mend
// the lengths and checksums around them, so that what meets the number is the check of that number.
//
// A target with one defines libFuzzer's hook:
//
//   extern "C" std::size_t LLVMFuzzerCustomMutator(uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
//     return crumb::testing::mutate_with(hostile_npy, data, size, most, seed);
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace crumb::testing {

/// Numbers that a seed gives (SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 to n - 1; 0 where n is 0.
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class Items>
  auto& pick(Items& items) {
    return items[below(std::size(items))];
  }

 private:
  std::uint64_t state_;
};

/// A number at which something ends: of a file of `size` bytes, of 31, 32, 53 or 64 bits; or a neighbour of `old`, or
/// what makes a sum with it wrap.
std::uint64_t hostile_number(Random& random, std::uint64_t size, std::uint64_t old);

/// Changes factors so that their product is `wanted` modulo 2^64, of numbers that are far larger. At least two.
void wrap_product(Random& random, std::span<std::uint64_t> factors, std::uint64_t wanted);

/// What a mutation makes of a file; empty where it cannot tell the file's parts.
using Mutation = std::function<std::string(std::string_view file, Random& random)>;

/// Does what the hook must: the mutation, or once in four times, and where it makes nothing or too much, libFuzzer's own.
std::size_t mutate_with(const Mutation& mutation, std::uint8_t* data, std::size_t size, std::size_t most,
                        unsigned seed);

/// Replaces some numbers of digits in `text` by hostile ones. Gives whether it holds any.
bool replace_decimals(Random& random, std::string& text, std::uint64_t size);

}  // namespace crumb::testing
