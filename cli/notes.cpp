#include "cli/notes.h"

#include <cstdio>

namespace crumb::cli {

void Terminal::note(const std::string& text) { std::fprintf(stderr, "note: %s\n", text.c_str()); }

void Terminal::warning(const std::string& text) { std::fprintf(stderr, "warning: %s\n", text.c_str()); }

void Terminal::progress(const jobs::Progress& now) {
  const bool is_same =
      progress_ && now.what == begun_.what && now.all == begun_.all && now.done >= begun_.done;
  if (!is_same) progress_ = std::make_unique<Progress>(now.what, now.items, now.all, now.all_bytes);
  begun_ = now;
  progress_->update(now.done, now.bytes);
}

Terminal& terminal() {
  static Terminal one;
  return one;
}

}  // namespace crumb::cli
