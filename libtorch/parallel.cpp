#include "libtorch/parallel.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>

namespace crumb {

void torch_parallel_for(std::int64_t count, c10::function_ref<void(std::int64_t, std::int64_t)> f) {
  if (count <= 0) return;
  if (count == 1 || at::get_num_threads() == 1 || at::in_parallel_region()) return f(0, count);
  // LibTorch's loop over a tensor's elements, one byte for each piece of ours: its library has the threads.
  const at::AutoDispatchBelowADInplaceOrView guard;
  const at::Tensor pieces = at::empty({count}, at::kByte);
  const char* first = static_cast<const char*>(pieces.const_data_ptr());
  auto iterator = at::TensorIterator::borrowing_nullary_op(pieces);
  iterator.for_each(
      [&](char** data, const std::int64_t*, std::int64_t size, std::int64_t outer) {
        const std::int64_t begin = data[0] - first;
        f(begin, begin + size * outer);
      },
      /*grain_size=*/1);
}

}  // namespace crumb
