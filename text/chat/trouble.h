// An error in a template whose line is not known yet.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace crumb::text::chat {

struct Trouble : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Bounds what a template may cost: steps of the interpreter, and bytes and elements that it makes. This
/// protects the time and the memory from hostile templates.
class Meter {
 public:
  explicit Meter(std::uint64_t limit) : left_(limit) {}

  void spend(std::uint64_t cost) {
    if (cost > left_) throw Trouble("the template takes more steps or makes more text than it may");
    left_ -= cost;
  }
  /// Text costs less than steps.
  void spend_text(std::uint64_t bytes) { spend(bytes / 8 + 1); }

 private:
  std::uint64_t left_;
};

}  // namespace crumb::text::chat
