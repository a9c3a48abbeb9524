#include "base/threads/parallel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using crumb::parallel_for;

TEST_CASE("every index comes once, in pieces of the grain") {
  for (const size_t count : {0, 1, 2, 7, 64, 1000}) {
    for (const size_t grain : {0, 1, 3, 64, 5000}) {
      for (const int threads : {0, 1, 2, 5}) {
        CAPTURE(count);
        CAPTURE(grain);
        CAPTURE(threads);
        std::vector<std::atomic<int>> seen(count);
        std::atomic<bool> longer{false};
        parallel_for(count, grain, threads, [&](size_t begin, size_t end) {
          if (end - begin > std::max<size_t>(grain, 1)) longer = true;
          for (size_t i = begin; i < end; ++i) ++seen[i];
        });
        CHECK_FALSE(longer);
        for (const auto& times : seen) CHECK(times == 1);
      }
    }
  }
}

TEST_CASE("no more threads work than were asked for, the caller among them") {
  for (const int threads : {1, 2, 3}) {
    std::atomic<int> inside{0}, most{0};
    parallel_for(200, 1, threads, [&](size_t, size_t) {
      const int now = ++inside;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::yield();
      --inside;
    });
    CHECK(most <= threads);
  }
}

TEST_CASE("the first exception comes out, once nobody works any more") {
  for (const int threads : {1, 4}) {
    std::atomic<int> inside{0};
    CHECK_THROWS_WITH_AS(parallel_for(1000, 1, threads,
                                      [&](size_t begin, size_t) {
                                        ++inside;
                                        if (begin == 5) {
                                          --inside;
                                          throw std::runtime_error("five");
                                        }
                                        --inside;
                                      }),
                         "five", std::runtime_error);
    CHECK(inside == 0);
  }
}

TEST_CASE("loops within loops and loops side by side end") {
  std::atomic<int> sum{0};
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        parallel_for(8, 1, 3, [&](size_t, size_t) {
          parallel_for(8, 1, 3, [&](size_t begin, size_t end) { sum += static_cast<int>(end - begin); });
        });
      }
    });
  }
  callers.clear();
  CHECK(sum == 4 * 50 * 64);
}

}  // namespace
