#include "runtime/exact/double_products.h"

#include <cmath>

#include "base/processor.h"

namespace crumb::runtime::exact {

void subtract_products_ref(const DoubleProducts& p) {
  for (std::size_t m = 0; m < p.rows; ++m) {
    double* const y = p.y + m * p.y_row;
    for (std::size_t k = 0; k < p.terms; ++k) {
      const double x = -p.x[m * p.x_row + k * p.x_term];
      for (std::size_t n = 0; n < p.columns; ++n) y[n] = std::fma(x, p.w[k * p.w_row + n], y[n]);
    }
  }
}

void subtract_products(const DoubleProducts& p) {
  static const auto kernel = may_use(Isa::kAvx512) ? subtract_products_avx512
                             : may_use(Isa::kAvx2) ? subtract_products_avx2
                                                   : subtract_products_ref;
  kernel(p);
}

}  // namespace crumb::runtime::exact
