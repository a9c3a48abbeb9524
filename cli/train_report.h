// What crumb train prints of a run's report.
#pragma once

#include <filesystem>

#include "cli/output.h"

namespace crumb::cli {

/// `report`: what training::train_into() gave. `folder`: where it wrote.
void print_train_report(const Json& report, const std::filesystem::path& folder);

}  // namespace crumb::cli
