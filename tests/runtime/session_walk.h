// A session on all its ways: on, cut short, put back as it was, copied, and stopped in the middle of a run.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include "runtime/meter.h"
#include "runtime/session.h"

namespace crumb::testing {

struct SessionWalk {
  std::int64_t places = 0;  ///< at most
  std::uint64_t work = 0;   ///< of a step, about
  std::function<runtime::Session()> open;
  /// Runs so many places more on so many threads, and checks what is made of them.
  std::function<void(runtime::Session& session, std::int64_t step, int threads)> run;

  void operator()(std::mt19937& random, runtime::Session& session, int rounds) const {
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    const auto go_on = [&] {
      const std::int64_t left = places - session.length();
      if (left > 0) run(session, 1 + below(std::min<std::int64_t>(left, 20)), 1 + static_cast<int>(below(3)));
    };
    for (int round = 0; round < rounds; ++round) {
      const std::int64_t kept = below(session.length() + 1);
      switch (below(5)) {
        case 0: session.truncate(kept); break;
        case 1: {
          auto tail = session.tail(kept);
          session.truncate(kept);
          go_on();
          session.put_back(std::move(tail));
          break;
        }
        case 2: {
          runtime::Session other = open();
          if (below(2) == 0) run(other, 3, 1);
          other.restore(session.save());
          REQUIRE(other.length() == session.length());
          session = std::move(other);
          break;
        }
        case 3: {
          const auto saved = session.save();
          const auto most = static_cast<std::uint64_t>(below(static_cast<std::int64_t>(work)));
          try {
            const runtime::MeterScope scope(
                std::make_shared<runtime::Meter>(runtime::Limits{.work = most + 1}));
            if (session.length() < places) run(session, 1, 1);
          } catch (const runtime::Stopped&) {
            REQUIRE(session.save() == saved);
          }
          break;
        }
        default: go_on();
      }
    }
  }
};

}  // namespace crumb::testing
