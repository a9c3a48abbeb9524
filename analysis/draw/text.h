// Draws a graph as lines of text: boxes below each other, wires as lanes next to them.
#pragma once

#include <string>

#include "analysis/draw/picture.h"

namespace crumb::analysis {

/// Lines in UTF-8, each ended. Outside names are printable; lanes beyond the fortieth are left out.
std::string draw_text(const Picture& picture);

}  // namespace crumb::analysis
