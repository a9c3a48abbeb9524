#include "runtime/exact/term_products.h"

#include <cmath>

#include "base/processor.h"
#include "runtime/exact/products.h"

namespace crumb::runtime::exact {

namespace {

float sum_of_terms(const TermProducts& p, std::size_t n, const float* x) {
  float partial[kPartialSums] = {};
  std::size_t k = 0;
  for (; k < p.terms; ++k) {
    float& sum = partial[k % kPartialSums];
    sum = std::fma(x[p.x_offsets[place_of_term(k, p.terms)]], p.w[n * p.w_stride + k], sum);
  }
  for (; k % kPartialSums != 0; ++k) partial[k % kPartialSums] += 0.0F;
  return fold(partial);
}

float then_of(const TermsThen& then, std::size_t n, float r) {
  switch (then.what) {
    case TermsThen::What::kNothing: break;
    case TermsThen::What::kClip:
      if (r < then.least) r = then.least;
      return r > then.most ? then.most : r;
    case TermsThen::What::kSlope: return r < 0 ? r * then.slopes[n * then.slopes_step] : r;
  }
  return r;
}

}  // namespace

void multiply_terms_ref(const TermProducts& p) {
  for (std::size_t n = 0; n < p.outputs; ++n) {
    for (std::size_t line = 0; line < p.lines; ++line) {
      for (std::size_t at = 0; at < p.positions; ++at) {
        float& y = p.y[n * p.y_stride + line * p.y_line + at];
        y = sum_of_terms(p, n, p.x + line * p.x_line + at);
        if (p.bias) y += p.bias[n];
        y = then_of(p.then, n, y);
      }
    }
  }
}

void pack_terms(const float* w, std::size_t w_stride, std::size_t outputs, std::size_t terms, float* to) {
  const std::size_t tiles = (outputs + kTileOutputs - 1) / kTileOutputs;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const std::size_t first = tile * outputs / tiles, end = (tile + 1) * outputs / tiles;
    for (std::size_t partial = 0; partial < kPartialSums; ++partial) {
      for (std::size_t k = partial; k < terms; k += kPartialSums) {
        for (std::size_t n = first; n < end; ++n) *to++ = w[n * w_stride + k];
      }
    }
  }
}

void multiply_terms(const TermProducts& products) {
  static const auto kernel = may_use(Isa::kAvx512) ? multiply_terms_avx512
                             : may_use(Isa::kAvx2) ? multiply_terms_avx2
                                                   : multiply_terms_ref;
  kernel(products);
}

}  // namespace crumb::runtime::exact
