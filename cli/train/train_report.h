// Prints a run's report for crumb train.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/output.h"

namespace crumb::cli {

/// `report`: what training::train_into() returned. `folder`: where it wrote. Prints a run that trained only
/// the float network.
void print_float_report(const Json& report, const std::filesystem::path& folder);

/// `told`: notes that a person has read already.
void print_train_report(const Json& report, const std::filesystem::path& folder,
                        const std::vector<std::string>& told);

}  // namespace crumb::cli
