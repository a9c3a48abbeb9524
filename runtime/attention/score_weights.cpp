#include "runtime/attention/score_weights.h"

#include "base/processor.h"

namespace crumb::runtime {

void mask_scores(const float* added, const bool* allowed, std::size_t keys, float* scores) {
  static const auto kernel = may_use(Isa::kAvx512) ? mask_scores_avx512
                             : may_use(Isa::kAvx2) ? mask_scores_avx2
                                                   : mask_scores_portable;
  kernel(added, allowed, keys, scores);
}

void weigh_scores(std::size_t seen, std::size_t keys, float* scores) {
  static const auto kernel = may_use(Isa::kAvx512) ? weigh_scores_avx512
                             : may_use(Isa::kAvx2) ? weigh_scores_avx2
                                                   : weigh_scores_portable;
  kernel(seen, keys, scores);
}

}  // namespace crumb::runtime
