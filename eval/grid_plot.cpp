// A grid as one SVG file that needs nothing else.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/svg/svg.h"
#include "base/text/fixed.h"
#include "eval/grid_table.h"

namespace crumb::eval {
namespace {

using svg::at, svg::line_at, svg::text_at;

constexpr double kWidth = 800, kHeight = 480, kLeft = 84, kRight = 220, kTop = 40, kBottom = 60;
constexpr const char* kColours[] = {"#c0392b", "#2471a3", "#1e8449", "#7d3c98", "#b9770e", "#34495e"};

struct Point {
  double x = 0, y = 0;
  std::size_t row = 0;
};

/// From the least to the greatest mark of an axis, which enclose all numbers.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  double step = 1;

  void see(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void round() {
    if (!(low <= high)) low = 0, high = 1;  // there is nothing
    if (high - low <= std::abs(high) * 1e-9) high = low + (low == 0 ? 1 : std::abs(low));
    step = svg::step_for(high - low);
    low = std::floor(low / step) * step;
    high = std::ceil(high / step) * step;
  }
  int marks() const { return static_cast<int>(std::lround((high - low) / step)); }
  double share(double value) const { return (value - low) / (high - low); }
};

class GridPlot {
 public:
  explicit GridPlot(const GridTable& table) : table_(table) {
    for (std::size_t i = 1; i < table.rows.size(); ++i) {
      const auto x = table.rows[i].cost(table.cost), y = table.rows[i].score(table.metric);
      if (!x || !y || !std::isfinite(*x) || !std::isfinite(*y)) continue;
      points_.push_back({.x = *x, .y = *y, .row = i});
      x_.see(*x);
      y_.see(*y);
      if (std::ranges::find(methods_, table.rows[i].method) == methods_.end())
        methods_.push_back(table.rows[i].method);
    }
    if (const auto reference = table.rows.front().score(table.metric); reference && std::isfinite(*reference))
      float_ = reference;
    if (float_) y_.see(*float_);
    x_.round();
    y_.round();
  }

  std::string draw() const {
    std::string drawn =
        svg::begin(kWidth, kHeight) + text_at(kLeft, 22, "start", table_.model, " font-size=\"15\"") + axes();
    if (float_) {
      drawn +=
          line_at(kLeft, y(*float_), kWidth - kRight, y(*float_), "stroke=\"#333\" stroke-dasharray=\"5 4\"");
      drawn += text_at(kWidth - kRight + 8, y(*float_) + 4, "start", "float", " fill=\"#333\"");
    }
    drawn += front();
    for (const Point& point : points_) drawn += dot(point);
    for (std::size_t i = 0; i < methods_.size(); ++i) drawn += legend(i);
    return drawn + "</svg>\n";
  }

 private:
  double x(double value) const { return kLeft + x_.share(value) * (kWidth - kLeft - kRight); }
  double y(double value) const { return kHeight - kBottom - y_.share(value) * (kHeight - kTop - kBottom); }

  std::string axes() const {
    std::string drawn;
    const double bottom = kHeight - kBottom, right = kWidth - kRight;
    for (int i = 0; i <= y_.marks(); ++i) {
      const double mark = y_.low + i * y_.step;
      drawn += line_at(kLeft, y(mark), right, y(mark), "stroke=\"#ddd\"");
      drawn += text_at(kLeft - 8, y(mark) + 4, "end", fixed(mark, svg::digits_for(y_.step)));
    }
    for (int i = 0; i <= x_.marks(); ++i) {
      const double mark = x_.low + i * x_.step;
      drawn += line_at(x(mark), bottom, x(mark), bottom + 5, "stroke=\"black\"");
      drawn += text_at(x(mark), bottom + 20, "middle", fixed(mark, svg::digits_for(x_.step)));
    }
    drawn += line_at(kLeft, kTop, kLeft, bottom, "stroke=\"black\"");
    drawn += line_at(kLeft, bottom, right, bottom, "stroke=\"black\"");
    drawn += text_at((kLeft + right) / 2, kHeight - 18, "middle", table_.cost.axis);
    drawn += text_at(0, 0, "middle", table_.metric.axis,
                     " transform=\"translate(18 " + at((kTop + bottom) / 2) + ") rotate(-90)\"");
    return drawn;
  }

  std::string front() const {
    std::vector<Point> points;
    for (const Point& point : points_) {
      if (table_.front[point.row]) points.push_back(point);
    }
    if (points.empty()) return "";
    std::ranges::stable_sort(points, {}, &Point::x);
    std::string line;
    for (const Point& point : points) line += at(x(point.x)) + "," + at(y(point.y)) + " ";
    return "<polyline points=\"" + line + "\" fill=\"none\" stroke=\"#555\" stroke-width=\"1.5\"/>\n";
  }

  /// Full on the front; a pointer that rests there reads what it is.
  std::string dot(const Point& point) const {
    const GridRow& row = table_.rows[point.row];
    const std::string colour = colour_of(row.method);
    return "<circle cx=\"" + at(x(point.x)) + "\" cy=\"" + at(y(point.y)) + "\" r=\"4\" stroke=\"" + colour +
           "\" fill=\"" + (table_.front[point.row] ? colour : "white") + "\"><title>" +
           svg::escaped(row.format + ", activations " + row.activations + ", " + row.method + ": " +
                        fixed(point.y, table_.metric.digits)) +
           "</title></circle>\n";
  }

  std::string colour_of(const std::string& method) const {
    const auto place = std::ranges::find(methods_, method) - methods_.begin();
    return kColours[static_cast<std::size_t>(place) % std::size(kColours)];
  }

  std::string legend(std::size_t number) const {
    const double place = kTop + 40 + 20 * static_cast<double>(number), left = kWidth - kRight + 16;
    return "<circle cx=\"" + at(left) + "\" cy=\"" + at(place) + "\" r=\"4\" fill=\"" +
           colour_of(methods_[number]) + "\"/>\n" + text_at(left + 12, place + 4, "start", methods_[number]);
  }

  const GridTable& table_;
  std::vector<Point> points_;
  std::vector<std::string> methods_;
  std::optional<double> float_;
  Axis x_, y_;
};

}  // namespace

std::string svg_of(const GridTable& table) { return GridPlot(table).draw(); }

}  // namespace crumb::eval
