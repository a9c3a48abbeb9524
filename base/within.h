// Errors that name where they happened: the file, the layer, the flag.
#pragma once

#include <string>

#include "base/error.h"

namespace crumb {

/// The error with "context: " before its message, of the same kind; as it is where a person asked to stop, which no context did.
inline Error within(const std::string& context, const Error& error) {
  if (error.kind() == ErrorKind::kInterrupted) return error;
  return Error(context + ": " + error.what(), error.kind());
}

/// The same of what a file holds, such as a spec in it: no flag is wrong, so that kUsage becomes kFailed.
inline Error within_file(const std::string& name, const Error& error) {
  if (error.kind() == ErrorKind::kInterrupted) return error;
  return Error(name + ": " + error.what());
}

}  // namespace crumb
