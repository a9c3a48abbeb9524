#include "analysis/draw/svg.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "base/files/text.h"

namespace crumb::analysis {
namespace {

constexpr std::size_t kNotDrawn = ~std::size_t{0};
constexpr std::size_t kLongest = 46;  // characters of a line
constexpr double kMargin = 24, kPad = 10, kHeader = 64;
constexpr double kTitleLine = 18, kSmallLine = 15;
constexpr double kTitleChar = 7.9, kSmallChar = 6.7;  // widths in the fonts below, with a little room

/// Characters, not bytes.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// At most kLongest characters, the end of them: that is where names differ.
std::string shortened_line(const std::string& text) {
  std::string all = printable(text);
  std::size_t left = length_of(all);
  if (left <= kLongest) return all;
  std::size_t cut = 0;
  while (left >= kLongest) {
    ++cut;
    while (cut < all.size() && (static_cast<unsigned char>(all[cut]) & 0xC0) == 0x80) ++cut;
    --left;
  }
  return "…" + all.substr(cut);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f", value);
  std::string text = buffer;
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

/// One line of a box or label.
struct Line {
  enum class Style { kTitle, kSmall, kRule };
  std::string text;
  Style style = Style::kSmall;

  double height() const {
    return style == Style::kTitle ? kTitleLine : style == Style::kSmall ? kSmallLine : 7;
  }
  double width() const {
    return static_cast<double>(length_of(text)) * (style == Style::kTitle ? kTitleChar : kSmallChar);
  }
};

std::vector<Line> lines_of(const Box& box) {
  std::vector<Line> lines;
  for (std::size_t i = 0; i < box.steps.size(); ++i) {
    const Step& step = box.steps[i];
    if (i > 0) lines.push_back({"", Line::Style::kRule});
    if (box.left_out > 0 && i == Box::kHead) {
      lines.push_back({"… " + std::to_string(box.left_out) + " more …"});
      lines.push_back({"", Line::Style::kRule});
    }
    if (box.kind == Box::Kind::kOperators) {
      lines.push_back({shortened_line(step.op), Line::Style::kTitle});
      if (!step.name.empty() && step.name != step.op) lines.push_back({shortened_line(step.name)});
    } else {
      lines.push_back({shortened_line(step.name), Line::Style::kTitle});
      lines.push_back({step.op});
    }
    for (const std::string& parameter : step.parameters) lines.push_back({shortened_line(parameter)});
    if (!step.shape.empty() && i + 1 < box.steps.size()) lines.push_back({"→ " + shortened_line(step.shape)});
  }
  return lines;
}

LayoutItem size_of(const std::vector<Line>& lines) {
  LayoutItem item{.width = 60, .height = 8};
  for (const Line& line : lines) {
    item.width = std::max(item.width, line.width() + 2 * kPad);
    item.height += line.height();
  }
  return item;
}

LayoutItem size_of(const Wire& wire) {
  double longest = static_cast<double>(length_of(shortened_line(wire.shape)));
  for (const QuantizerLabel& label : wire.quantizers) {
    longest = std::max(longest, static_cast<double>(length_of(shortened_line(label.text))) + 1);
  }
  return {.width = longest * kSmallChar + 8,
          .height = 17.0 * static_cast<double>(wire.quantizers.size()) + kSmallLine};
}

struct Colour {
  const char* code;
  const char* what;
};

Colour colour_of(const QuantizerLabel& label) {
  if (label.is_float) return {"#8e44ad", "small float"};
  if (label.bits == 0) return {"#7f8c8d", "bits not known"};
  constexpr std::array<Colour, 8> kColours = {{{"#c0392b", "1 bit"},
                                               {"#d35400", "2 bits"},
                                               {"#b7950b", "3 bits"},
                                               {"#6b8e23", "4 bits"},
                                               {"#1e8449", "5 bits"},
                                               {"#138d75", "6 bits"},
                                               {"#117a8b", "7 bits"},
                                               {"#2471a3", "8 bits"}}};
  if (label.bits <= 8) return kColours[static_cast<std::size_t>(label.bits - 1)];
  return {"#34495e", "more than 8 bits"};
}

class SvgDrawing {
 public:
  SvgDrawing(const Picture& picture, const std::string& title)
      : picture_(picture),
        scene_(scene_of(picture)),
        layout_(lay_out(scene_.items, scene_.edges)),
        title_(title) {}

  std::string run() {
    const auto legend = legend_entries();
    double legend_width = 0;
    for (const auto& [code, what] : legend)
      legend_width += 40 + kSmallChar * static_cast<double>(what.size());
    const double title_width = kTitleChar * static_cast<double>(length_of(shortened_line(title_)));
    const double width = std::max({layout_.width, legend_width, title_width}) + 2 * kMargin;
    const double height = layout_.height + kHeader + 2 * kMargin;
    shift_ = (width - layout_.width) / 2;
    add("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width) + "\" height=\"" +
        number(height) + "\" viewBox=\"0 0 " + number(width) + " " + number(height) + "\">");
    add("<title>" + escaped(title_) + "</title>");
    add("<style>text{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#222}"
        ".t{font-size:13px;font-weight:bold}.s{font-size:11px;fill:#555}.q{font-size:11px;fill:#fff}"
        ".b{fill:#fff;stroke:#456;stroke-width:1}.m{fill:#eaf2fb;stroke:#456;stroke-width:1}"
        ".c{text-anchor:middle}.i{fill:#eef7ee;stroke:#456;stroke-width:1}.l{fill:none}</style>");
    add("<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
        "markerHeight=\"7\" "
        "markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
        "fill=\"#456\"/></marker></defs>");
    add("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
    text(kMargin, kMargin + 6, "t", shortened_line(title_));
    double x = kMargin;
    for (const auto& [code, what] : legend) {
      add("<path class=\"l\" d=\"M" + number(x) + " " + number(kMargin + 26) + "h22\" stroke=\"" + code +
          "\" stroke-width=\"" + (what == "not quantized" ? "1.2" : "3") + "\"/>");
      text(x + 27, kMargin + 30, "s", what);
      x += 40 + kSmallChar * static_cast<double>(what.size());
    }
    for (std::size_t i = 0; i < scene_.edges.size(); ++i) edge(i);
    for (std::size_t i = 0; i < scene_.items.size(); ++i) {
      scene_.box[i] != kNotDrawn ? box(i) : label(i);
    }
    add("</svg>");
    return std::move(out_);
  }

 private:
  void add(const std::string& line) { out_ += line + "\n"; }

  void text(double x, double y, const char* style, const std::string& content) {
    add("<text class=\"" + std::string(style) + "\" x=\"" + number(x) + "\" y=\"" + number(y) + "\">" +
        escaped(content) + "</text>");
  }

  Point at(Point point) const { return {point.x + shift_, point.y + kMargin + kHeader}; }

  std::vector<std::pair<std::string, std::string>> legend_entries() const {
    std::map<std::pair<int, std::string>, std::string> found;  // sorted by bits
    bool plain = false;
    for (const Wire& wire : picture_.wires) {
      plain |= wire.quantizers.empty();
      for (const QuantizerLabel& label : wire.quantizers) {
        const Colour colour = colour_of(label);
        found[{label.is_float ? 100 : std::min(label.bits, 9), colour.what}] = colour.code;
      }
    }
    std::vector<std::pair<std::string, std::string>> entries;
    entries.reserve(found.size() + 1);
    for (const auto& [key, code] : found) entries.emplace_back(code, key.second);
    if (plain) entries.emplace_back("#99a", "not quantized");
    return entries;
  }

  void edge(std::size_t i) {
    const LayoutEdge& line = scene_.edges[i];
    const bool to_label = scene_.wire[line.to] != kNotDrawn;
    const Wire& wire = picture_.wires[scene_.wire[to_label ? line.to : line.from]];
    const bool coloured = !to_label && !wire.quantizers.empty();
    std::string path;
    const auto& points = layout_.routes[i];
    for (std::size_t k = 0; k < points.size(); ++k) {
      const Point p = at(points[k]);
      if (k == 0) {
        path = "M" + number(p.x) + " " + number(p.y);
      } else if (k % 2 == 1) {
        if (p.y > at(points[k - 1]).y) path += "V" + number(p.y);
      } else {
        const Point before = at(points[k - 1]);
        const double middle = (before.y + p.y) / 2;
        path += "C" + number(before.x) + " " + number(middle) + " " + number(p.x) + " " + number(middle) +
                " " + number(p.x) + " " + number(p.y);
      }
    }
    add("<path class=\"l\" d=\"" + path + "\" stroke=\"" +
        (coloured ? colour_of(wire.quantizers.back()).code : "#99a") + "\" stroke-width=\"" +
        (coloured ? "3" : "1.2") + "\"" + (to_label ? "" : " marker-end=\"url(#arrow)\"") + "/>");
  }

  void box(std::size_t i) {
    const Box& shown = picture_.boxes[scene_.box[i]];
    const LayoutItem& size = scene_.items[i];
    const Point corner = at(layout_.corners[i]);
    const bool multiplies = std::ranges::any_of(shown.steps, &Step::multiplies);
    const char* style = shown.kind != Box::Kind::kOperators ? "i" : multiplies ? "m" : "b";
    std::string names;
    for (const Step& step : shown.steps) names += (names.empty() ? "" : ", ") + step.op + " " + step.name;
    add("<g><title>" + escaped(names) + "</title>");
    add("<rect class=\"" + std::string(style) + "\" x=\"" + number(corner.x) + "\" y=\"" + number(corner.y) +
        "\" width=\"" + number(size.width) + "\" height=\"" + number(size.height) + "\" rx=\"" +
        (shown.kind == Box::Kind::kOperators ? "4" : "14") + "\"/>");
    double y = corner.y + 4;
    for (const Line& line : lines_of(shown)) {
      y += line.height();
      if (line.style == Line::Style::kRule) {
        add("<path d=\"M" + number(corner.x) + " " + number(y - 3) + "h" + number(size.width) +
            "\" stroke=\"#cdd\" stroke-width=\"1\"/>");
      } else {
        text(corner.x + kPad, y - 4, line.style == Line::Style::kTitle ? "t" : "s", line.text);
      }
    }
    add("</g>");
  }

  void label(std::size_t i) {
    const Wire& wire = picture_.wires[scene_.wire[i]];
    const LayoutItem& size = scene_.items[i];
    const Point corner = at(layout_.corners[i]);
    add("<rect x=\"" + number(corner.x) + "\" y=\"" + number(corner.y) + "\" width=\"" + number(size.width) +
        "\" height=\"" + number(size.height) + "\" fill=\"#fff\"/>");
    double y = corner.y;
    for (const QuantizerLabel& quantizer : wire.quantizers) {
      add("<rect x=\"" + number(corner.x) + "\" y=\"" + number(y) + "\" width=\"" + number(size.width) +
          "\" height=\"16\" rx=\"8\" fill=\"" + colour_of(quantizer).code + "\"/>");
      text(corner.x + size.width / 2, y + 12, "q c", shortened_line(quantizer.text));
      y += 17;
    }
    text(corner.x + size.width / 2, y + 11, "s c", shortened_line(wire.shape));
  }

  const Picture& picture_;
  Scene scene_;
  Layout layout_;
  std::string title_, out_;
  double shift_ = 0;
};

}  // namespace

Scene scene_of(const Picture& picture) {
  std::vector<std::vector<std::size_t>> leaving(picture.boxes.size());
  for (std::size_t i = 0; i < picture.wires.size(); ++i) leaving[picture.wires[i].from].push_back(i);
  Scene scene;
  std::vector<std::size_t> item_of(picture.boxes.size());
  std::vector<std::size_t> label_of(picture.wires.size());
  for (std::size_t i = 0; i < picture.boxes.size(); ++i) {
    item_of[i] = scene.items.size();
    scene.items.push_back(size_of(lines_of(picture.boxes[i])));
    scene.box.push_back(i);
    scene.wire.push_back(kNotDrawn);
    for (const std::size_t wire : leaving[i]) {
      label_of[wire] = scene.items.size();
      scene.items.push_back(size_of(picture.wires[wire]));
      scene.box.push_back(kNotDrawn);
      scene.wire.push_back(wire);
      scene.edges.push_back({item_of[i], label_of[wire]});
    }
  }
  for (std::size_t i = 0; i < picture.wires.size(); ++i) {
    for (const std::size_t to : picture.wires[i].to) scene.edges.push_back({label_of[i], item_of[to]});
  }
  std::ranges::stable_sort(scene.edges, {}, &LayoutEdge::from);
  return scene;
}

std::string draw_svg(const Picture& picture, const std::string& title) {
  return SvgDrawing(picture, title).run();
}

}  // namespace crumb::analysis
