// Who watches a job: what it has to say beside its result, and how far it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crumb::jobs {

/// How far long work is.
struct Progress {
  std::string what;             ///< "quantizing"
  std::string items;            ///< "tensors"
  std::size_t done = 0;         ///< items
  std::size_t all = 0;          ///< items; another number than before begins another piece of work
  std::uint64_t bytes = 0;      ///< done
  std::uint64_t all_bytes = 0;  ///< 0: bytes are not counted

  // Of work that knows more of itself.
  std::string details = {};   ///< "loss 2.3145"
  std::string rate = {};      ///< with its unit, "812 tokens/s"; empty: items a second
  double seconds = 0;         ///< since the work began; 0: since it was first told of
  double seconds_left = -1;   ///< below 0: as what was done took
  bool is_milestone = false;  ///< to be shown also right behind another
};

/// Does nothing by itself. Calls come from the thread that runs the job. One that throws Interrupted
/// (base/files/interrupt.h) ends the job, which leaves no output, as interrupt_requested() does when another
/// thread sets it.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void note([[maybe_unused]] const std::string& text) {}
  virtual void warning([[maybe_unused]] const std::string& text) {}  ///< what may make the result useless
  virtual void progress([[maybe_unused]] const Progress& progress) {}
  /// The work that progress() told of is over, done or not. Does not throw.
  virtual void done() {}
  /// What who asked calls a field of the request, for errors, notes and warnings: `tokens`, a command's
  /// `--tokens`.
  virtual std::string spelled(std::string_view field) const { return std::string(field); }
};

/// Tells the observer when it goes.
class ProgressScope {
 public:
  explicit ProgressScope(Observer& observer) : observer_(observer) {}
  ProgressScope(const ProgressScope&) = delete;
  ProgressScope& operator=(const ProgressScope&) = delete;
  ~ProgressScope() { observer_.done(); }

 private:
  Observer& observer_;
};

/// What is to be known of a result beside its figures: told to an observer, and kept for the result.
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
