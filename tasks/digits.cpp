#include "tasks/digits.h"

#include <string>

#include "base/csv/number_table.h"
#include "base/files/text.h"

namespace crumb::tasks {
namespace {

constexpr std::size_t kPixels = 64;

bool is_whole(double value, double most) {
  return value >= 0 && value <= most && value == static_cast<double>(static_cast<int>(value));
}

}  // namespace

Result<Split> read_digits(const std::filesystem::path& path) {
  const Result<NumberTable> read = read_number_table(path);
  if (!read.ok()) return read.failure();
  const NumberTable& table = read.value();
  const auto fail = [&](const std::string& message) {
    return Failure{quote_text(path.string()) + ": " + message};
  };
  if (table.columns != kPixels + 1) {
    return fail("found rows of " + std::to_string(table.columns) +
                " numbers, expected 64 pixels and a label");
  }
  Split split;
  split.train.shape = split.test.shape = {static_cast<std::int64_t>(kPixels)};
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Samples& samples = row % 5 == 4 ? split.test : split.train;
    const double* numbers = &table.values[row * table.columns];
    for (std::size_t i = 0; i < kPixels; ++i) {
      if (!is_whole(numbers[i], 16)) {
        return fail("row " + std::to_string(row) + ": found the pixel " + std::to_string(numbers[i]) +
                    ", expected 0 to 16");
      }
      samples.inputs.push_back(static_cast<float>(numbers[i]));
    }
    if (!is_whole(numbers[kPixels], 9)) {
      return fail("row " + std::to_string(row) + ": found the label " + std::to_string(numbers[kPixels]) +
                  ", expected 0 to 9");
    }
    samples.labels.push_back(static_cast<std::int64_t>(numbers[kPixels]));
  }
  if (split.test.size() == 0)
    return fail("found " + std::to_string(table.rows()) + " rows, expected 5 or more");
  return split;
}

}  // namespace crumb::tasks
