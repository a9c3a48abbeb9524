#include "jobs/training_report.h"

#include "jobs/report/report_output.h"
#include "jobs/report/training_page.h"
#include "jobs/sweep/folder.h"
#include "training/run_folder.h"

namespace crumb::jobs {

void claim_training_report(const ReportFile& file, const std::filesystem::path& folder,
                           const Observer& observer) {
  std::vector<std::filesystem::path> outputs;
  for (const auto& names :
       {training::kLanguageFiles, training::kTaskFiles, training::kFloatFiles, kSweepFiles})
    for (const std::filesystem::path& output : outputs_in(folder, names)) outputs.push_back(output);
  for (const char* inside : {"adapter", "points"}) outputs.push_back(folder / inside);
  claim_report(file, outputs, observer);
}

void write_training_report(const ReportFile& file, const std::string& verb,
                           const nlohmann::ordered_json& training, const std::filesystem::path& folder) {
  if (file.path.empty() || training.is_null()) return;
  write_report(file, training_page(file, verb, training, folder));
}

void write_training_report(const ReportFile& file, const training::SweepTable& table) {
  if (!file.path.empty()) write_report(file, training_page(file, table));
}

}  // namespace crumb::jobs
