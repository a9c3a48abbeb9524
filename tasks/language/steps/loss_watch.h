// Says once that a run has gone wrong: its loss is far above what it had come down to. Free of LibTorch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <numeric>

namespace crumb::tasks {

/// A loss that rose, in nats a token.
struct LossRise {
  double least = 0;  ///< of all means of LossWatch::kSteps steps, and of the first kFirstSteps and more
  double mean = 0;   ///< of the last LossWatch::kSteps steps
};

/// Takes the loss of each step, in order. Means are over so many steps because texts differ: what one batch has more than
/// another is far less than kFactor there. Fewer are what a run began with: one that goes wrong at once has nothing else.
class LossWatch {
 public:
  static constexpr std::size_t kSteps = 20, kFirstSteps = 5;
  static constexpr double kFactor = 2;

  /// Whether this step's made the mean rise to kFactor times the least one, for the first time. A step in which nothing
  /// counted has no loss (0) and is left out.
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
