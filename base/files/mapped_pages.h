// Mapped files that become shorter while they are read.
#pragma once

#include <cstddef>
#include <span>

#include "base/error.h"

namespace crumb {

/// Whether the pages of a part of a mapped file can be read: a Failure where its file was cut short since it
/// was mapped, or the device fails. Reading such a page raises SIGBUS, which ends a process that does not
/// handle it; so long reads ask first, piece by piece. Linux can tell from version 5.14 on; elsewhere every
/// part counts as readable. Brings the pages into memory.
Status check_readable(std::span<const std::byte> mapped);

}  // namespace crumb
