// Pieces of SVG drawings: texts and lines as elements, and ticks for axes.
#pragma once

#include <string>
#include <string_view>

namespace crumb::svg {

/// Returns a number in the form of coordinates.
std::string at(double value);

/// Escapes a text for XML, between tags and in attributes, whatever it holds: control characters and bytes
/// that are not UTF-8 become `\xNN` escapes.
std::string escaped(std::string_view text);

/// `anchor`: start, middle or end; `more`: attributes, with a space in front.
std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view more = "");

/// `style`: attributes.
std::string line_at(double x1, double y1, double x2, double y2, std::string_view style);

/// Returns the beginning of a white drawing of that size, up to its first element; "</svg>\n" ends it.
std::string begin(double width, double height);

/// Returns a step of 1, 2 or 5 times a power of ten that gives about five ticks. Precondition: span > 0.
double step_for(double span);

/// Returns how many digits after the point tell ticks at this step from each other.
int digits_for(double step);

}  // namespace crumb::svg
