// Exact sums of floating point numbers (Shewchuk 1997, Adaptive Precision Floating-Point Arithmetic, sections
// 2.4 to 2.7): a number is the exact sum of doubles that do not overlap, the least first, zeros left out.
//
// Exact where nothing over- or underflows: numbers of magnitude 2^-400 to 2^400, products of up to a few of
// them.
#pragma once

#include <vector>

namespace crumb::runtime {

class Expansion {
 public:
  Expansion() = default;
  explicit Expansion(double x) {
    if (x != 0) parts_.push_back(x);
  }

  /// The exact sum, the exact product.
  void add(double x);
  void add(const Expansion& other);
  void multiply(double by);

  int sign() const { return parts_.empty() ? 0 : parts_.back() > 0 ? 1 : -1; }
  double nearest() const;  ///< within a unit in the last place

 private:
  std::vector<double> parts_;
};

/// The sign of a - b.
int compare(const Expansion& a, Expansion b);

}  // namespace crumb::runtime
