// The file of a job's report. Internal to jobs.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <vector>

#include "jobs/observer.h"
#include "jobs/report_file.h"
#include "report/report.h"

namespace crumb::jobs {

/// What a job writes into a folder that keeps its files, for claim_report().
inline std::vector<std::filesystem::path> outputs_in(const std::filesystem::path& folder,
                                                     std::initializer_list<const char*> names) {
  std::vector<std::filesystem::path> outputs;
  for (const char* name : names) outputs.push_back(folder / name);
  return outputs;
}

/// Checks, before anything is read, that the report can be written, and keeps it apart from inputs. Throws usage
/// Error for an unknown ending, and where it is one of the job's other `outputs` or lies in one that is written as a
/// whole folder. Does nothing where there is none.
void claim_report(const ReportFile& file, const std::vector<std::filesystem::path>& outputs,
                  const Observer& observer);

/// Writes it, all or nothing. Does nothing where there is none. Throws Error.
void write_report(const ReportFile& file, const report::Report& report);

}  // namespace crumb::jobs
