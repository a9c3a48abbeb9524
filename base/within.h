// Errors that name their context: the file, the layer, the flag.
#pragma once

#include <string>

#include "base/error.h"

namespace crumb {

/// Returns the error with "context: " before its message, of the same kind; as it is where a person asked to
/// stop, which no context caused.
inline Error within(const std::string& context, const Error& error) {
  if (error.kind() == ErrorKind::kInterrupted) return error;
  return Error(context + ": " + error.what(), error.kind());
}

/// The same for the contents of a file, such as a spec in it: no flag is wrong, so kUsage becomes kFailed.
inline Error within_file(const std::string& name, const Error& error) {
  if (error.kind() == ErrorKind::kInterrupted) return error;
  return Error(name + ": " + error.what());
}

}  // namespace crumb
