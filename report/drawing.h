// Charts and histograms as SVG inside a page, whose style (style.cpp) gives them their colours, in light and dark.
#pragma once

#include <string>

#include "report/report.h"

namespace crumb::report {

/// `id`: of the drawing's title, for readers of screens.
std::string svg_of(const Chart& chart, const std::string& id);

/// A small one, as wide as what holds it. `what`: "codes", for readers of screens.
std::string svg_of(const Histogram& histogram, const std::string& what);

}  // namespace crumb::report
