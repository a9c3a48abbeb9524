#include "jobs/sweep/folder.h"

#include <chrono>
#include <cstdio>

#include "base/files/inputs.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "base/json/bounded_json.h"

namespace crumb::jobs {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kCommand = "command.json";
constexpr const char* kCells = "cells";
constexpr std::size_t kCellDigits = 3;  // the least digits of a cell's number
constexpr const char* kResults[] = {"sweep.json", "sweep.csv", "sweep.svg"};

std::string number_of(std::size_t cell) {
  char text[32];
  std::snprintf(text, sizeof text, "%03zu", cell);
  return text;
}

/// Returns the value as a message shows it.
std::string shown(const nlohmann::json& command, const std::string& flag) {
  const auto found = command.find(flag);
  return found == command.end() ? "nothing" : printable(found->dump());
}

/// Whether the path is "007.json", "007.crumb", or the unfinished file of either.
bool is_of_cell(const fs::path& path) {
  std::string name = path.filename().string();
  if (name.ends_with(".partial")) name.resize(name.size() - std::string_view(".partial").size());
  const std::size_t digits = name.find_first_not_of("0123456789");
  return digits != std::string::npos && digits >= kCellDigits &&
         (name.substr(digits) == ".json" || name.substr(digits) == ".crumb");
}

/// Removes what sweeps write there, and nothing else.
void drop(const fs::path& folder) {
  std::vector<fs::path> gone;
  for (const char* name : kResults) gone.push_back(folder / name);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / kCells, ignored))
    if (is_of_cell(entry.path())) gone.push_back(entry.path());
  gone.push_back(folder / kCommand);
  for (const fs::path& path : gone) refuse_input(path);
  for (const fs::path& path : gone) fs::remove(path);
  fs::remove(folder / kCells, ignored);  // if it is empty
}

/// Returns the command of the sweep that left the folder. Throws usage Error where no sweep wrote it.
nlohmann::json command_in(const fs::path& folder, const Observer& observer) {
  const OwnFiles own;
  Result<nlohmann::json> found = read_bounded_json((folder / kCommand).string());
  if (!found.ok() || !found.value().is_object() || !found.value().contains("MODEL") ||
      !found.value().contains("--formats"))
    throw usage_error(observer.spelled("output") + " " + quote_text(folder.string()) + " holds " + kCommand +
                      ", which no crumb sweep wrote; give another folder");
  return std::move(found.value());
}

void refuse_others_files(const fs::path& folder, const Observer& observer) {
  for (const char* name : {kResults[0], kResults[1], kResults[2], kCells}) {
    if (fs::exists(folder / name))
      throw usage_error(observer.spelled("output") + " " + quote_text(folder.string()) + " holds " + name +
                        ", which no crumb sweep wrote; give another folder");
  }
}

/// A sweep that was refused before it did anything has left none.
bool has_cells(const fs::path& folder) {
  return fs::exists(folder / kCells) && !fs::is_empty(folder / kCells);
}

/// The command's record names fields by their flags.
std::string spelled_flag(std::string flag, const Observer& observer) {
  if (!flag.starts_with("--")) return flag;
  flag.erase(0, 2);
  std::ranges::replace(flag, '-', '_');
  return observer.spelled(flag);
}

void refuse_another_command(const fs::path& folder, const nlohmann::json& found,
                            const nlohmann::json& expected, const Observer& observer) {
  std::string differs;
  const auto compare = [&](const std::string& flag) {
    if (shown(found, flag) != shown(expected, flag))
      differs += (differs.empty() ? "" : "; ") + spelled_flag(flag, observer) + " was " + shown(found, flag) +
                 " and is " + shown(expected, flag);
  };
  for (const auto& [flag, value] : expected.items()) compare(flag);
  for (const auto& [flag, value] : found.items()) {
    if (!expected.contains(flag)) compare(flag);
  }
  if (differs.empty()) return;
  throw usage_error(observer.spelled("output") + " " + quote_text(folder.string()) +
                    " holds the sweep of another command: " + differs + "; " + observer.spelled("restart") +
                    " drops it");
}

}  // namespace

Json file_identity(const fs::path& path) {
  const auto time = fs::last_write_time(path).time_since_epoch();
  return {{"path", fs::weakly_canonical(path).string()},
          {"bytes", fs::file_size(path)},
          {"changed", std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()}};
}

SweepFolder::SweepFolder(const fs::path& folder, const Json& command, bool restart, const Observer& observer)
    : folder_(folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("cannot make the folder " + quote_text(folder.string()) + ": " + error.message());
  const bool is_there = fs::exists(folder / kCommand);
  if (!is_there) refuse_others_files(folder, observer);
  const nlohmann::json left = is_there ? command_in(folder, observer) : nlohmann::json();
  result_.emplace(folder / kResults[0]);
  if (is_there && restart) drop(folder);
  if (is_there && !restart && has_cells(folder)) refuse_another_command(folder, left, command, observer);
  write_text_file(folder / kCommand, command.dump(2) + "\n");
  fs::create_directories(folder / kCells);
}

fs::path SweepFolder::file_of(std::size_t cell) const {
  return folder_ / kCells / (number_of(cell) + ".crumb");
}

fs::path SweepFolder::row_of(std::size_t cell) const {
  return folder_ / kCells / (number_of(cell) + ".json");
}

std::optional<eval::GridRow> SweepFolder::finished(std::size_t cell, bool wants_file) const {
  const fs::path path = row_of(cell);
  if (!fs::exists(path)) return {};
  const OwnFiles own;
  eval::GridRow row = eval::row_of(read_bounded_json(path.string()).take(), quote_text(path.string()));
  if (row.failed || (wants_file && !fs::exists(file_of(cell)))) return {};
  return row;
}

void SweepFolder::keep(std::size_t cell, const eval::GridRow& row) const {
  write_text_file(row_of(cell),
                  eval::json_of(row).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void SweepFolder::write(const eval::GridTable& table) {
  write_text_file(folder_ / kResults[1], eval::csv_of(table));
  write_text_file(folder_ / kResults[2], eval::svg_of(table));
  result_->append(eval::json_of(table).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  result_->commit();
}

}  // namespace crumb::jobs
