// Writes a report as a page of HTML that needs nothing else, as JSON, or as Markdown (docs/report.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "report/report.h"

namespace crumb::report {

enum class Form : std::uint8_t { kHtml, kJson, kMarkdown };

/// By the ending of the file's name: .html or .htm, .json, .md; nothing for others. Letters may be capitals.
std::optional<Form> form_of(const std::filesystem::path& path);

/// The same report gives the same bytes. Texts may hold anything: what is markup to the form is escaped, control
/// characters, marks that turn the direction of a text around, and bytes that are not UTF-8 are spelled out
/// (escape.h).
std::string text_of(const Report& report, Form form);

std::string html_of(const Report& report);
std::string markdown_of(const Report& report);
/// With "schema": kReportSchema. Texts stay as they are; bytes that are not UTF-8 become U+FFFD.
std::string json_of(const Report& report);

/// Rises when a key is removed or changes its meaning.
inline constexpr int kReportSchema = 1;

}  // namespace crumb::report
