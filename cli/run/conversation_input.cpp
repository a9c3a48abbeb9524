#include "cli/run/conversation_input.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"

namespace crumb::cli {
namespace {

/// The descriptor that the handler writes to. A flag alone could be set between the check and the wait, which
/// would go on.
std::atomic<int> told{-1};

void on_interrupt(int) {
  const int error = errno;
  interrupt_requested() = true;
  (void)!::write(told, "", 1);  // a full pipe has its message already
  errno = error;
}

}  // namespace

ConversationInput::ConversationInput(int from) : from_(from) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw Error("a pipe for Ctrl-C cannot be made");
  interrupted_ = ends[0];
  interrupt_ = ends[1];
  told = interrupt_;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;  // output in progress continues; the pipe wakes poll()
  ::sigaction(SIGINT, &action, &before_);
}

ConversationInput::~ConversationInput() {
  ::sigaction(SIGINT, &before_, nullptr);
  told = -1;
  ::close(interrupted_);
  ::close(interrupt_);
}

std::optional<std::string> ConversationInput::next() {
  if (interrupt_requested()) return std::nullopt;
  std::size_t end = std::string::npos;
  while ((end = read_.find('\n')) == std::string::npos) {
    if (read_more()) continue;
    if (read_.empty() || interrupt_requested()) return std::nullopt;
    return std::exchange(read_, "");  // the last line has no newline
  }
  std::string line = read_.substr(0, end);
  read_.erase(0, end + 1);
  return line;
}

void ConversationInput::forget_interrupts() {
  std::array<char, 64> bytes{};
  while (::read(interrupted_, bytes.data(), bytes.size()) > 0) {
  }
  interrupt_requested() = false;
}

bool ConversationInput::read_more() {
  std::array<pollfd, 2> waits{pollfd{from_, POLLIN, 0}, pollfd{interrupted_, POLLIN, 0}};
  while (::poll(waits.data(), waits.size(), -1) < 0) {
    if (errno != EINTR) throw Error("the input cannot be waited for");
  }
  if (waits[1].revents != 0) return false;
  std::array<char, 4096> bytes{};
  const ssize_t count = ::read(from_, bytes.data(), bytes.size());
  if (count < 0 && errno == EINTR) return true;  // try again
  if (count > 0) read_.append(bytes.data(), static_cast<std::size_t>(count));
  return count > 0;
}

}  // namespace crumb::cli
