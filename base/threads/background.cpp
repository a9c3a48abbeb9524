#include "base/threads/background.h"

#include <utility>

namespace crumb {

Background::Background(uint64_t most_waiting) : most_waiting_(most_waiting), thread_([this] { run(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void Background::rethrow() {
  if (error_) std::rethrow_exception(error_);
}

void Background::post(uint64_t bytes, std::function<void()> job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || waiting_ == 0 || waiting_ + bytes <= most_waiting_; });
  rethrow();
  waiting_ += bytes;
  jobs_.push_back({bytes, std::move(job)});
  changed_.notify_all();
}

void Background::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || (jobs_.empty() && !busy_); });
  rethrow();
}

void Background::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      job.work();
    } catch (...) {
      error = std::current_exception();
    }
    job.work = nullptr;  // frees what the job held
    lock.lock();
    busy_ = false;
    waiting_ -= job.bytes;
    if (error) {
      error_ = error;
      for (const Job& dropped : jobs_) waiting_ -= dropped.bytes;
      jobs_.clear();
    }
    changed_.notify_all();
    if (error) return;
  }
}

}  // namespace crumb
