#include "quant/slices/slice_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/threads/parallel.h"

namespace crumb {

SliceReader::SliceReader(const Checkpoint& checkpoint, std::vector<SliceJob> jobs, uint64_t most_waiting)
    : checkpoint_(checkpoint),
      jobs_(std::move(jobs)),
      most_waiting_(most_waiting),
      thread_([this] { run(); }) {}

SliceReader::~SliceReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Slab SliceReader::next(size_t job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || !ready_.empty(); });
  if (ready_.empty()) std::rethrow_exception(error_);
  if (ready_.front().job != job) throw Error("slices are taken out of turn");
  Slab slab = std::move(ready_.front().slab);
  ready_.pop_front();
  waiting_ -= slab.capacity();
  changed_.notify_all();
  return slab;
}

void SliceReader::give_back(Slab slab) {
  const std::lock_guard lock(mutex_);
  if (slab.capacity() >= spare_.capacity()) spare_ = std::move(slab);
}

/// Returns a slab of this size: the spare one where it is large enough and not much too large.
Slab SliceReader::slab_of(size_t size) {
  Slab spare;
  {
    const std::lock_guard lock(mutex_);
    spare = std::exchange(spare_, {});
  }
  if (spare.capacity() < size || spare.capacity() / 2 > size) return Slab(size);
  spare.resize(size);
  return spare;
}

void SliceReader::rewind(size_t job) {
  const std::lock_guard lock(mutex_);
  ready_.clear();
  waiting_ = 0;
  job_ = job;
  ++generation_;
  changed_.notify_all();
}

void SliceReader::run() {
  std::unique_lock lock(mutex_);
  std::optional<TensorReader> reader;
  size_t job = 0;
  uint64_t position = 0, generation = 0;
  while (!stop_) {
    if (generation != generation_) {
      generation = generation_;
      if (job != job_ || !reader) {
        reader.reset();
      } else {
        reader->rewind();
      }
      job = job_;
      position = 0;
    }
    if (job == jobs_.size()) {  // everything is read, unless a rewind comes
      reader.reset();
      changed_.wait(lock, [&] { return stop_ || generation != generation_; });
      continue;
    }
    const SliceJob& work = jobs_[job];
    const uint64_t count = std::min(work.slice_bytes, work.entry->bytes - position);
    changed_.wait(lock, [&] {
      return stop_ || generation != generation_ || waiting_ == 0 || waiting_ + count <= most_waiting_;
    });
    if (stop_ || generation != generation_) continue;
    lock.unlock();
    Slab slab = slab_of(count);
    std::exception_ptr error;
    try {
      if (!reader) reader.emplace(checkpoint_.reader(*work.entry));
      reader->read(slab.bytes()).take();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (generation != generation_) continue;
    if (error) {
      error_ = error;
      changed_.notify_all();
      return;
    }
    position += count;
    if (count == 0) {
      reader.reset();
      ++job;
      position = 0;
    }
    waiting_ += slab.capacity();
    ready_.push_back({count == 0 ? job - 1 : job, std::move(slab)});
    changed_.notify_all();
  }
}

EntryStream::EntryStream(SliceReader& reader, size_t job, const TensorEntry& entry, int threads)
    : reader_(reader),
      job_(job),
      entry_(entry),
      threads_(threads),
      total_(element_count(entry.shape).take()) {}

std::span<const float> EntryStream::next(uint64_t count) {
  if (given_ == total_) return {};
  if (given_ == 0 && values_.size() == total_) {  // the whole tensor is still here
    given_ = total_;
    return values_;
  }
  reader_.give_back(std::exchange(slab_, {}));
  slab_ = reader_.next(job_);
  const uint64_t values = slab_.bytes().size() * 8 / dtype_bits(entry_.dtype);
  if (values != std::min(count, total_ - given_)) throw Error("a slice of another size than asked for");
  if (entry_.dtype == DType::kF32) {
    values_ = {reinterpret_cast<const float*>(slab_.bytes().data()), values};
  } else {
    widened_.resize(values);
    parallel_for(values, size_t{1} << 18, threads_, [&](size_t begin, size_t end) {
      widen_to_float(entry_.dtype, slab_.bytes(), begin, std::span(widened_).subspan(begin, end - begin));
    });
    values_ = widened_;
  }
  given_ += values;
  return values_;
}

void EntryStream::rewind() {
  const bool all_here = values_.size() == total_;
  if (given_ > 0 && !all_here) {
    reader_.rewind(job_);
    values_ = {};
  }
  given_ = 0;
}

void EntryStream::finish() {
  if (total_ > 0 && given_ == 0 && values_.empty()) throw Error("a tensor was not read");
  reader_.next(job_);
}

}  // namespace crumb
