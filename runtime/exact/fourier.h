// The discrete Fourier transform in float64, by sums in a fixed order: the bits are the same everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace crumb::runtime::exact {

struct Complex {
  double real = 0, imaginary = 0;
};

/// Transforms of one length: X[k] = sum over j of x[j] e^(-2 pi i j k / length).
///
/// By the prime factors of the length (Cooley and Tukey, 1965): a transform takes length times their sum
/// multiplications. Immutable: several threads may use one.
class Fourier {
 public:
  /// Precondition: length > 0.
  explicit Fourier(std::size_t length);

  std::size_t length() const { return turns_.size(); }
  std::size_t multiplications() const;  ///< of one transform, of complex numbers

  /// Precondition: both have the transform's length, and do not overlap.
  void transform(std::span<const Complex> from, std::span<Complex> to) const;

 private:
  void part(const Complex* from, std::size_t stride, Complex* to, std::size_t length,
            std::size_t factor) const;

  std::vector<Complex> turns_;  ///< e^(-2 pi i k / length)
  std::vector<std::size_t> factors_;
};

}  // namespace crumb::runtime::exact
