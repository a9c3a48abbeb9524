// Notes and progress of verbs, on stderr; --json repeats the notes. A run that was interrupted and continued
// prints the same notes as one that was not.
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"
#include "jobs/observer.h"

namespace crumb::cli {

/// Prints "note: ..." and "warning: ..." on stderr, and progress there.
class Terminal final : public jobs::Observer {
 public:
  void note(const std::string& text) override;
  void warning(const std::string& text) override;
  void progress(const jobs::Progress& progress) override;
  void done() override { progress_.reset(); }
  std::string spelled(std::string_view field) const override;  ///< the flag

 private:
  std::unique_ptr<Progress> progress_;
  jobs::Progress begun_;  ///< what progress_ shows
};
Terminal& terminal();

/// Prints each note at once.
class Notes : public jobs::Notes {
 public:
  Notes() : jobs::Notes(terminal()) {}
};

}  // namespace crumb::cli
