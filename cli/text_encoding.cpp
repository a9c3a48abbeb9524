#include "cli/text_encoding.h"

#include "base/error.h"
#include "base/text/encoding.h"
#include "cli/notes.h"

namespace crumb::cli {

void check_encoding(std::string_view text, const std::string& name) {
  const std::optional<ForeignText> found = find_foreign_text(text);
  if (!found) return;
  const std::string message = name + " " + foreign_text_message(*found);
  if (found->wide) throw Error(message);
  Notes().say(message + "; each such byte counts as U+FFFD");
}

}  // namespace crumb::cli
