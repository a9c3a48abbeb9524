// The text for progress everywhere: what, how much of how much, details, rate, time left.
#pragma once

#include <cstddef>
#include <string>

namespace crumb::cli {

struct ProgressState {
  std::string what;          ///< "training", "quantizing"
  std::size_t done, total;   ///< of `items`
  std::string items;         ///< "steps", "tensors"
  double share;              ///< of the work that is done, 0 to 1; more exact than done / total
  std::string details = {};  ///< between amount and rate: "loss 2.3145"
  std::string rate = {};     ///< with its unit: "812 tokens/s"; empty: items a second
  double seconds_left = -1;  ///< below 0: computed from what was done in `seconds`
  double seconds = 0;        ///< since the work began
};

/// Returns "training 12/240 steps, loss 2.3145, 812 tokens/s, 40 s left"; without rate and time until they
/// are known.
std::string progress_text(const ProgressState& state);

/// Returns "40 s", "12 min", "3 h 20 min".
std::string duration_text(double seconds);

/// Shows states: on a terminal over each other, with a bar, else one line every few seconds.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether it is time for another state; ask before making one.
  bool is_due() const;
  void show(const ProgressState& state);
  /// Removes the line, so that other output can follow.
  void clear();
  /// Returns the seconds since this was made.
  double seconds() const;

 private:
  bool terminal_, shown_ = false;
  double start_, last_;
};

}  // namespace crumb::cli
