// Loops on LibTorch's own threads. at::parallel_for is a template that is parallel only where its user is
// compiled with OpenMP, which Crumb is not; threads of Crumb's own (base/threads/parallel.h) would compete
// with LibTorch's, which spin for a while after each operator.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace crumb {

/// Calls f(begin, end) for ranges that cover [0, count), at most one for each of at::get_num_threads()
/// threads; one range on this thread where it is inside a loop already. Exceptions are passed on.
void torch_parallel_for(std::int64_t count, c10::function_ref<void(std::int64_t, std::int64_t)> f);

}  // namespace crumb
