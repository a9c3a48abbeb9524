// Does work in order, concurrently with the caller's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace crumb {

/// One thread that does its jobs one after the other. An exception ends it: waiting jobs are dropped, and the
/// next post() or drain() throws it.
class Background {
 public:
  /// post() waits while jobs of more than this many bytes wait.
  explicit Background(uint64_t most_waiting);

  /// Drops waiting jobs and joins the thread after its current job.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// `bytes`: what the job holds in memory until it is done.
  void post(uint64_t bytes, std::function<void()> job);

  /// Waits until everything is done.
  void drain();

 private:
  struct Job {
    uint64_t bytes;
    std::function<void()> work;
  };
  void run();
  void rethrow();

  const uint64_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  uint64_t waiting_ = 0;  ///< bytes of the jobs that are not done
  bool busy_ = false;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace crumb
