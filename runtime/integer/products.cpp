#include "runtime/integer/products.h"

#include "base/processor.h"

namespace crumb::runtime::integer {

void multiply_ref(const Products& p) {
  for (std::size_t m = 0; m < p.rows; ++m) {
    for (std::size_t n = 0; n < p.columns; ++n) {
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < p.terms; ++k) sum += p.x[m * p.terms + k] * p.w[n * p.terms + k];
      p.y[n * p.y_stride + m] = sum;
    }
  }
}

void multiply(const Products& p) {
  static const auto kernel = may_use(Isa::kAvx2) ? multiply_avx2 : multiply_ref;
  kernel(p);
}

}  // namespace crumb::runtime::integer
