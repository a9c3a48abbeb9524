#include "quant/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace crumb {

int default_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

void parallel_for(size_t count, size_t grain, int threads, const std::function<void(size_t, size_t)>& body) {
  if (count == 0) return;
  grain = std::max<size_t>(grain, 1);
  const size_t pieces = (count - 1) / grain + 1;
  const size_t workers = std::min(pieces, static_cast<size_t>(threads > 0 ? threads : default_threads()));
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    while (!failed) {
      const size_t piece = next++;
      if (piece >= pieces) return;
      try {
        body(piece * grain, std::min(count, (piece + 1) * grain));
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        failed = true;
      }
    }
  };
  std::vector<std::jthread> others;
  for (size_t i = 1; i < workers; ++i) others.emplace_back(work);
  work();
  others.clear();
  if (error) std::rethrow_exception(error);
}

}  // namespace crumb
