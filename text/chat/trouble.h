// What goes wrong while a template is read or rendered, before it is known where.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace crumb::text::chat {

struct Trouble : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a template may cost: steps of the interpreter, and bytes and elements that it makes. Both hold for templates that
/// are hostile: one for time, and with it for memory.
class Meter {
 public:
  explicit Meter(std::uint64_t limit) : left_(limit) {}

  void spend(std::uint64_t cost) {
    if (cost > left_) throw Trouble("the template takes more steps or makes more text than it may");
    left_ -= cost;
  }
  /// Text is cheaper than steps.
  void spend_text(std::uint64_t bytes) { spend(bytes / 8 + 1); }

 private:
  std::uint64_t left_;
};

}  // namespace crumb::text::chat
