// Identifies the contents of a packed file without reading them.
#pragma once

#include <cstdint>

#include "formats/crumb_file/crumb_file.h"

namespace crumb {

/// The checksum of the tensors' names, shapes, specs and checksums in the header, and of those of graph.onnx
/// and config.json: all that decides the numbers that a network computes. It does not depend on compression.
std::uint32_t contents_checksum(const CrumbHeader& header);

}  // namespace crumb
