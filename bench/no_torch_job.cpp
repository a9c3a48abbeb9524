// Without LibTorch there is nothing to compare with.
#include "bench/torch_job.h"

namespace crumb::bench {

bool has_torch() { return false; }

std::unique_ptr<TorchJob> make_torch_job(const QuantSpec&, const std::vector<float>&, uint64_t, uint64_t) {
  return nullptr;
}

}  // namespace crumb::bench
