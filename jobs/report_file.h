// Where a job's report is written, beside its output: a page to look at, or the same as JSON or Markdown.
#pragma once

#include <string>

namespace crumb::jobs {

/// The form follows the ending: .html, .json (docs/report.md) or .md. Like every output it appears whole or not at
/// all, and never replaces an input.
struct ReportFile {
  std::string path = {};     ///< "": none
  std::string command = {};  ///< how a person asked for the job, for the page's end; "": not said
};

}  // namespace crumb::jobs
