// Lines that a person types, and Ctrl-C that is never lost between two of them.
#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace crumb::cli {

/// What is typed, by lines. While it lives, Ctrl-C sets interrupt_requested() however often it comes, and ends a wait for
/// input. One at a time.
class ConversationInput {
 public:
  /// From this descriptor, which stays open.
  explicit ConversationInput(int from);
  ConversationInput(const ConversationInput&) = delete;
  ConversationInput& operator=(const ConversationInput&) = delete;
  ~ConversationInput();

  /// The next line, without its end; none at the end of the input, and after a Ctrl-C since forget_interrupts(): one that
  /// comes before the wait begins ends it too.
  std::optional<std::string> next();

  /// Takes back the Ctrl-C that ended what was done with a line.
  void forget_interrupts();

 private:
  /// Reads what is there, waiting for it; false at the end of the input and after a Ctrl-C.
  bool read_more();

  int from_;
  struct sigaction before_ = {};
  int interrupted_ =
      -1;  // a pipe's end: there is something to read after a Ctrl-C, whichever thread had the signal
  int interrupt_ = -1;  // its other end
  std::string read_;    // and not yet given
};

}  // namespace crumb::cli
