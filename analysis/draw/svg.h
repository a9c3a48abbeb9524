// A graph as a picture for people: one SVG file that needs nothing else.
#pragma once

#include <string>

#include "analysis/draw/layout.h"
#include "analysis/draw/picture.h"

namespace crumb::analysis {

/// Layers from top to bottom, quantizers as coloured lines with their bits, a legend. Whatever the graph's
/// names hold is text in it. The same picture gives the same bytes.
std::string draw_svg(const Picture& picture, const std::string& title);

/// The boxes and labels of that drawing, and the lines between them.
struct Scene {
  std::vector<LayoutItem> items;  ///< a box for each of the picture's, and a label for each of its wires
  std::vector<LayoutEdge> edges;  ///< ordered by `from`
  std::vector<std::size_t> box;   ///< of each item; ~0 for labels
  std::vector<std::size_t> wire;  ///< of each item; ~0 for boxes
};
Scene scene_of(const Picture& picture);

}  // namespace crumb::analysis
