// By what it is known again whether a text or a network is the one of before. Free of LibTorch.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "tasks/language/text/language_text.h"

namespace crumb::tasks {

/// Of tokens and of which of them count, behind `before`.
std::uint32_t checksum_of(const LanguageText& text, std::uint32_t before = 0);

/// Of the numbers of all constants that are kept as such.
std::uint32_t checksum_of_floats(const graph::Graph& graph);

/// Of those, and of codes, scales and zero points.
std::uint32_t checksum_with_codes(const graph::Graph& graph);

}  // namespace crumb::tasks
