#include <csignal>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "formats/io/interrupt.h"

namespace {

/// The first Ctrl-C asks the work to stop and tidy up; a second one ends the process.
void on_interrupt(int signal) {
  crumb::interrupt_requested() = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  return crumb::cli::run(std::vector<std::string>(argv + 1, argv + argc));
}
