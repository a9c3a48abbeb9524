// Loops on LibTorch's threads: every turn once, whatever the number of threads; exceptions; loops within loops.
#include "libtorch/parallel.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

TEST_CASE("torch_parallel_for: every turn once, on as many threads as LibTorch has") {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
      CAPTURE(threads);
      CAPTURE(count);
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      std::atomic<int> calls{0};
      crumb::torch_parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
        ++calls;
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (const auto& times : seen) CHECK(times == 1);
      CHECK(calls <= threads);
      if (count >= threads) CHECK(calls == threads);
    }
  }
  at::set_num_threads(before);
}

TEST_CASE("torch_parallel_for: what a turn throws is thrown on; a loop in a loop runs where it is") {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  CHECK_THROWS_AS(crumb::torch_parallel_for(8,
                                            [](std::int64_t begin, std::int64_t end) {
                                              if (begin <= 7 && 7 < end) throw std::out_of_range("7");
                                            }),
                  std::out_of_range);
  std::atomic<int> turns{0}, strangers{0};
  crumb::torch_parallel_for(4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto own = std::this_thread::get_id();
      crumb::torch_parallel_for(5, [&](std::int64_t first, std::int64_t last) {
        turns += static_cast<int>(last - first);
        strangers += std::this_thread::get_id() != own;
      });
    }
  });
  CHECK(turns == 20);
  CHECK(strangers == 0);
  at::set_num_threads(before);
}
