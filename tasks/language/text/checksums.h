// Checksums that identify a text or a network. Free of LibTorch.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "tasks/language/text/language_text.h"

namespace crumb::tasks {

/// Returns the checksum of tokens and of which of them count, continued from `before`.
std::uint32_t checksum_of(const LanguageText& text, std::uint32_t before = 0);

/// Returns the checksum of the numbers of all constants that are stored as floats.
std::uint32_t checksum_of_floats(const graph::Graph& graph);

/// Returns the checksum of those, and of codes, scales and zero points.
std::uint32_t checksum_with_codes(const graph::Graph& graph);

}  // namespace crumb::tasks
