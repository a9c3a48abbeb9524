#include "cli/progress_text.h"

#include <doctest/doctest.h>

using crumb::cli::duration_text;
using crumb::cli::progress_text;
using crumb::cli::ProgressState;

TEST_CASE("progress: what, how much, how fast, how long yet") {
  const ProgressState state{
      .what = "quantizing", .done = 30, .total = 120, .items = "tensors", .share = 0.25};
  SUBCASE("before anything is known of time") { CHECK(progress_text(state) == "quantizing 30/120 tensors"); }
  SUBCASE("rate and time left from what was done") {
    ProgressState later = state;
    later.seconds = 10;
    CHECK(progress_text(later) == "quantizing 30/120 tensors, 3.0 tensors/s, 30 s left");
    later.seconds = 3600;
    CHECK(progress_text(later) == "quantizing 30/120 tensors, 0.01 tensors/s, 3 h 0 min left");
  }
  SUBCASE("those that the work itself knows") {
    ProgressState known = state;
    known.seconds = 10;
    known.details = "loss 2.5";
    known.rate = "812 tokens/s";
    known.seconds_left = 600;
    CHECK(progress_text(known) == "quantizing 30/120 tensors, loss 2.5, 812 tokens/s, 10 min left");
  }
}

TEST_CASE("progress: durations as one says them") {
  CHECK(duration_text(0) == "0 s");
  CHECK(duration_text(89) == "89 s");
  CHECK(duration_text(90) == "2 min");
  CHECK(duration_text(5399) == "90 min");
  CHECK(duration_text(5400) == "1 h 30 min");
  CHECK(duration_text(7199) == "1 h 59 min");
}
