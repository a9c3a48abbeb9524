// What a run may take of the machine, what it has taken, and whether somebody asked it to stop.
//
// Memory counts what values take while they live, work counts elements that are made and products that are added up: both
// follow from the graph and the shapes alone, so that a file from anywhere ends in bounded time and space, everywhere at
// the same node.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"

namespace crumb::runtime {

struct Limits {
  std::uint64_t memory = std::uint64_t{16} << 30;  ///< bytes of values at a time
  std::uint64_t work = std::uint64_t{1} << 46;     ///< elements made, products added up
};

enum class StopReason : std::uint8_t { kMemory, kWork, kCancelled };

/// A run that ended before its time.
class Stopped : public Error {
 public:
  Stopped(StopReason reason, const std::string& message)
      : Error(message, reason == StopReason::kCancelled ? ErrorKind::kInterrupted : ErrorKind::kFailed),
        reason_(reason) {}
  StopReason reason() const { return reason_; }

 private:
  StopReason reason_;
};

class Meter {
 public:
  explicit Meter(const Limits& limits, const std::atomic<bool>* cancelled = nullptr)
      : limits_(limits), cancelled_(cancelled) {}

  /// Values take and give bytes back, on any thread. take() throws Stopped, and has taken nothing then.
  void take(std::uint64_t bytes);
  void give(std::uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  /// On the run's own thread. Throws Stopped.
  void spend(std::uint64_t work);
  void check_cancelled() const;

  const Limits& limits() const { return limits_; }
  std::uint64_t peak() const { return peak_; }  ///< bytes
  std::uint64_t work() const { return work_; }

 private:
  Limits limits_;
  const std::atomic<bool>* cancelled_;
  std::atomic<std::uint64_t> held_{0};
  std::uint64_t peak_ = 0, work_ = 0;
};

/// The meter of values that this thread makes while the scope lives; without one nothing is counted.
class MeterScope {
 public:
  explicit MeterScope(std::shared_ptr<Meter> meter);
  MeterScope(const MeterScope&) = delete;
  MeterScope& operator=(const MeterScope&) = delete;
  ~MeterScope();

  static const std::shared_ptr<Meter>& current();

 private:
  std::shared_ptr<Meter> before_;
};

/// Bytes at multiples of 64, of this thread's arena or of the heap, counted by the scope's meter until they are given back.
/// Throws Stopped, and std::bad_alloc.
std::shared_ptr<std::byte[]> metered_memory(std::size_t bytes);

}  // namespace crumb::runtime
