#include "jobs/report/report_output.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/files/output_file.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "report/write.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;

/// The place, whether or not there is something, through links.
fs::path place_of(const fs::path& path) {
  std::error_code unknown;
  const fs::path place = fs::weakly_canonical(fs::absolute(path, unknown), unknown);
  return unknown ? path : place;
}

/// Whether the path is `whole`, or lies in it where that is a folder.
bool is_within(const fs::path& path, const fs::path& whole) {
  return std::mismatch(whole.begin(), whole.end(), path.begin(), path.end()).first == whole.end();
}

}  // namespace

void claim_report(const ReportFile& file, const std::vector<fs::path>& outputs, const Observer& observer) {
  if (file.path.empty()) return;
  if (!report::form_of(file.path))
    throw usage_error(observer.spelled("report") + " " + quote_text(file.path) +
                      ": a report's name ends in .html, .json or .md");
  const fs::path place = place_of(file.path);
  for (const fs::path& output : outputs)
    if (!output.empty() && is_within(place, place_of(output)))
      throw usage_error(observer.spelled("report") + " " + quote_text(file.path) +
                        " is written by this run already, as " + quote_text(output.string()));
  claim_output(file.path);
}

void write_report(const ReportFile& file, const report::Report& report) {
  if (file.path.empty()) return;
  OutputFile output(file.path);
  output.outlast_interrupts();  // a person who stops an evaluation gets the page of what was done
  output.append(report::text_of(report, *report::form_of(file.path)));
  output.commit();
}

}  // namespace crumb::jobs
