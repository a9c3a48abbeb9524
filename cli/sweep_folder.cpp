#include "cli/sweep_folder.h"

#include <chrono>
#include <cstdio>

#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/files/write_text_file.h"
#include "base/json/bounded_json.h"

namespace crumb::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommand = "command.json";
constexpr const char* kCells = "cells";
constexpr const char* kResults[] = {"sweep.json", "sweep.csv", "sweep.svg"};

std::string number_of(std::size_t cell) {
  char text[32];
  std::snprintf(text, sizeof text, "%03zu", cell);
  return text;
}

/// The value as a message shows it.
std::string shown(const nlohmann::json& command, const std::string& flag) {
  const auto found = command.find(flag);
  return found == command.end() ? "nothing" : printable(found->dump());
}

void drop(const fs::path& folder) {
  for (const char* name : kResults) fs::remove(folder / name);
  fs::remove_all(folder / kCells);
  fs::remove(folder / kCommand);
}

void refuse_others_files(const fs::path& folder) {
  for (const char* name : {kResults[0], kResults[1], kResults[2], kCells}) {
    if (fs::exists(folder / name))
      throw usage_error("-o " + quote_text(folder.string()) + " holds " + name +
                        ", which no crumb sweep wrote; give another folder");
  }
}

/// One that was refused itself before anything was done has left none.
bool has_cells(const fs::path& folder) {
  return fs::exists(folder / kCells) && !fs::is_empty(folder / kCells);
}

void refuse_another_command(const fs::path& folder, const nlohmann::json& found,
                            const nlohmann::json& expected) {
  std::string differs;
  const auto compare = [&](const std::string& flag) {
    if (shown(found, flag) != shown(expected, flag))
      differs += (differs.empty() ? "" : "; ") + flag + " was " + shown(found, flag) + " and is " +
                 shown(expected, flag);
  };
  for (const auto& [flag, value] : expected.items()) compare(flag);
  for (const auto& [flag, value] : found.items()) {
    if (!expected.contains(flag)) compare(flag);
  }
  if (differs.empty()) return;
  throw usage_error("-o " + quote_text(folder.string()) + " holds the sweep of another command: " + differs +
                    "; --restart drops it");
}

}  // namespace

Json file_identity(const fs::path& path) {
  const auto time = fs::last_write_time(path).time_since_epoch();
  return {{"path", fs::weakly_canonical(path).string()},
          {"bytes", fs::file_size(path)},
          {"changed", std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()}};
}

SweepFolder::SweepFolder(const fs::path& folder, const Json& command, bool restart) : folder_(folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("cannot make the folder " + quote_text(folder.string()) + ": " + error.message());
  const bool is_there = fs::exists(folder / kCommand);
  if (!is_there) refuse_others_files(folder);
  result_.emplace(folder / kResults[0]);
  if (is_there && restart) drop(folder);
  if (is_there && !restart && has_cells(folder))
    refuse_another_command(folder, read_bounded_json((folder / kCommand).string()).take(), command);
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

}  // namespace crumb::cli
