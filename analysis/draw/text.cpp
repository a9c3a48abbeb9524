#include "analysis/draw/text.h"

#include <algorithm>
#include <optional>

#include "base/files/text.h"

namespace crumb::analysis {
namespace {

constexpr std::size_t kMostLanes = 40;
constexpr std::size_t kLongestName = 60;

/// The end of a long name says more than its beginning.
std::string shortened(const std::string& name) {
  std::string text = printable(name);
  if (text.size() <= kLongestName) return text;
  std::size_t cut = text.size() - kLongestName;
  while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) ++cut;
  return "…" + text.substr(cut);
}

std::string step_text(const Box& box, const Step& step) {
  std::string text = printable(step.op);
  if (box.kind != Box::Kind::kOperators || (!step.name.empty() && step.name != step.op)) {
    text += "  " + shortened(step.name);
  }
  for (const std::string& parameter : step.parameters) text += "  " + printable(parameter);
  if (!step.shape.empty()) text += "  -> " + printable(step.shape);
  return text;
}

class TextDrawing {
 public:
  explicit TextDrawing(const Picture& picture) : picture_(picture) {
    in_.resize(picture.boxes.size());
    out_.resize(picture.boxes.size());
    lane_of_.resize(picture.wires.size());
    for (std::size_t i = 0; i < picture.wires.size(); ++i) {
      const Wire& wire = picture.wires[i];
      out_[wire.from].push_back(i);
      for (const std::size_t to : wire.to) {
        if (in_[to].empty() || in_[to].back() != i) in_[to].push_back(i);
      }
    }
  }

  std::string run() {
    for (std::size_t box = 0; box < picture_.boxes.size(); ++box) draw(box);
    return std::move(text_);
  }

 private:
  struct Mark {
    std::size_t lane;
    const char* sign;
  };

  /// A row of all open lanes, with `marks` instead of some, and text behind them.
  void row(const std::vector<Mark>& marks, const std::string& text,
           std::optional<std::pair<std::size_t, std::size_t>> bar = {}) {
    std::size_t width = lanes_.size();
    for (const Mark& mark : marks) width = std::max(width, mark.lane + 1);
    std::string line;
    for (std::size_t lane = 0; lane < std::min(width, kMostLanes); ++lane) {
      const bool within = bar && lane >= bar->first && lane < bar->second;
      const bool open = lane < lanes_.size() && lanes_[lane];
      const auto mark = std::ranges::find(marks, lane, &Mark::lane);
      const char* sign = open ? "│" : (bar && lane > bar->first && lane < bar->second) ? "─" : " ";
      line += mark != marks.end() ? mark->sign : sign;
      line += within ? "─" : " ";
    }
    if (width > kMostLanes) line += "… ";
    line += text;
    while (line.ends_with(' ')) line.pop_back();
    text_ += line + "\n";
  }

  std::size_t free_lane() {
    const auto found = std::ranges::find(lanes_, false);
    if (found != lanes_.end()) return static_cast<std::size_t>(found - lanes_.begin());
    lanes_.push_back(false);
    return lanes_.size() - 1;
  }

  void draw(std::size_t box) {
    const std::size_t own = join(box);
    bool first = true;
    const Box& shown = picture_.boxes[box];
    for (std::size_t i = 0; i < shown.steps.size(); ++i) {
      if (shown.left_out > 0 && i == Box::kHead) {
        row({{own, "┊"}}, "… " + std::to_string(shown.left_out) + " more");
      }
      row({{own, first ? "●" : "┃"}}, step_text(shown, shown.steps[i]));
      first = false;
    }
    lanes_[own] = false;
    part(box, own);
    trim();
  }

  void trim() {
    while (!lanes_.empty() && !lanes_.back()) lanes_.pop_back();
  }

  /// Brings the lanes that end in the box together; the box's own lane.
  std::size_t join(std::size_t box) {
    std::vector<std::size_t> ending, going_on;
    for (const std::size_t wire : in_[box]) {
      (picture_.wires[wire].to.back() == box ? ending : going_on).push_back(lane_of_[wire]);
    }
    std::ranges::sort(ending);
    const std::size_t own = ending.empty() ? free_lane() : ending.front();
    std::vector<Mark> marks;
    std::size_t low = own, high = own;
    for (const auto* lanes : {&ending, &going_on}) {
      for (const std::size_t lane : *lanes) {
        low = std::min(low, lane);
        high = std::max(high, lane);
      }
    }
    const bool fresh = ending.empty();
    if (low != high) {
      const auto corner = [&](std::size_t lane, bool above, bool below) {
        const bool left = lane > low, right = lane < high;
        if (above && below) return left && right ? "┼" : left ? "┤" : "├";
        if (above) return left && right ? "┴" : left ? "╯" : "╰";
        return left && right ? "┬" : left ? "╮" : "╭";
      };
      for (const std::size_t lane : ending) marks.push_back({lane, corner(lane, true, lane == own)});
      for (const std::size_t lane : going_on) marks.push_back({lane, corner(lane, true, true)});
      if (fresh) marks.push_back({own, corner(own, false, true)});
      row(marks, "", std::pair(low, high));
    }
    for (const std::size_t lane : ending) lanes_[lane] = false;
    lanes_[own] = true;
    trim();
    return own;
  }

  /// Lanes for what the box makes, and what is said of each.
  void part(std::size_t box, std::size_t own) {
    std::vector<std::size_t> lanes;
    for (std::size_t i = 0; i < out_[box].size(); ++i) {
      const std::size_t lane = i == 0 ? own : free_lane();
      lane_of_[out_[box][i]] = lane;
      lanes_[lane] = true;
      lanes.push_back(lane);
    }
    if (lanes.size() > 1) {
      std::vector<Mark> marks;
      const auto [low, high] = std::ranges::minmax(lanes);
      for (const std::size_t lane : lanes) {
        const bool left = lane > low, right = lane < high;
        const char* sign = lane == own ? (left && right ? "┼"
                                          : left        ? "┤"
                                                        : "├")
                                       : (left && right ? "┬"
                                          : left        ? "╮"
                                                        : "╭");
        marks.push_back({lane, sign});
      }
      row(marks, "", std::pair(low, high));
    }
    for (const std::size_t wire : out_[box]) label(wire, lanes.size() > 1);
  }

  void label(std::size_t index, bool one_of_many) {
    const Wire& wire = picture_.wires[index];
    std::string text;
    for (const QuantizerLabel& quantizer : wire.quantizers) text += "-> " + quantizer.text + " ";
    text += (text.empty() ? "" : "-> ") + printable(wire.shape);
    if (wire.to.size() > 1) text += "  (used " + std::to_string(wire.to.size()) + " times)";
    std::vector<Mark> marks;
    if (one_of_many) marks.push_back({lane_of_[index], "▾"});
    row(marks, text);
  }

  const Picture& picture_;
  std::vector<std::vector<std::size_t>> in_, out_;  // wires of each box
  std::vector<std::size_t> lane_of_;                // of each wire
  std::vector<bool> lanes_;                         // open ones
  std::string text_;
};

}  // namespace

std::string draw_text(const Picture& picture) { return TextDrawing(picture).run(); }

}  // namespace crumb::analysis
