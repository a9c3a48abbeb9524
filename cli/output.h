// Formats what verbs print: JSON numbers, sizes for people, tables, progress.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/numbers.h"
#include "base/seconds.h"
#include "base/text/fixed.h"
#include "cli/progress_text.h"
#include "formats/checkpoint/checkpoint.h"
#include "formats/stored_tensor.h"

namespace crumb::cli {

using Json = nlohmann::ordered_json;

/// Prints an object, indented, and a newline.
void print_json(const Json& json);

/// Returns "90.87 MB"; MB = 10^6 bytes.
std::string megabytes(uint64_t bytes);
std::string short_bytes(uint64_t bytes);  ///< "40 bytes", "61.4 kB", "90.87 MB"

/// Prints rows of cells under a head, columns aligned: numbers to the right, words to the left. Escapes
/// control characters in cells, so that no cell steers a terminal.
void print_table(std::vector<std::vector<std::string>> rows);

/// Shows on stderr the progress of long work whose pieces are alike.
class Progress {
 public:
  /// `what` is being done to `total_items` items of `total_bytes` in all (0: bytes are not shown).
  Progress(std::string what, std::string items, size_t total_items, uint64_t total_bytes);

  void update(size_t items, uint64_t bytes);
  /// What more is known; seconds of 0 are those since this was made. `now`: whenever the last was shown.
  void show(ProgressState state, bool now);
  /// Takes the line away, so that others may write.
  void clear() { line_.clear(); }

 private:
  std::string what_, items_;
  size_t total_items_;
  uint64_t total_bytes_;
  ProgressLine line_;
};

}  // namespace crumb::cli
