// What pages about results have in common. Internal to jobs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "jobs/report_file.h"
#include "report/report.h"

namespace crumb::jobs {

/// A page of that verb, with what made it and the command.
report::Report begin_page(const std::string& kind, std::string title, const ReportFile& file);

/// The name behind the last slash.
std::string file_name(const std::string& path);

/// A number with that many digits behind the point; an empty cell where it is NaN.
report::Cell number_cell(double value, int digits);
report::Cell count_cell(std::uint64_t count);
/// "90.87 MB", sorted by bytes.
report::Cell bytes_cell(std::uint64_t bytes);

/// What sizes along an axis are counted in.
struct SizeUnit {
  std::string name;  ///< kB, MB or GB
  double bytes = 1;
};
SizeUnit size_unit(const std::vector<std::optional<std::uint64_t>>& sizes);

/// SQNR in dB: "equal" where it is infinite, an empty cell where it is NaN.
report::Cell sqnr_cell(double sqnr_db);

/// Bytes of a model's file, of an ONNX file with the data beside it, of a folder's tensors; nothing where that is
/// unknown.
std::optional<std::uint64_t> model_bytes(const std::string& path);

}  // namespace crumb::jobs
