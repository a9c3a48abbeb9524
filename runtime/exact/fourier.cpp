#include "runtime/exact/fourier.h"

#include "runtime/exact/by_double.h"

namespace crumb::runtime::exact {
namespace {

Complex product(Complex a, Complex b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

}  // namespace

Fourier::Fourier(std::size_t length) {
  for (std::size_t k = 0; k < length; ++k) {
    const Turn turn = turn_of(k, length);
    turns_.push_back({turn.cosine, -turn.sine});
  }
  std::size_t left = length;
  for (std::size_t p = 2; p * p <= left; ++p)
    for (; left % p == 0; left /= p) factors_.push_back(p);
  if (left > 1) factors_.push_back(left);
}

std::size_t Fourier::multiplications() const {
  std::size_t sum = 1;
  for (const std::size_t factor : factors_) sum += factor;
  return length() * sum;
}

void Fourier::transform(std::span<const Complex> from, std::span<Complex> to) const {
  part(from.data(), 1, to.data(), length(), 0);
}

/// Transforms from[0], from[stride], ...: `factor` is the next of those whose product is `length`.
void Fourier::part(const Complex* from, std::size_t stride, Complex* to, std::size_t length,
                   std::size_t factor) const {
  if (length == 1) {
    to[0] = from[0];
    return;
  }
  const std::size_t p = factors_[factor], each = length / p;
  for (std::size_t r = 0; r < p; ++r) part(from + r * stride, stride * p, to + r * each, each, factor + 1);
  std::vector<Complex> terms(p);
  for (std::size_t k = 0; k < each; ++k) {
    for (std::size_t r = 0; r < p; ++r) terms[r] = product(to[r * each + k], turns_[r * k * stride]);
    for (std::size_t q = 0; q < p; ++q) {
      Complex sum = terms[0];
      std::size_t turn = 0;  // r q modulo p
      for (std::size_t r = 1; r < p; ++r) {
        turn += q;
        if (turn >= p) turn -= p;
        const Complex term = product(terms[r], turns_[turn * each * stride]);
        sum = {sum.real + term.real, sum.imaginary + term.imaginary};
      }
      to[q * each + k] = sum;
    }
  }
}

}  // namespace crumb::runtime::exact
