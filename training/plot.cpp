// A sweep as one SVG file that needs nothing else.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "base/svg/svg.h"
#include "base/text/fixed.h"
#include "training/table.h"

namespace crumb::training {
namespace {

using svg::at, svg::line_at, svg::text_at;

constexpr double kWidth = 720, kHeight = 440, kLeft = 76, kRight = 180, kTop = 48, kBottom = 64;
constexpr const char* kColours[] = {"#c0392b", "#2471a3", "#1e8449", "#7d3c98", "#b9770e", "#34495e"};

class Plot {
 public:
  explicit Plot(const SweepTable& table) : table_(table) {
    x_low_ = y_low_ = std::numeric_limits<double>::infinity();
    x_high_ = y_high_ = -x_low_;
    for (const SweepCell& cell : table.cells) {
      x_low_ = std::min(x_low_, cell.x);
      x_high_ = std::max(x_high_, cell.x);
      y_low_ = std::min(y_low_, cell.least);
      y_high_ = std::max(y_high_, cell.greatest);
      marks_[cell.x] = cell.label;
      if (std::ranges::find(series_, cell.series) == series_.end()) series_.push_back(cell.series);
    }
    for (const TrainReference& one : table.references) {
      y_low_ = std::min(y_low_, one.mean);
      y_high_ = std::max(y_high_, one.mean);
    }
    if (x_high_ == x_low_) x_high_ = x_low_ + 1;
    if (y_high_ == y_low_) y_high_ = y_low_ + 1;
    step_ = svg::step_for(y_high_ - y_low_);
    y_low_ = std::floor(y_low_ / step_) * step_;
    y_high_ = std::ceil(y_high_ / step_) * step_;
  }

  std::string draw() const {
    std::string drawn = svg::begin(kWidth, kHeight);
    drawn += text_at(kLeft, 20, "start", table_.task + " (" + table_.network + "): " + table_.title,
                     " font-size=\"15\"");
    if (!table_.miniature_of.empty()) {
      drawn += text_at(kLeft, 37, "start", "miniature of " + table_.miniature_of,
                       " fill=\"#555\" font-size=\"11\"");
    }
    drawn += axes();
    for (std::size_t i = 0; i < series_.size(); ++i) drawn += series(i);
    return drawn + references() + "</svg>\n";
  }

 private:
  double x(double value) const {
    return kLeft + (value - x_low_) / (x_high_ - x_low_) * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    return kHeight - kBottom - (value - y_low_) / (y_high_ - y_low_) * (kHeight - kTop - kBottom);
  }

  std::string axes() const {
    std::string drawn;
    const double bottom = kHeight - kBottom, right = kWidth - kRight;
    const int digits = svg::digits_for(step_);
    for (double mark = y_low_; mark <= y_high_ + step_ / 2; mark += step_) {
      drawn += line_at(kLeft, y(mark), right, y(mark), "stroke=\"#ddd\"");
      drawn += text_at(kLeft - 8, y(mark) + 4, "end", fixed(mark, digits));
    }
    for (const auto& [place, label] : marks_) {
      drawn += line_at(x(place), bottom, x(place), bottom + 5, "stroke=\"black\"");
      drawn += text_at(x(place), bottom + 20, "middle", label);
    }
    drawn += line_at(kLeft, kTop, kLeft, bottom, "stroke=\"black\"");
    drawn += line_at(kLeft, bottom, right, bottom, "stroke=\"black\"");
    drawn += text_at((kLeft + right) / 2, kHeight - 18, "middle", table_.axis);
    const std::string unit =
        table_.metric == "psnr" ? "PSNR (dB)" : table_.metric + " (fraction of the test set)";
    drawn += text_at(0, 0, "middle", unit,
                     " transform=\"translate(18 " + at((kTop + bottom) / 2) + ") rotate(-90)\"");
    return drawn;
  }

  /// Dashed lines; their names, from the top, keep a line's height from each other.
  std::string references() const {
    std::vector<TrainReference> ordered = table_.references;
    std::ranges::stable_sort(ordered, std::ranges::greater(), &TrainReference::mean);
    std::string drawn;
    double lowest = -std::numeric_limits<double>::infinity();
    for (const TrainReference& one : ordered) {
      drawn += line_at(kLeft, y(one.mean), kWidth - kRight, y(one.mean),
                       "stroke=\"#333\" stroke-dasharray=\"5 4\"");
      lowest = std::max(lowest + 13, y(one.mean) + 4);
      drawn += text_at(kWidth - kRight + 8, lowest, "start", one.name, " fill=\"#333\"");
    }
    return drawn;
  }

  std::string series(std::size_t number) const {
    std::vector<SweepCell> cells;
    for (const SweepCell& cell : table_.cells) {
      if (cell.series == series_[number]) cells.push_back(cell);
    }
    std::ranges::sort(cells, {}, &SweepCell::x);
    const std::string colour = kColours[number % std::size(kColours)];
    std::string line, band, dots;
    for (const SweepCell& cell : cells) {
      line += at(x(cell.x)) + "," + at(y(cell.mean)) + " ";
      band += at(x(cell.x)) + "," + at(y(cell.greatest)) + " ";
      dots += "<circle cx=\"" + at(x(cell.x)) + "\" cy=\"" + at(y(cell.mean)) + "\" r=\"3\" fill=\"" +
              colour + "\"/>\n";
    }
    for (auto cell = cells.rbegin(); cell != cells.rend(); ++cell) {
      band += at(x(cell->x)) + "," + at(y(cell->least)) + " ";
    }
    const double legend = kTop + 60 + 20 * static_cast<double>(number), left = kWidth - kRight + 16;
    return "<polygon points=\"" + band + "\" fill=\"" + colour +
           "\" fill-opacity=\"0.15\"/>\n<polyline points=\"" + line + "\" fill=\"none\" stroke=\"" + colour +
           "\" stroke-width=\"1.8\"/>\n" + dots +
           line_at(left, legend, left + 18, legend, "stroke=\"" + colour + "\" stroke-width=\"2\"") +
           text_at(left + 24, legend + 4, "start", series_[number]);
  }

  const SweepTable& table_;
  std::vector<std::string> series_;
  std::map<double, std::string> marks_;
  double x_low_, x_high_, y_low_, y_high_, step_ = 1;
};

}  // namespace

std::string svg_of(const SweepTable& table) { return Plot(table).draw(); }

}  // namespace crumb::training
