// What crumb train prints of a run's report.
#pragma once

#include <filesystem>

#include "cli/output.h"

namespace crumb::cli {

/// `report`: what training::train_into() gave. `folder`: where it wrote.
/// Of a run that trained the float network alone.
void print_float_report(const Json& report, const std::filesystem::path& folder);

void print_train_report(const Json& report, const std::filesystem::path& folder);

}  // namespace crumb::cli
