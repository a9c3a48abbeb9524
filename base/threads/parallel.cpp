#include "base/threads/parallel.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files/text.h"

namespace crumb {
namespace {

/// A loop in progress. Its threads take its pieces one after the other.
class Loop {
 public:
  Loop(size_t count, size_t grain, const std::function<void(size_t, size_t)>& body)
      : count_(count), grain_(grain), body_(body) {}

  size_t pieces() const { return (count_ - 1) / grain_ + 1; }

  void work() {
    while (!failed_) {
      const size_t piece = next_++;
      if (piece >= pieces()) return;
      try {
        body_(piece * grain_, std::min(count_, (piece + 1) * grain_));
      } catch (...) {
        const std::lock_guard lock(error_mutex_);
        if (!error_) error_ = std::current_exception();
        failed_ = true;
      }
    }
  }

  /// Throws the first exception again, once no thread works on the loop.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  // Changed under the pool's mutex:
  size_t wanted = 0;               ///< threads that may still join
  std::atomic<size_t> inside = 0;  ///< threads that have joined
  std::condition_variable left;

 private:
  const size_t count_;
  const size_t grain_;
  const std::function<void(size_t, size_t)>& body_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::mutex error_mutex_;
};

/// Waits for what another thread is about to do, for about the time that waking a thread takes; returns false
/// where it did not come.
template <class Done>
bool comes_soon(const Done& done) {
  constexpr std::chrono::microseconds kSoon(50);
  constexpr int kLooks = 32;  // looks between two reads of the clock
  const auto end = std::chrono::steady_clock::now() + kSoon;
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// Threads that last, since a new one costs as much as a small loop. A loop's caller never waits for a thread
/// to join, only for those that have joined: nested and concurrent loops cannot block each other.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }

  void run(Loop& loop, size_t helpers) {
    {
      const std::lock_guard lock(mutex_);
      while (threads_.size() < helpers) threads_.emplace_back([this] { help(); });
      loop.wanted = helpers;
      waiting_.push_back(&loop);
      is_waiting_ = true;
    }
    for (size_t i = 0; i < helpers; ++i) changed_.notify_one();
    loop.work();
    {
      const std::lock_guard lock(mutex_);
      std::erase(waiting_, &loop);
      is_waiting_ = !waiting_.empty();
    }
    comes_soon([&] { return loop.inside == 0; });
    std::unique_lock lock(mutex_);  // the last thread to leave has let go of the loop then
    loop.left.wait(lock, [&] { return loop.inside == 0; });
  }

  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void help() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (stop_) return;
      Loop& loop = *waiting_.front();
      ++loop.inside;
      if (--loop.wanted == 0) waiting_.pop_front();
      is_waiting_ = !waiting_.empty();
      lock.unlock();
      loop.work();
      lock.lock();
      if (--loop.inside == 0) loop.left.notify_one();
      stay_awake(lock);
    }
  }

  /// Loops often follow each other. As many threads wait for the next one as there are processors without the
  /// caller's.
  void stay_awake(std::unique_lock<std::mutex>& lock) {
    if (awake_ + 1 >= processors_) return;
    ++awake_;
    lock.unlock();
    comes_soon([&] { return is_waiting_.load(std::memory_order_relaxed); });
    lock.lock();
    --awake_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Loop*> waiting_;
  std::vector<std::thread> threads_;
  std::atomic<bool> is_waiting_ = false;  ///< some loop waits; changed under the mutex
  size_t awake_ = 0;                      ///< threads that are awake without a loop
  const size_t processors_ = std::max(1u, std::thread::hardware_concurrency());
  bool stop_ = false;
};

constexpr int kMostThreads = 4096;

int threads_wanted() {
  const char* wanted = std::getenv("CRUMB_THREADS");
  if (!wanted || !*wanted) return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const std::string_view text = wanted;
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count >= 1 && count <= kMostThreads)
    return count;
  throw Error("CRUMB_THREADS: expected a number from 1 to " + std::to_string(kMostThreads) + ", found " +
                  quote_text(text),
              ErrorKind::kUsage);
}

}  // namespace

int default_threads() {
  static const int threads = threads_wanted();
  return threads;
}

void parallel_for(size_t count, size_t grain, int threads, const std::function<void(size_t, size_t)>& body) {
  if (count == 0) return;
  grain = std::max<size_t>(grain, 1);
  const size_t pieces = (count - 1) / grain + 1;
  const size_t workers =
      pieces == 1 ? 1 : std::min(pieces, static_cast<size_t>(threads > 0 ? threads : default_threads()));
  if (workers == 1) {
    for (size_t piece = 0; piece < pieces; ++piece) body(piece * grain, std::min(count, (piece + 1) * grain));
    return;
  }
  Loop loop(count, grain, body);
  Pool::instance().run(loop, workers - 1);
  loop.rethrow();
}

}  // namespace crumb
