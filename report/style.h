// What every page has inside: its style and its script.
#pragma once

#include <string_view>

namespace crumb::report {

/// CSS: light and dark as the reader's system has it, telephones, desks and paper.
std::string_view style();

/// JavaScript that sorts tables. The page allows this text alone to run, by kScriptHash.
std::string_view script();

/// "sha256-Xey4gemiyGB3xYDLHIZnUPxInrOOW3DyL7ymZ3OYMhs=" of script(), for the page's policy; tests/report/test_report.py compares it.
inline constexpr std::string_view kScriptHash = "sha256-Xey4gemiyGB3xYDLHIZnUPxInrOOW3DyL7ymZ3OYMhs=";

}  // namespace crumb::report
