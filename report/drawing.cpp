#include "report/drawing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/svg/svg.h"
#include "base/text/fixed.h"
#include "report/escape.h"

namespace crumb::report {
namespace {

using svg::at;

// Small, so that letters can be read where a telephone shows it at 360 pixels.
constexpr double kWidth = 560, kHeight = 340, kLeft = 66, kRight = 20, kTop = 14, kBottom = 54;
constexpr std::size_t kColours = 6;  ///< of the style

/// The marks of an axis, from the least to the greatest, which enclose all numbers.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low, step = 1;

  void see(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void round() {
    if (!(low <= high)) low = 0, high = 1;  // there is nothing
    const double size = std::max(std::abs(low), std::abs(high));
    if (high - low <= size * 1e-9) {  // one value: marks on both sides of it
      const double around = size > 0 ? size / 10 : 1;
      low -= around, high += around;
    }
    step = svg::step_for(high - low);
    low = std::floor(low / step) * step;
    high = std::ceil(high / step) * step;
  }
  int marks() const { return static_cast<int>(std::lround((high - low) / step)); }
  double mark(int i) const { return low + i * step; }
  double share(double value) const { return (value - low) / (high - low); }
  std::string text(int i) const {
    const double value = mark(i);
    if (std::abs(value) >= 1e6 || (step < 1e-4 && value != 0)) {
      char digits[24];
      std::snprintf(digits, sizeof digits, "%.3g", value);
      return digits;
    }
    return fixed(value + 0.0, svg::digits_for(step));
  }
};

std::string element(const std::string& kind, double x, double y, const std::string& text,
                    const std::string& more) {
  return "<text class=\"" + kind + "\" x=\"" + at(x) + "\" y=\"" + at(y) + "\"" + more + ">" + html(text) +
         "</text>";
}

std::string line(const std::string& kind, double x1, double y1, double x2, double y2) {
  return "<path class=\"" + kind + "\" d=\"M" + at(x1) + " " + at(y1) + "L" + at(x2) + " " + at(y2) + "\"/>";
}

/// Told apart by form, too.
std::string mark(std::size_t series, double x, double y) {
  constexpr double kSize = 5;
  const auto point = [&](double dx, double dy) { return at(x + dx * kSize) + " " + at(y + dy * kSize); };
  switch (series % kColours) {
    case 0: return "M" + point(-1, 0) + "a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z";
    case 1: return "M" + point(-.9, -.9) + "h9v9h-9z";
    case 2: return "M" + point(0, -1.2) + "L" + point(1.15, .85) + "L" + point(-1.15, .85) + "z";
    case 3:
      return "M" + point(0, -1.3) + "L" + point(1.3, 0) + "L" + point(0, 1.3) + "L" + point(-1.3, 0) + "z";
    case 4: return "M" + point(0, 1.2) + "L" + point(1.15, -.85) + "L" + point(-1.15, -.85) + "z";
    default: return "M" + point(-1.2, -.5) + "h12v5h-12z";
  }
}

class ChartDrawing {
 public:
  ChartDrawing(const Chart& chart, const std::string& id) : chart_(chart), id_(id) {
    for (const Point& point : chart.points) {
      x_.see(point.x);
      for (const double value : {point.y, point.low.value_or(point.y), point.high.value_or(point.y)})
        y_.see(value);
      if (std::ranges::find(series_, point.series) == series_.end()) series_.push_back(point.series);
    }
    if (chart.level) y_.see(*chart.level);
    x_.round();
    y_.round();
  }

  std::string draw() const {
    std::string drawn = "<svg class=\"chart\" viewBox=\"0 0 " + at(kWidth) + " " + at(kHeight) +
                        "\" role=\"img\" aria-labelledby=\"" + id_ + "\"><title id=\"" + id_ + "\">" +
                        html(chart_.title + ": " + chart_.y + " against " + chart_.x) + "</title>";
    drawn += axes();
    if (chart_.level) drawn += line("level", kLeft, y(*chart_.level), kWidth - kRight, y(*chart_.level));
    if (chart_.is_of_lines) {
      for (std::size_t i = 0; i < series_.size(); ++i) drawn += curve(i);
    } else {
      drawn += front();
      for (const Point& point : chart_.points) drawn += dot(point);
      drawn += names();
    }
    drawn += "</svg>";
    return drawn + legend();
  }

 private:
  double x(double value) const { return kLeft + x_.share(value) * (kWidth - kLeft - kRight); }
  double y(double value) const { return kHeight - kBottom - y_.share(value) * (kHeight - kTop - kBottom); }

  std::string axes() const {
    std::string drawn;
    const double bottom = kHeight - kBottom, right = kWidth - kRight;
    for (int i = 0; i <= y_.marks(); ++i) {
      drawn += line("grid", kLeft, y(y_.mark(i)), right, y(y_.mark(i)));
      drawn += element("tick", kLeft - 8, y(y_.mark(i)) + 4, y_.text(i), " text-anchor=\"end\"");
    }
    for (int i = 0; i <= x_.marks(); ++i) {
      drawn += line("axis", x(x_.mark(i)), bottom, x(x_.mark(i)), bottom + 5);
      drawn += element("tick", x(x_.mark(i)), bottom + 19, x_.text(i), " text-anchor=\"middle\"");
    }
    drawn += line("axis", kLeft, kTop, kLeft, bottom) + line("axis", kLeft, bottom, right, bottom);
    drawn += element("tick", (kLeft + right) / 2, kHeight - 12, chart_.x, " text-anchor=\"middle\"");
    return drawn + element("tick", 0, 0, chart_.y,
                           " text-anchor=\"middle\" transform=\"translate(16 " + at((kTop + bottom) / 2) +
                               ") rotate(-90)\"");
  }

  std::string front() const {
    std::vector<const Point*> points;
    for (const Point& point : chart_.points)
      if (point.is_on_front) points.push_back(&point);
    std::ranges::stable_sort(points, {}, &Point::x);
    std::string path;
    for (const Point* point : points)
      path += (path.empty() ? "M" : "L") + at(x(point->x)) + " " + at(y(point->y));
    return points.size() < 2 ? "" : "<path class=\"front\" d=\"" + path + "\"/>";
  }

  std::string curve(std::size_t number) const {
    std::string path;
    for (const Point& point : chart_.points)
      if (point.series == series_[number])
        path += (path.empty() ? "M" : "L") + at(x(point.x)) + " " + at(y(point.y));
    return "<path class=\"curve s" + std::to_string(number % kColours) + "\" d=\"" + path + "\"/>";
  }

  std::string dot(const Point& point) const {
    const auto series = static_cast<std::size_t>(std::ranges::find(series_, point.series) - series_.begin());
    const std::string colour = "s" + std::to_string(series % kColours);
    std::string drawn;
    if (point.low && point.high)
      drawn += line("whisker " + colour, x(point.x), y(*point.low), x(point.x), y(*point.high));
    const bool is_hollow = has_front() && !point.is_on_front;
    drawn += "<path class=\"mark " + colour + (is_hollow ? " hollow" : "") + "\" d=\"" +
             mark(series, x(point.x), y(point.y)) + "\"><title>" + html(point.name) + "</title></path>";
    return drawn;
  }

  /// Beside their points, those on the front first; where one would cover another it is left out, and the table has it.
  std::string names() const {
    struct Box {
      double left, top, right, bottom;
      bool meets(const Box& other) const {
        return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
      }
    };
    constexpr double kLetter = 7.5, kLine = 15;
    std::vector<const Point*> order;
    for (const bool is_on_front : {true, false})
      for (const Point& point : chart_.points)
        if (point.is_on_front == is_on_front) order.push_back(&point);
    std::vector<Box> taken;
    for (const Point& point : chart_.points)
      taken.push_back({x(point.x) - 6, y(point.y) - 6, x(point.x) + 6, y(point.y) + 6});
    std::string drawn;
    for (const Point* point : order) {
      const std::string name = shortened(point->name);
      const bool is_right = x(point->x) > kWidth * .6;
      const double width = kLetter * static_cast<double>(name.size());
      const double at_x = x(point->x) + (is_right ? -10 : 10),
                   at_y = y(point->y) < 2 * kLine ? y(point->y) + 18 : y(point->y) - 8;
      const Box box{is_right ? at_x - width : at_x, at_y - kLine + 3, is_right ? at_x : at_x + width,
                    at_y + 1};
      if (std::ranges::any_of(taken, [&](const Box& other) { return box.meets(other); })) continue;
      taken.push_back(box);
      drawn += element("name", at_x, at_y, name, is_right ? " text-anchor=\"end\"" : "");
    }
    return drawn;
  }

  static std::string shortened(const std::string& name) {
    constexpr std::size_t kMost = 28;
    const std::string shown = visible(name);
    return shown.size() <= kMost ? shown : "..." + visible(shown.substr(shown.size() - kMost));
  }

  bool has_front() const { return std::ranges::any_of(chart_.points, &Point::is_on_front); }

  std::string legend() const {
    std::string drawn;
    const auto add = [&](const std::string& sign, const std::string& name) {
      drawn += "<li><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\">" + sign + "</svg><bdi>" + html(name) +
               "</bdi></li>";
    };
    for (std::size_t i = 0; i < series_.size() && series_.size() > 1; ++i)
      add("<path class=\"mark s" + std::to_string(i % kColours) + "\" d=\"" + mark(i, 8, 8) + "\"/>",
          series_[i]);
    if (chart_.level) add(line("level", 0, 8, 16, 8), chart_.level_name);
    return drawn.empty() ? "" : "<ul class=\"legend\">" + drawn + "</ul>";
  }

  const Chart& chart_;
  const std::string& id_;
  std::vector<std::string> series_;
  Axis x_, y_;
};

}  // namespace

std::string svg_of(const Chart& chart, const std::string& id) { return ChartDrawing(chart, id).draw(); }

std::string svg_of(const Histogram& histogram, const std::string& what) {
  constexpr double kHigh = 40;
  const auto bars = std::max<std::size_t>(histogram.counts.size(), 1);
  const std::uint64_t most = histogram.counts.empty() ? 0 : std::ranges::max(histogram.counts);
  std::string path = "M0 40";
  double before = kHigh;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double share = most == 0 ? 0 : static_cast<double>(histogram.counts[i]) / static_cast<double>(most);
    double top = std::round((kHigh - share * (kHigh - 2)) * 10) / 10;
    if (histogram.counts[i] > 0) top = std::min(top, kHigh - .5);  // what is there is seen
    if (top != before) path += "V" + svg::at(top).substr(0, svg::at(top).size() - 1);
    path += "h4";
    before = top;
  }
  path += "V40z";
  return "<svg class=\"bars\" viewBox=\"0 0 " + std::to_string(4 * bars) +
         " 40\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" + html(what) + "\"><path d=\"" +
         path + "\"/></svg>";
}

}  // namespace crumb::report
