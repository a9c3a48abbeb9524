// Reads a checkpoint's tensors slice by slice, ahead of the work, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "formats/checkpoint/checkpoint.h"
#include "quant/value_stream.h"

namespace crumb {

/// A buffer of bytes, uninitialized at first.
class Slab {
 public:
  Slab() = default;
  explicit Slab(size_t size)
      : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size), capacity_(size) {}
  std::span<std::byte> bytes() { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  bool empty() const { return size_ == 0; }
  size_t capacity() const { return capacity_; }
  void resize(size_t size) { size_ = size; }  ///< at most its capacity

 private:
  std::unique_ptr<std::byte[]> data_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

/// A tensor and the bytes of its slices (the last may be smaller).
struct SliceJob {
  const TensorEntry* entry = nullptr;
  uint64_t slice_bytes = 0;
};

class SliceReader {
 public:
  /// Reads `jobs` in order; at most `most_waiting` bytes wait to be taken. The checkpoint must outlive it.
  SliceReader(const Checkpoint& checkpoint, std::vector<SliceJob> jobs, uint64_t most_waiting);
  ~SliceReader();
  SliceReader(const SliceReader&) = delete;
  SliceReader& operator=(const SliceReader&) = delete;

  /// Returns the job's next slice, an empty one once at its end; the next job follows. Throws what reading
  /// met. Jobs are taken in order.
  Slab next(size_t job);

  /// Takes a slab back for the next slice: fresh memory costs as much as reading into it.
  void give_back(Slab slab);

  /// Goes back to the first slice of the job, which must be the one that was taken from last.
  void rewind(size_t job);

 private:
  struct Item {
    size_t job;
    Slab slab;  ///< empty: the job's end
  };
  void run();
  Slab slab_of(size_t size);

  const Checkpoint& checkpoint_;
  const std::vector<SliceJob> jobs_;
  const uint64_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> ready_;
  Slab spare_;
  uint64_t waiting_ = 0;
  size_t job_ = 0;           ///< the job that is read next
  uint64_t generation_ = 0;  ///< grows with every rewind; slices that were read before are dropped
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

/// Gives a tensor's values out of a SliceReader. A tensor of one slice is read once, however often it is
/// rewound.
class EntryStream final : public ValueStream {
 public:
  /// slice_values: what every call of next() asks for.
  EntryStream(SliceReader& reader, size_t job, const TensorEntry& entry, int threads);

  std::span<const float> next(uint64_t count) override;
  void rewind() override;

  /// Goes past the job's end, so that the next job follows.
  void finish();

 private:
  SliceReader& reader_;
  const size_t job_;
  const TensorEntry& entry_;
  const int threads_;
  const uint64_t total_;
  uint64_t given_ = 0;
  Slab slab_;
  std::vector<float> widened_;
  std::span<const float> values_;
};

}  // namespace crumb
