// One block of memory for the values of a graph's runs, planned once.
//
// The first run takes its values from the heap, and what it takes is noted, and how long that is there. From
// that a plan is made (memory_plan.h), and later runs have a place for each value in one block, which stays
// from run to run: nothing is asked of the heap, and no page is touched for the first time. What the plan has
// no room for (a larger batch, a longer sequence) comes from the heap once more, and the plan grows with it;
// smaller runs fit in as they are. A run that takes other pieces, not larger ones, is noted anew. What
// outlives its run, as outputs do, is never in the block.
//
// Nothing depends on the plan being right: before a value gets its place, those that are there are looked
// through, and one that outlives its run unforeseen keeps the block that it lies in.
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

/// Memory at a multiple of 64 that somebody has to give back, on any thread.
struct Piece {
  std::byte* memory = nullptr;
  std::shared_ptr<ArenaBlock> block;  ///< that it is noted in; null: nobody does
  TakenPiece* taken = nullptr;

  static Piece of_heap(std::size_t bytes);  ///< throws std::bad_alloc
  void give_back() const;
};

/// Of one run at a time.
class Arena {
 public:
  /// What the plan knows of a value, or of memory that a kernel takes for itself.
  struct Place {
    std::size_t bytes = 0;
    std::size_t first = 0, last = 0;    ///< steps from which and until which it is there
    std::size_t offset = 0;             ///< in the block
    bool outlives = false;              ///< the run: it is not in the block
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
  /// Output `output` of the step lies at `data`.
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
  int again_ = 0;  ///< how often a plan was given up
  std::size_t step_ = 0;
  std::vector<std::size_t> taken_by_step_;  ///< pieces, of this run
  bool fits_ = true;                        ///< the plan, what this run took so far
};

/// A run that takes its memory from an arena, or from the heap where that is null, until the scope ends.
class ArenaScope {
 public:
  explicit ArenaScope(Arena* arena);
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;
  ~ArenaScope();

  /// The run came to its end: the arena learns from it. What is there now outlives it.
  void finish();

 private:
  Arena *arena_, *before_;
};

/// Arenas for what many threads run.
class ArenaPool {
 public:
  /// An arena that nobody else has while the lease lives.
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
