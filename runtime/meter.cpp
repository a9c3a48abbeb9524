#include "runtime/meter.h"

#include <algorithm>
#include <utility>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "runtime/memory/arena.h"

namespace crumb::runtime {
namespace {

std::shared_ptr<Meter>& meter_of_thread() {
  thread_local std::shared_ptr<Meter> meter;
  return meter;
}

struct GiveBack {
  Piece piece;
  std::shared_ptr<Meter> meter;
  std::size_t bytes;
  void operator()(std::byte*) const {
    piece.give_back();
    if (meter) meter->give(bytes);
  }
};

}  // namespace

void Meter::take(std::uint64_t bytes) {
  const std::uint64_t before = held_.fetch_add(bytes, std::memory_order_relaxed);
  const auto now = checked::add(before, bytes);
  if (!now || *now > limits_.memory) {
    give(bytes);
    throw Stopped(StopReason::kMemory, "its values would take " + byte_text(before) + " and " +
                                           byte_text(bytes) + " more, which is over the limit of " +
                                           byte_text(limits_.memory));
  }
  peak_ = std::max(peak_, *now);
}

void Meter::spend(std::uint64_t work) {
  check_cancelled();
  const auto now = checked::add(work_, work);
  if (!now || *now > limits_.work) {
    throw Stopped(StopReason::kWork, "it would take more work than the limit of " +
                                         std::to_string(limits_.work) + " elements and products");
  }
  work_ = *now;
}

void Meter::check_cancelled() const {
  if (cancelled_ && cancelled_->load(std::memory_order_relaxed))
    throw Stopped(StopReason::kCancelled, "the run was cancelled");
}

MeterScope::MeterScope(std::shared_ptr<Meter> meter)
    : before_(std::exchange(meter_of_thread(), std::move(meter))) {}
MeterScope::~MeterScope() { meter_of_thread() = std::move(before_); }
const std::shared_ptr<Meter>& MeterScope::current() { return meter_of_thread(); }

std::shared_ptr<std::byte[]> metered_memory(std::size_t bytes) {
  const std::shared_ptr<Meter>& meter = MeterScope::current();
  if (meter) meter->take(bytes);
  Piece piece;
  try {
    Arena* const arena = Arena::current();
    piece = arena ? arena->take(bytes) : Piece::of_heap(bytes);
  } catch (...) {
    if (meter) meter->give(bytes);
    throw;
  }
  std::byte* const memory = piece.memory;
  // The deleter also runs where there is no memory for the reference count.
  return {memory, GiveBack{std::move(piece), meter, bytes}};
}

}  // namespace crumb::runtime
