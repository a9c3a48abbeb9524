// The Zstandard frames of packed files: what docs/crumb_file.md allows of RFC 8878, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/error.h"

namespace crumb {

using BlobSink = std::function<Status(std::span<const std::byte>)>;

/// Decompresses `stored`, one frame of `raw` bytes, and passes them to the sink in slices, in order; a
/// Failure of the sink ends it. Fails, with `what` in front, where it is no such frame, or one of another
/// size; the sink may have got slices before that. Takes a few megabytes of memory whatever the sizes. Throws
/// Interrupted when the user asked to stop.
Status decompress(std::span<const std::byte> stored, uint64_t raw, const std::string& what,
                  const BlobSink& sink);

}  // namespace crumb
