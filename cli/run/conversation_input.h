// Lines that a person types; no Ctrl-C is lost between two of them.
#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace crumb::cli {

/// Reads lines. While it lives, Ctrl-C sets interrupt_requested() however often it comes, and ends a wait for
/// input. Only one may live at a time.
class ConversationInput {
 public:
  /// Reads from this descriptor, which stays open.
  explicit ConversationInput(int from);
  ConversationInput(const ConversationInput&) = delete;
  ConversationInput& operator=(const ConversationInput&) = delete;
  ~ConversationInput();

  /// Returns the next line, without its end; none at the end of the input, and after a Ctrl-C since
  /// forget_interrupts(): one that comes before the wait begins ends it too.
  std::optional<std::string> next();

  /// Forgets the Ctrl-C that ended the work on a line.
  void forget_interrupts();

 private:
  /// Waits for input and reads it; returns false at the end of the input and after a Ctrl-C.
  bool read_more();

  int from_;
  struct sigaction before_ = {};
  int interrupted_ = -1;  // end of a pipe that is readable after a Ctrl-C, whichever thread got the signal
  int interrupt_ = -1;    // its other end
  std::string read_;      // read and not yet returned
};

}  // namespace crumb::cli
