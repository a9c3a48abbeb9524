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

/// The first Ctrl-C asks the work to stop and clean up; a second one ends the process.
void on_interrupt(int signal) {
  crumb::interrupt_requested() = true;
  std::signal(signal, SIG_DFL);
}

/// A page of a mapped file is gone: the file became shorter while it was being read. The output stays
/// unfinished under its temporary name.
void on_lost_page(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) {
    std::signal(signal, SIG_DFL);
    return;  // the instruction runs again
  }
  constexpr std::string_view kText =
      "crumb: a file was cut short, or can no longer be read, while it was being read\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(1);
}

/// A terminal that hangs up asks the same, unless the process is to outlive it (nohup).
void handle_signals() {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  if (std::signal(SIGHUP, on_interrupt) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  struct sigaction lost_page = {};
  lost_page.sa_sigaction = on_lost_page;
  lost_page.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &lost_page, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file above the size limit is a failed write, with a message
}

/// Occupies descriptors that the caller closed: an output file that got one of them would receive what is
/// printed. Printing to such a descriptor fails, as it would have anyway.
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
