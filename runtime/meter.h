// Limits on what a run takes of the machine, what it has taken so far, and a request to stop it.
//
// Memory counts what values take while they live. Work counts elements that are made and products that are
// added up. Both follow from the graph and the shapes alone, so a file from an untrusted source ends in
// bounded time and memory, at the same node on every machine.
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

/// Thrown where a run ends early.
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

  /// take() and give() count bytes of values, on any thread. Where take() throws Stopped, it has counted
  /// nothing.
  void take(std::uint64_t bytes);
  void give(std::uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  /// Counts work; for the run's own thread. Throws Stopped.
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

/// Sets the meter for values that this thread makes while the scope lives. Without a scope nothing is
/// counted.
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

/// Memory aligned to 64 bytes, from this thread's arena or the heap. The scope's meter counts it until it is
/// freed. Throws Stopped and std::bad_alloc.
std::shared_ptr<std::byte[]> metered_memory(std::size_t bytes);

}  // namespace crumb::runtime
