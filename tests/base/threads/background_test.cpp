// Work beside the caller's: in order, bounded, and its exceptions come back.
#include "base/threads/background.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using crumb::Background;
using namespace std::chrono_literals;

TEST_CASE("everything is done, in order, before drain returns") {
  std::vector<int> done;
  Background work(100);
  for (int round = 0; round < 3; ++round) {
    done.clear();
    for (int i = 0; i < 500; ++i)
      work.post(static_cast<uint64_t>(i % 150), [&done, i] { done.push_back(i); });
    work.drain();
    REQUIRE(done.size() == 500);
    for (int i = 0; i < 500; ++i) CHECK(done[static_cast<size_t>(i)] == i);
  }
  work.drain();
}

TEST_CASE("no more waits than was allowed, and what is done is let go") {
  std::atomic<uint64_t> held{0}, most{0};
  const auto hold = [&](uint64_t bytes) {
    const uint64_t now = held += bytes;
    uint64_t seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
    return std::shared_ptr<void>(nullptr, [&held, bytes](void*) { held -= bytes; });
  };
  {
    Background work(1000);
    for (int i = 0; i < 300; ++i) {
      // post() waits before the next one is made.
      work.post(400, [what = hold(400)] { std::this_thread::sleep_for(20us); });
    }
    work.drain();
    CHECK(held == 0);
    // 800 wait or are worked on, 400 is the one that post() holds back.
    CHECK(most <= 1200);
    // One that is larger than all that may wait goes alone.
    work.post(5000, [what = hold(5000)] {});
    work.post(5000, [what = hold(5000)] {});
    work.drain();
  }
  CHECK(held == 0);
}

TEST_CASE("an exception comes back once from whatever is called next, and drops what waits") {
  for (const bool drain : {false, true}) {
    std::atomic<int> done{0};
    Background work(10);
    work.post(0, [&] { ++done; });
    work.post(0, [] { throw std::runtime_error("full disk"); });
    const auto go_on = [&] {
      if (drain) work.drain();
      for (int i = 0; i < 100000; ++i) work.post(10, [&] { done += 100; });  // would wait for ever
    };
    CHECK_THROWS_WITH(go_on(), "full disk");
    CHECK_THROWS_WITH(work.drain(), "full disk");
    CHECK_THROWS_WITH(work.post(1, [] {}), "full disk");
    CHECK(done == 1);
  }
}

TEST_CASE("a caller that waits for room is woken by the exception") {
  std::atomic<bool> go{false};
  Background work(10);
  work.post(10, [&] {
    while (!go) std::this_thread::sleep_for(100us);
    throw std::runtime_error("late");
  });
  std::jthread later([&] {
    std::this_thread::sleep_for(5ms);
    go = true;
  });
  CHECK_THROWS_WITH(work.post(10, [] {}), "late");
}

TEST_CASE("destruction drops what waits, but not what is being done") {
  std::atomic<int> begun{0}, done{0};
  {
    Background work(1000);
    for (int i = 0; i < 50; ++i) {
      work.post(1, [&] {
        ++begun;
        std::this_thread::sleep_for(1ms);
        ++done;
      });
    }
  }
  CHECK(begun == done);
  CHECK(done < 50);
  { const Background idle(0); }
}
