#include "jobs/samples/text_encoding.h"

#include "base/error.h"
#include "base/text/encoding.h"

namespace crumb::jobs {

void check_encoding(std::string_view text, const std::string& name, Observer& observer) {
  const std::optional<ForeignText> found = find_foreign_text(text);
  if (!found) return;
  const std::string message = name + " " + foreign_text_message(*found);
  if (found->wide) throw Error(message);
  observer.note(message + "; each such byte counts as U+FFFD");
}

}  // namespace crumb::jobs
