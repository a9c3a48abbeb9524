// Lines and Ctrl-C in drawn orders, against what is to come of them.
#include "cli/run/conversation_input.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/files/interrupt.h"

namespace {

using crumb::cli::ConversationInput;

void write_all(int to, const std::string& text) {
  REQUIRE(::write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

TEST_CASE("a Ctrl-C before, at and after the start of a wait ends it; lines come whole and in order") {
  std::mt19937 draw(20);
  const auto below = [&](int bound) { return static_cast<int>(draw() % static_cast<unsigned>(bound)); };
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  ::alarm(300);  // one that is lost ends the tests, and does not hang them
  {
    ConversationInput input(ends[0]);
    std::deque<std::string> lines;  // that were written and not read
    for (int round = 0; round < 4000; ++round) {
      CAPTURE(round);
      switch (below(4)) {
        case 0: {  // written in two pieces, now and then longer than what is read at once
          if (lines.size() > 4) break;  // what a pipe holds is bounded
          const std::string line(static_cast<std::size_t>(below(8) == 0 ? below(9000) : below(4)), 'x');
          const std::size_t cut = line.empty() ? 0 : draw() % line.size();
          write_all(ends[1], line.substr(0, cut));
          write_all(ends[1], line.substr(cut) + '\n');
          lines.push_back(line);
          break;
        }
        case 1:
          if (lines.empty()) break;
          REQUIRE(input.next() == std::optional(lines.front()));
          lines.pop_front();
          break;
        case 2:
          REQUIRE(::raise(SIGINT) == 0);
          REQUIRE(input.next() == std::nullopt);
          input.forget_interrupts();
          break;
        default: {  // about when the wait begins, to whichever thread the system takes
          if (!lines.empty()) break;
          const auto when = std::chrono::microseconds(below(100));
          std::thread sender([when] {
            std::this_thread::sleep_for(when);
            ::kill(::getpid(), SIGINT);
          });
          REQUIRE(input.next() == std::nullopt);
          sender.join();
          input.forget_interrupts();
        }
      }
      REQUIRE_FALSE(crumb::interrupt_requested());
    }
    while (!lines.empty()) {
      REQUIRE(input.next() == std::optional(lines.front()));
      lines.pop_front();
    }
    write_all(ends[1], "the last has no end");
    ::close(ends[1]);
    CHECK(input.next() == std::optional<std::string>("the last has no end"));
    CHECK(input.next() == std::nullopt);
  }
  ::close(ends[0]);
  ::alarm(0);
}

}  // namespace
