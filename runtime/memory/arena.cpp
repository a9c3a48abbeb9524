#include "runtime/memory/arena.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <new>
#include <utility>

#include "runtime/memory/memory_plan.h"
#include "runtime/meter.h"

namespace crumb::runtime {
namespace {

constexpr std::size_t kOnHeap = ~std::size_t{0};
constexpr int kMostAgain = 4;  // plans that are given up

std::byte* allocate(std::size_t bytes) {
  return static_cast<std::byte*>(
      ::operator new[](std::max<std::size_t>(bytes, 1), std::align_val_t{kMemoryAlignment}));
}

void release(std::byte* memory) { ::operator delete[](memory, std::align_val_t{kMemoryAlignment}); }

Arena*& arena_of_thread() {
  thread_local Arena* arena = nullptr;
  return arena;
}

}  // namespace

/// A piece of memory that a run took. Another thread may give it back, after another run has begun.
struct TakenPiece {
  std::size_t bytes = 0, offset = kOnHeap;
  std::size_t step = 0, index = 0;  ///< of step
  const std::byte* memory = nullptr;
  std::optional<std::size_t> output;
  std::atomic<std::size_t> last{0};
  std::atomic<bool> is_there{false};
};

/// The block, and what the run has taken. Pieces in use keep it alive.
class ArenaBlock {
 public:
  ArenaBlock() = default;
  ArenaBlock(const ArenaBlock&) = delete;
  ArenaBlock& operator=(const ArenaBlock&) = delete;
  ~ArenaBlock() { release(memory); }

  bool is_used() const {
    return std::any_of(
        taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(count),
        [](const TakenPiece& piece) { return piece.is_there.load(std::memory_order_acquire); });
  }

  /// Precondition: not is_used(). Throws std::bad_alloc; there is no block then.
  void grow(std::size_t wanted) {
    if (wanted <= bytes) return;
    release(std::exchange(memory, nullptr));
    bytes = 0;
    memory = allocate(wanted);
    bytes = wanted;
  }

  /// Whether no piece uses this part of the block. Forgets pieces that were given back.
  bool is_free(std::size_t offset, std::size_t size) {
    std::erase_if(inside,
                  [](const TakenPiece* piece) { return !piece->is_there.load(std::memory_order_acquire); });
    return std::ranges::none_of(inside, [&](const TakenPiece* piece) {
      return piece->offset < offset + size && offset < piece->offset + piece->bytes;
    });
  }

  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  std::deque<TakenPiece> taken;  ///< the first `count` are this run's
  std::size_t count = 0;
  std::vector<const TakenPiece*> inside;
  std::atomic<std::size_t> step{0};
};

Piece Piece::of_heap(std::size_t bytes) {
  return {.memory = allocate(bytes), .block = nullptr, .taken = nullptr};
}

void Piece::give_back() const {
  if (!taken) return release(memory);
  if (taken->offset == kOnHeap) release(memory);
  taken->last.store(block->step.load(std::memory_order_relaxed), std::memory_order_relaxed);
  taken->is_there.store(false, std::memory_order_release);
}

Arena::Arena() = default;
Arena::~Arena() = default;

Arena* Arena::current() { return arena_of_thread(); }

std::vector<Arena::Place> Arena::places() const {
  std::vector<Place> all;
  for (const std::vector<Place>& of_step : plan_) all.insert(all.end(), of_step.begin(), of_step.end());
  return all;
}

void Arena::begin() {
  if (!block_ || block_->is_used()) block_ = std::make_shared<ArenaBlock>();
  block_->count = 0;
  block_->inside.clear();
  fits_ = true;
  taken_by_step_.clear();
  enter(0);
  const auto& meter = MeterScope::current();
  if (bytes_ > (meter ? meter->limits().memory : std::numeric_limits<std::uint64_t>::max())) return;
  try {
    block_->grow(bytes_);
  } catch (const std::bad_alloc&) {
    return;  // the heap may still have room for the values one by one
  }
}

void Arena::enter(std::size_t step) {
  step_ = step;
  if (taken_by_step_.size() <= step) taken_by_step_.resize(step + 1);
  block_->step.store(step, std::memory_order_relaxed);
}

Piece Arena::take(std::size_t bytes) {
  const std::size_t index = taken_by_step_[step_]++;
  const Place* place = step_ < plan_.size() && index < plan_[step_].size() ? &plan_[step_][index] : nullptr;
  if (place && place->outlives) return Piece::of_heap(bytes);
  const bool has_room = place && bytes <= place->bytes;
  const bool has_block = has_room && place->offset + bytes <= block_->bytes;
  const bool in_block = has_block && block_->is_free(place->offset, bytes);
  fits_ = fits_ && has_room && (in_block || !has_block);
  if (block_->count == block_->taken.size()) block_->taken.emplace_back();
  TakenPiece& taken = block_->taken[block_->count];
  taken.bytes = bytes;
  taken.offset = in_block ? place->offset : kOnHeap;
  taken.step = step_;
  taken.index = index;
  taken.output.reset();
  if (in_block) block_->inside.push_back(&taken);
  Piece piece{in_block ? block_->memory + place->offset : allocate(bytes), block_, &taken};
  taken.memory = piece.memory;
  taken.is_there.store(true, std::memory_order_relaxed);
  ++block_->count;
  return piece;
}

void Arena::note_output(std::size_t output, const std::byte* data) {
  if (fits_) return;  // the plan has it
  for (std::size_t i = block_->count; i > 0; --i) {
    TakenPiece& taken = block_->taken[i - 1];
    if (taken.step != step_) return;
    if (taken.memory == data) taken.output = output;
  }
}

void Arena::finish() {
  const bool is_new = plan_.empty();
  if (!is_new && !has_planned_pieces() && again_ < kMostAgain) {
    // Kernels keep what they derive from a shape when they first meet it, so the next run is noted again.
    ++again_;
    plan_.clear();
    bytes_ = 0;
  } else if (!fits_ || block_->is_used()) {
    learn();
  }
}

/// Whether the run took as many pieces in each step as the plan has.
bool Arena::has_planned_pieces() const {
  for (std::size_t step = 0; step < std::max(plan_.size(), taken_by_step_.size()); ++step) {
    const std::size_t taken = step < taken_by_step_.size() ? taken_by_step_[step] : 0;
    if (taken != (step < plan_.size() ? plan_[step].size() : 0)) return false;
  }
  return true;
}

void Arena::learn() {
  for (std::size_t i = 0; i < block_->count; ++i) {
    const TakenPiece& taken = block_->taken[i];
    if (plan_.size() <= taken.step) plan_.resize(taken.step + 1);
    std::vector<Place>& of_step = plan_[taken.step];
    if (of_step.size() <= taken.index)
      of_step.resize(taken.index + 1, Place{.first = taken.step, .last = taken.step, .output = {}});
    Place& place = of_step[taken.index];
    if (taken.bytes > place.bytes)  // sizes that grow from run to run are rarely planned
      place.bytes = std::max(taken.bytes, place.bytes + place.bytes / 4);
    place.last = std::max(place.last, taken.last.load(std::memory_order_relaxed));
    if (taken.is_there.load(std::memory_order_acquire)) {
      place.outlives = true;
      place.last = step_;
    }
    if (taken.output) place.output = taken.output;
  }
  plan();
}

void Arena::plan() {
  std::vector<Lifetime> lifetimes;
  std::vector<Place*> places;
  for (std::vector<Place>& of_step : plan_) {
    for (Place& place : of_step) {
      if (place.outlives) continue;
      lifetimes.push_back({.bytes = place.bytes, .first = place.first, .last = place.last});
      places.push_back(&place);
    }
  }
  const MemoryPlan plan = plan_memory(lifetimes);
  for (std::size_t i = 0; i < places.size(); ++i) places[i]->offset = plan.offsets[i];
  bytes_ = plan.bytes;
}

ArenaScope::ArenaScope(Arena* arena) : arena_(arena), before_(std::exchange(arena_of_thread(), arena)) {
  if (arena_) arena_->begin();
}

ArenaScope::~ArenaScope() { arena_of_thread() = before_; }

void ArenaScope::finish() {
  if (arena_) arena_->finish();
}

ArenaPool::Lease::Lease(ArenaPool& pool) : pool_(pool) {
  const std::lock_guard lock(pool.mutex_);
  if (pool.free_.empty()) {
    arena_ = std::make_unique<Arena>();
  } else {
    arena_ = std::move(pool.free_.back());
    pool.free_.pop_back();
  }
}

ArenaPool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.free_.push_back(std::move(arena_));
}

}  // namespace crumb::runtime
