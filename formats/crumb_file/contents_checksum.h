// By what a packed file's contents are known again, without reading them.
#pragma once

#include <cstdint>

#include "formats/crumb_file/crumb_file.h"

namespace crumb {

/// Of the tensors' names, shapes, specs and checksums as the header has them, and of those of graph.onnx and config.json: what
/// decides the numbers that a network computes. The same contents compressed in another way have the same.
std::uint32_t contents_checksum(const CrumbHeader& header);

}  // namespace crumb
