// One block of memory for the values of a graph's runs, planned once.
//
// The first run takes its values from the heap; the arena notes each piece, its size and its lifetime. From
// that a plan is made (memory_plan.h), and in later runs each value has an offset in one block, which stays
// from run to run: nothing is allocated, and no page is touched for the first time. What does not fit the
// plan (a larger batch, a longer sequence) comes from the heap once more, and the plan grows with it; smaller
// runs use the plan as it is. A run that takes other pieces, not larger ones, is noted again. What outlives
// its run, as outputs do, is never in the block.
//
// Correctness does not depend on the plan: before a value gets its part of the block, the pieces in use are
// checked, and a piece that unexpectedly outlives its run keeps the block alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace crumb::runtime {

class ArenaBlock;
struct TakenPiece;

/// Memory aligned to 64 bytes, which any thread may give back.
struct Piece {
  std::byte* memory = nullptr;
  std::shared_ptr<ArenaBlock> block;  ///< the block that it is noted in; null: none
  TakenPiece* taken = nullptr;

  static Piece of_heap(std::size_t bytes);  ///< throws std::bad_alloc
  void give_back() const;
};

/// For one run at a time.
class Arena {
 public:
  /// What the plan knows of a value, or of memory that a kernel takes for itself.
  struct Place {
    std::size_t bytes = 0;
    std::size_t first = 0, last = 0;    ///< steps from which and until which it is there
    std::size_t offset = 0;             ///< in the block
    bool outlives = false;              ///< it outlives the run and is not in the block
    std::optional<std::size_t> output;  ///< of step `first`; none: the kernel's own
  };

  Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  std::vector<Place> places() const;  ///< step by step; none before a run came to its end
  std::size_t bytes() const {
    return bytes_;
  }  ///< of the block, which the next run takes where its meter lets it

  /// The arena that memory of this thread comes from; null: the heap.
  static Arena* current();
  Piece take(std::size_t bytes);  ///< throws std::bad_alloc

  void enter(std::size_t step);
  /// Says that output `output` of the step is at `data`.
  void note_output(std::size_t output, const std::byte* data);

 private:
  friend class ArenaScope;

  void begin();
  void finish();
  void learn();
  void plan();
  bool has_planned_pieces() const;

  std::shared_ptr<ArenaBlock> block_;
  std::vector<std::vector<Place>> plan_;  ///< by step, in the order of taking
  std::size_t bytes_ = 0;
  int again_ = 0;  ///< plans that were given up so far
  std::size_t step_ = 0;
  std::vector<std::size_t> taken_by_step_;  ///< pieces taken by this run
  bool fits_ = true;                        ///< whether the plan fits what this run took so far
};

/// A run that takes its memory from an arena, or from the heap where that is null, until the scope ends.
class ArenaScope {
 public:
  explicit ArenaScope(Arena* arena);
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;
  ~ArenaScope();

  /// Says that the run has ended: the arena learns from it. Pieces in use now outlive the run.
  void finish();

 private:
  Arena *arena_, *before_;
};

/// Arenas for runs on several threads.
class ArenaPool {
 public:
  /// An arena that is nobody else's while the lease lives.
  class Lease {
   public:
    explicit Lease(ArenaPool& pool);
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease();
    Arena* arena() const { return arena_.get(); }

   private:
    ArenaPool& pool_;
    std::unique_ptr<Arena> arena_;
  };

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Arena>> free_;
};

}  // namespace crumb::runtime
