// Reports once that a run has gone wrong: its loss is far above the least that it had reached. Free of
// LibTorch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <numeric>

namespace crumb::tasks {

/// A loss that rose, in nats a token.
struct LossRise {
  double least = 0;  ///< the least mean over LossWatch::kSteps steps, or over the first kFirstSteps and more
  double mean = 0;   ///< over the last LossWatch::kSteps steps
};

/// Takes the loss of each step, in order. Means are over kSteps steps because texts differ: over so many,
/// batches differ by far less than kFactor. At a run's start means are over fewer, because a run that goes
/// wrong at once has no more.
class LossWatch {
 public:
  static constexpr std::size_t kSteps = 20, kFirstSteps = 5;
  static constexpr double kFactor = 2;

  /// Returns whether this step's loss made the mean rise to kFactor times the least one, for the first time.
  /// A step in which nothing counted has no loss (0) and is left out.
  bool rises_with(double loss) {
    if (loss <= 0) return false;
    last_.push_back(loss);
    if (last_.size() > kSteps) last_.pop_front();
    if (last_.size() < kFirstSteps) return false;
    rise_.mean = std::accumulate(last_.begin(), last_.end(), 0.0) / static_cast<double>(last_.size());
    rise_.least = std::min(rise_.least, rise_.mean);
    if (said_ || last_.size() < kSteps || rise_.mean < kFactor * rise_.least) return false;
    return said_ = true;
  }

  const LossRise& rise() const { return rise_; }

 private:
  std::deque<double> last_;
  LossRise rise_{.least = std::numeric_limits<double>::infinity()};
  bool said_ = false;
};

}  // namespace crumb::tasks
