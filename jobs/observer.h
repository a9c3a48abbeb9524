// The observer of a job hears its notes and warnings, and its progress.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crumb::jobs {

/// The progress of long work.
struct Progress {
  std::string what;             ///< the work: "quantizing"
  std::string items;            ///< "tensors"
  std::size_t done = 0;         ///< items that are done
  std::size_t all = 0;          ///< all items; a change of this number begins another piece of work
  std::uint64_t bytes = 0;      ///< bytes that are done
  std::uint64_t all_bytes = 0;  ///< 0: bytes are not counted

  // Only for some work.
  std::string details = {};   ///< "loss 2.3145"
  std::string rate = {};      ///< the speed with its unit, "812 tokens/s"; empty: items a second
  double seconds = 0;         ///< since the work began; 0: since its first report
  double seconds_left = -1;   ///< estimated; below 0: estimated from the time that the work took so far
  bool is_milestone = false;  ///< shown even right after another report
};

/// Does nothing by itself. The thread that runs the job makes the calls. A call that throws Interrupted
/// (base/files/interrupt.h) ends the job, which leaves no output; so does interrupt_requested() when another
/// thread sets it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void note([[maybe_unused]] const std::string& text) {}
  virtual void warning([[maybe_unused]] const std::string& text) {}  ///< says what may make the result
                                                                     ///< useless
  virtual void progress([[maybe_unused]] const Progress& progress) {}
  /// The work of the last progress() has ended, finished or not. Does not throw.
  virtual void done() {}
  /// Returns how the caller spells a field of the request, for errors, notes and warnings: `tokens`, for a
  /// command `--tokens`.
  virtual std::string spelled(std::string_view field) const { return std::string(field); }
};

/// Calls the observer's done() when it is destroyed.
class ProgressScope {
 public:
  explicit ProgressScope(Observer& observer) : observer_(observer) {}
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;
  ~ProgressScope() { observer_.done(); }

 private:
  Observer& observer_;
};

/// Notes on a result in addition to its figures: tells an observer, and keeps them for the result.
class Notes {
 public:
  explicit Notes(Observer& observer) : observer_(&observer) {}
  void say(const std::string& text) {
    observer_->note(text);
    all_.push_back(text);
  }
  void warn(const std::string& text) {
    observer_->warning(text);
    all_.push_back(text);
  }
  const std::vector<std::string>& all() const { return all_; }  ///< in order
  Observer& observer() const { return *observer_; }

 private:
  Observer* observer_;
  std::vector<std::string> all_;
};

}  // namespace crumb::jobs
