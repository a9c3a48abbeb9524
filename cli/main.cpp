#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/interrupt.h"
#include "cli/dispatch.h"

namespace {

/// The first Ctrl-C asks the work to stop and tidy up; a second one ends the process.
void on_interrupt(int signal) {
  crumb::interrupt_requested() = true;
  std::signal(signal, SIG_DFL);
}

/// A page of a mapped file is gone: the file became shorter while it was being read. What was being written stays
/// unfinished beside its target.
void on_lost_page(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) {
    std::signal(signal, SIG_DFL);
    return;  // and again
  }
  constexpr std::string_view kText =
      "crumb: a file was cut short, or can no longer be read, while it was being read\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(1);
}

/// A hung-up terminal asks the same, unless the process is to outlive it (nohup).
void handle_signals() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  if (std::signal(SIGHUP, on_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  struct sigaction lost_page = {};
  lost_page.sa_sigaction = on_lost_page;
  lost_page.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &lost_page, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file above the limit is a failed write, with a message
}

/// A descriptor that the caller closed must not become that of a file which is written: then what is printed
/// would land in it. Printing to it fails, as it would have.
void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  handle_signals();
  return crumb::cli::run(std::vector<std::string>(argv + 1, argv + argc));
}
