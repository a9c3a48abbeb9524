// How a rate goes: it grows evenly, stands at its highest where that ends, and falls or stays.
#include "tasks/language/steps/rate_schedule.h"

#include <doctest/doctest.h>

#include <random>

namespace {

using crumb::tasks::RateSchedule;
using crumb::tasks::share_of_rate;

TEST_CASE("rate schedules: of any number of steps") {
  std::mt19937 draw(11);
  for (int round = 0; round < 2000; ++round) {
    const auto warm_up = static_cast<std::int64_t>(draw() % 20),
               falling = static_cast<std::int64_t>(1 + draw() % 60);
    const std::int64_t steps = warm_up + falling;
    const auto share = [&](RateSchedule schedule, std::int64_t step) {
      return share_of_rate(schedule, step, steps, warm_up);
    };
    CAPTURE(warm_up);
    CAPTURE(falling);
    for (const RateSchedule schedule :
         {RateSchedule::kCosine, RateSchedule::kLinear, RateSchedule::kConstant}) {
      for (std::int64_t step = 0; step < warm_up; ++step)
        CHECK(share(schedule, step) * static_cast<double>(warm_up) ==
              doctest::Approx(static_cast<double>(step + 1)));
      CHECK(share(schedule, warm_up) == 1);
      for (std::int64_t step = warm_up; step + 1 < steps; ++step) {
        CHECK(share(schedule, step + 1) <= share(schedule, step));
        CHECK(share(schedule, step + 1) > 0);
      }
    }
    for (std::int64_t step = warm_up; step < steps; ++step) {
      const std::int64_t mirrored =
          steps + warm_up - step;  // as far from the end as step is from where the rate stands highest
      CHECK(share(RateSchedule::kConstant, step) == 1);
      CHECK(share(RateSchedule::kLinear, step) * static_cast<double>(falling) ==
            doctest::Approx(static_cast<double>(steps - step)));
      CHECK(share(RateSchedule::kCosine, step) + share(RateSchedule::kCosine, mirrored) ==
            doctest::Approx(1));
      if (2 * (step - warm_up) < falling)  // a cosine falls later than a line, and faster then
        CHECK(share(RateSchedule::kCosine, step) >= share(RateSchedule::kLinear, step));
    }
  }
}

TEST_CASE("rate schedules: nothing but growing, where all steps are of that") {
  for (std::int64_t step = 0; step < 5; ++step)
    CHECK(share_of_rate(RateSchedule::kCosine, step, 5, 10) ==
          doctest::Approx(0.1 * static_cast<double>(step + 1)));
}

}  // namespace
