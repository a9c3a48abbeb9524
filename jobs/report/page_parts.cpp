#include "jobs/report/page_parts.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "base/error.h"
#include "base/text/fixed.h"
#include "graph/onnx/read.h"
#include "quant/tensor_source.h"

namespace crumb::jobs {
namespace {

namespace fs = std::filesystem;

std::string bytes_text(double bytes) {
  constexpr double kKilo = 1e3, kMega = 1e6, kGiga = 1e9;
  if (bytes < kKilo) return fixed(bytes, 0) + " bytes";
  if (bytes < kMega) return fixed(bytes / kKilo, 1) + " kB";
  return bytes < 10 * kGiga ? fixed(bytes / kMega, 2) + " MB" : fixed(bytes / kGiga, 2) + " GB";
}

}  // namespace

report::Report begin_page(const std::string& kind, std::string title, const ReportFile& file) {
  report::Report page{.kind = kind, .title = std::move(title)};
  if (!file.command.empty()) page.commands.push_back(file.command);
  page.made_with.emplace_back("crumb", CRUMB_VERSION);
  return page;
}

std::string file_name(const std::string& path) {
  const fs::path whole(path);
  const fs::path name = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  return name.empty() ? path : name.string();
}

report::Cell number_cell(double value, int digits) {
  return std::isnan(value) ? report::Cell() : report::Cell(fixed(value, digits), value);
}

report::Cell count_cell(std::uint64_t count) { return {std::to_string(count), static_cast<double>(count)}; }

report::Cell bytes_cell(std::uint64_t bytes) {
  const auto number = static_cast<double>(bytes);
  return {bytes_text(number), number};
}

SizeUnit size_unit(const std::vector<std::optional<std::uint64_t>>& sizes) {
  std::uint64_t largest = 0;
  for (const std::optional<std::uint64_t>& size : sizes) largest = std::max(largest, size.value_or(0));
  if (largest < 1'000'000) return {"kB", 1e3};
  return largest < 10'000'000'000 ? SizeUnit{"MB", 1e6} : SizeUnit{"GB", 1e9};
}

report::Cell sqnr_cell(double sqnr_db) {
  return std::isinf(sqnr_db) && sqnr_db > 0 ? report::Cell("equal", sqnr_db) : number_cell(sqnr_db, 2);
}

std::optional<std::uint64_t> model_bytes(const std::string& path) {
  std::error_code unknown;
  if (fs::is_directory(path, unknown)) {
    try {
      return TensorSource::open(path).bytes();
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  const auto own = fs::file_size(path, unknown);
  if (unknown) return std::nullopt;
  if (fs::path(path).extension() != ".onnx") return own;
  const auto beside = fs::file_size(fs::path(path).parent_path() / graph::data_file_of(path), unknown);
  return unknown ? own : own + beside;
}

}  // namespace crumb::jobs
