// The flag --report, for every verb that can write a page about what came out.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/flags/flag_group.h"
#include "cli/said_command.h"
#include "jobs/report_file.h"

namespace crumb::cli {

inline void add_report_flag(CLI::App& verb, jobs::ReportFile& report) {
  verb.add_option(
          "--report", report.path,
          "Write a page about it that needs nothing else: .html to look at, the same as .json or .md (none)")
      ->type_name("FILE")
      ->group(kOutputFlags)
      ->each([&report](const std::string&) { report.command = said_command(); });
}

}  // namespace crumb::cli
