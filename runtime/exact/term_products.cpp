#include "runtime/exact/term_products.h"

#include <cmath>

#include "base/processor.h"
#include "runtime/exact/products.h"

namespace crumb::runtime::exact {

namespace {

float sum_of_terms(const TermProducts& p, std::size_t n, const float* x) {
  float partial[kPartialSums] = {};
  if (p.partial) {
    for (std::size_t i = 0; i < kPartialSums; ++i) {
      for (std::size_t at = p.partial->starts[i]; at < p.partial->starts[i + 1]; ++at)
        partial[i] = std::fma(x[p.x_offsets[at]], p.w[n * p.w_stride + at], partial[i]);
    }
    return fold(partial);
  }
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

/// Lists the partial sums whose number is `first` modulo `apart` and that have terms; whether any has.
bool list_used(PartialTerms& terms, std::size_t first, std::size_t apart) {
  if (apart == kPartialSums) {
    if (terms.starts[first] == terms.starts[first + 1]) return false;
    terms.meet[terms.used] = 0;
    terms.order[terms.used++] = static_cast<std::uint8_t>(first);
    return true;
  }
  const bool has_one = list_used(terms, first, 2 * apart);
  const bool has_other = list_used(terms, first + apart, 2 * apart);
  if (has_one && has_other) ++terms.meet[terms.used - 1];
  return has_one || has_other;
}

}  // namespace

PartialTerms PartialTerms::usual(std::size_t terms) {
  PartialTerms made{.is_usual = true, .adds_zero = terms % kPartialSums != 0};
  for (std::size_t i = 0; i < kPartialSums; ++i) made.starts[i + 1] = place_of_term(i + 1, terms);
  made.starts[kPartialSums] = terms;
  list_used(made, 0, 1);
  return made;
}

PartialTerms PartialTerms::of(const std::size_t (&counts)[kPartialSums]) {
  PartialTerms made;
  for (std::size_t i = 0; i < kPartialSums; ++i) made.starts[i + 1] = made.starts[i] + counts[i];
  list_used(made, 0, 1);
  made.adds_zero = made.used < kPartialSums;
  return made;
}

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
