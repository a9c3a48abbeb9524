#include "base/svg/svg.h"

#include <cmath>
#include <utility>

#include "base/files/text.h"
#include "base/text/fixed.h"

namespace crumb::svg {

std::string at(double value) { return fixed(value, 2); }

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  // XML has no such characters, though UTF-8 has them.
  for (const auto& [character, words] :
       {std::pair("\xef\xbf\xbe", "\\xef\\xbf\\xbe"), {"\xef\xbf\xbf", "\\xef\\xbf\\xbf"}}) {
    for (std::size_t found = safe.find(character); found != std::string::npos; found = safe.find(character))
      safe.replace(found, 3, words);
  }
  return safe;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view more) {
  return "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\" text-anchor=\"" + std::string(anchor) + "\"" +
         std::string(more) + ">" + escaped(text) + "</text>\n";
}

std::string line_at(double x1, double y1, double x2, double y2, std::string_view style) {
  return "<line x1=\"" + at(x1) + "\" y1=\"" + at(y1) + "\" x2=\"" + at(x2) + "\" y2=\"" + at(y2) + "\" " +
         std::string(style) + "/>\n";
}

std::string begin(double width, double height) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + at(width) + " " + at(height) +
         "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n";
}

double step_for(double span) {
  const double raw = span / 5, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

int digits_for(double step) { return step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9)); }

}  // namespace crumb::svg
