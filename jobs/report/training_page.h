// What training made, as a page. Internal to jobs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "jobs/report_file.h"
#include "report/report.h"
#include "training/table.h"

namespace crumb::jobs {

/// Of a run's report.json, and what else lies in its folder.
report::Report training_page(const ReportFile& file, const std::string& verb,
                             const nlohmann::ordered_json& training, const std::filesystem::path& folder);

/// Of a grid of runs.
report::Report training_page(const ReportFile& file, const training::SweepTable& table);

}  // namespace crumb::jobs
