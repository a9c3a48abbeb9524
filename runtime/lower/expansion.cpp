#include "runtime/lower/expansion.h"

#include <cmath>

namespace crumb::runtime {
namespace {

/// a + b = sum + error, exactly.
double two_sum(double a, double b, double& error) {
  const double sum = a + b, other = sum - a;
  error = (a - (sum - other)) + (b - other);
  return sum;
}

}  // namespace

void Expansion::add(double x) {
  std::vector<double> made;
  double carry = x;
  for (const double part : parts_) {
    double error = 0;
    carry = two_sum(carry, part, error);
    if (error != 0) made.push_back(error);
  }
  if (carry != 0) made.push_back(carry);
  parts_ = std::move(made);
}

void Expansion::add(const Expansion& other) {
  for (const double part : other.parts_) add(part);
}

void Expansion::multiply(double by) {
  Expansion made;
  for (const double part : parts_) {
    const double product = part * by;
    made.add(std::fma(part, by, -product));
    made.add(product);
  }
  *this = std::move(made);
}

double Expansion::nearest() const {
  double sum = 0;
  for (const double part : parts_) sum += part;
  return sum;
}

int compare(const Expansion& a, Expansion b) {
  b.multiply(-1);
  b.add(a);
  return b.sign();
}

}  // namespace crumb::runtime
