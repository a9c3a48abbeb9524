#include "cli/progress_text.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/seconds.h"
#include "base/text/fixed.h"

namespace crumb::cli {
namespace {

constexpr double kBarSeconds = 0.1, kLineSeconds = 5;
constexpr std::size_t kBarWidth = 24;

/// Returns a rate with as many digits as are useful.
std::string rate_of_items(double rate, const std::string& items) {
  return fixed(rate, rate < 1 ? 2 : rate < 10 ? 1 : 0) + " " + items + "/s";
}

double seconds_left(const ProgressState& state) {
  if (state.seconds_left >= 0 || state.share <= 0 || state.seconds <= 0) return state.seconds_left;
  return state.seconds * (1 - state.share) / state.share;
}

}  // namespace

std::string duration_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kMostOfSmaller = 1.5;
  if (seconds < kMostOfSmaller * kMinute) return fixed(seconds, 0) + " s";
  if (seconds < kMostOfSmaller * kHour) return fixed(seconds / kMinute, 0) + " min";
  const double hours = std::floor(seconds / kHour);
  return fixed(hours, 0) + " h " + fixed(std::floor((seconds - hours * kHour) / kMinute), 0) + " min";
}

std::string progress_text(const ProgressState& state) {
  std::string text =
      state.what + " " + std::to_string(state.done) + "/" + std::to_string(state.total) + " " + state.items;
  if (!state.details.empty()) text += ", " + state.details;
  if (!state.rate.empty())
    text += ", " + state.rate;
  else if (state.seconds > 0 && state.done > 0)
    text += ", " + rate_of_items(static_cast<double>(state.done) / state.seconds, state.items);
  if (const double left = seconds_left(state); left >= 0) text += ", " + duration_text(left) + " left";
  return text;
}

ProgressLine::ProgressLine()
    : terminal_(::isatty(STDERR_FILENO) != 0), start_(now_seconds()), last_(start_) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (terminal_ && shown_) std::fprintf(stderr, "\r\x1b[K");
  shown_ = false;
}

bool ProgressLine::is_due() const {
  return now_seconds() - last_ >= (terminal_ ? kBarSeconds : kLineSeconds);
}

double ProgressLine::seconds() const { return now_seconds() - start_; }

void ProgressLine::show(const ProgressState& state) {
  last_ = now_seconds();
  const std::string text = progress_text(state);
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  const auto full = static_cast<std::size_t>(std::clamp(state.share, 0.0, 1.0) * kBarWidth);
  const std::string bar = std::string(full, '#') + std::string(kBarWidth - full, '.');
  std::fprintf(stderr, "\r\x1b[K[%s] %s", bar.c_str(), text.c_str());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace crumb::cli
