// A finished training run as a page: what crumb train and crumb recover write with --report.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "jobs/observer.h"
#include "jobs/report_file.h"

namespace crumb::training {
struct SweepTable;
}

namespace crumb::jobs {

/// Checks, before anything is read, that the report can be written, and that it is none of the files that runs write
/// into the folder. Throws usage Error. Does nothing where there is none.
void claim_training_report(const ReportFile& file, const std::filesystem::path& folder,
                           const Observer& observer);

/// `training`: the contents of report.json; null where another process writes it, and then nothing is written. The
/// folder's log gives the losses of steps, its model the histograms. `verb`: "train", "recover".
void write_training_report(const ReportFile& file, const std::string& verb,
                           const nlohmann::ordered_json& training, const std::filesystem::path& folder);

/// Of a grid of runs.
void write_training_report(const ReportFile& file, const training::SweepTable& table);

}  // namespace crumb::jobs
