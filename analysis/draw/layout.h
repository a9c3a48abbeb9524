// Where boxes and lines go: layers from top to bottom, few crossings, straight lines where there is room.
#pragma once

#include <cstddef>
#include <vector>

namespace crumb::analysis {

struct LayoutItem {
  double width = 0, height = 0;
};

struct LayoutEdge {
  std::size_t from = 0, to = 0;  ///< from < to
};

struct Point {
  double x = 0, y = 0;
};

struct Layout {
  std::vector<Point> corners;  ///< of each item, top left
  std::vector<std::vector<Point>>
      routes;  ///< of each edge: pairs of points, (top, bottom) of each layer it is in
  double width = 0, height = 0;
};

/// Items never overlap, and keep a distance. The same input gives the same layout. Takes time and memory in
/// proportion to items and edges, and to the layers that edges cross, up to a limit beyond which long edges
/// are drawn straight.
Layout lay_out(const std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges);

}  // namespace crumb::analysis
