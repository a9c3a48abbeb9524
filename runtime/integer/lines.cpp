#include "runtime/integer/lines.h"

#include <algorithm>
#include <cmath>

namespace crumb::runtime::integer {
namespace {

/// The thresholds that some sums reach.
struct Real {
  std::size_t before = 0;  ///< thresholds that every sum reaches
  std::span<const std::int32_t> at;
};

Real real_of(std::span<const std::int32_t> thresholds) {
  const auto first = std::ranges::find_if(thresholds, [](std::int32_t t) { return t != kAlways; });
  const auto behind = std::find(first, thresholds.end(), kNever);
  return {static_cast<std::size_t>(first - thresholds.begin()), {first, behind}};
}

bool agrees(const Line& line, const Real& real) {
  for (std::size_t k = 0; k < real.at.size(); ++k) {
    const auto reached = static_cast<std::int32_t>(real.before + k);
    // Of equal thresholds a sum reaches all or none.
    const bool is_first = k == 0 || real.at[k - 1] != real.at[k];
    const bool is_last = k + 1 == real.at.size() || real.at[k + 1] != real.at[k];
    if (is_first && line.reached(real.at[k] - 1) != reached) return false;
    if (is_last && line.reached(real.at[k]) != reached + 1) return false;
  }
  return true;
}

/// Steps at offsets start + k * step, which should lie in [at[k] - 1, at[k]].
struct Places {
  double start = 0, step = 0;
};

/// The range that a step width leaves for the start: from `low`, which offset `by_low` asks for, to `high`.
struct Room {
  double low = -INFINITY, high = INFINITY;
  std::size_t by_low = 0, by_high = 0;
};

Room room_of(const Real& real, double step) {
  Room room;
  for (std::size_t k = 0; k < real.at.size(); ++k) {
    const double high = real.at[k] - step * static_cast<double>(k);
    if (high - 1 > room.low) room.low = high - 1, room.by_low = k;
    if (high < room.high) room.high = high, room.by_high = k;
  }
  return room;
}

std::optional<Line> line_of(const Real& real, const Places& places) {
  const auto before = static_cast<double>(real.before);
  Line line{.slope = 1 / places.step, .least = before, .most = before + static_cast<double>(real.at.size())};
  line.offset = before + 0.5 - places.start / places.step;
  if (agrees(line, real)) return line;
  line.magic = Line::kOdd;
  if (agrees(line, real)) return line;
  return std::nullopt;
}

std::optional<Line> line_of(const Real& real) {
  const std::size_t count = real.at.size();
  const auto before = static_cast<double>(real.before);
  if (count == 0) return Line{.offset = before, .least = before, .most = before};
  if (count == 1) return line_of(real, {real.at[0] - 0.5, 1});
  // A step width is too small or too large where two offsets leave no common start; each such pair excludes
  // part of the widths.
  const double reach = static_cast<double>(real.at.back()) - real.at.front();
  double low = std::max(0.0, (reach - 1) / static_cast<double>(count - 1)),
         high = (reach + 1) / static_cast<double>(count - 1);
  constexpr int kMostCuts = 64;
  for (int cut = 0; cut < kMostCuts && low <= high; ++cut) {
    const double step = (low + high) / 2;
    const Room room = room_of(real, step);
    if (room.low <= room.high) return line_of(real, {(room.low + room.high) / 2, step});
    const double limit = (static_cast<double>(real.at[room.by_low]) - 1 - real.at[room.by_high]) /
                         (static_cast<double>(room.by_low) - static_cast<double>(room.by_high));
    if (room.by_low > room.by_high) {
      low = std::max(limit, std::nextafter(step, high));
    } else {
      high = std::min(limit, std::nextafter(step, low));
    }
  }
  return std::nullopt;
}

/// The most thresholds from the first on that a line gives, and that line; of two or more thresholds.
std::size_t longest_stretch(const Real& real, Line& line) {
  std::size_t fits = 0, fails = real.at.size();  // all of them have no line
  while (fits + 1 < fails) {
    const std::size_t middle = fits + (fails - fits) / 2;
    const auto found = line_of(Real{real.before, real.at.first(middle)});
    (found ? fits : fails) = middle;
    if (found) line = *found;
  }
  return fits;
}

}  // namespace

std::int32_t Line::reached(std::int32_t sum) const {
  double v = static_cast<double>(sum) * slope + offset;
  v = v > least ? v : least;
  v = v < most ? v : most;
  return static_cast<std::int32_t>((v + magic) - magic);
}

std::optional<Line> line_of(std::span<const std::int32_t> thresholds) { return line_of(real_of(thresholds)); }

std::vector<Line> lines_of(std::span<const std::int32_t> thresholds) {
  std::vector<Line> lines;
  Real rest = real_of(thresholds);
  while (lines.size() < kMostPieces) {
    if (const auto all = line_of(rest)) {
      lines.push_back(*all);
      return lines;
    }
    Line line;
    const std::size_t count = longest_stretch(rest, line);
    if (count == 0) return {};
    lines.push_back(line);
    rest = {0, rest.at.subspan(count)};
  }
  return {};
}

}  // namespace crumb::runtime::integer
