// Handwritten digits: the UCI "Optical Recognition of Handwritten Digits" test set, as scikit-learn ships it
// (sklearn/datasets/data/digits.csv.gz): 1,797 rows of 64 pixels from 0 to 16 and a label.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "tasks/samples.h"

namespace crumb::tasks {

inline constexpr const char* kDigitsFile = "digits.csv.gz";

/// Splits the images: image i is a test image when i % 5 == 4, which gives 1,438 to train by and 359 to test.
/// Inputs are the raw pixels, [64]. A Failure where the file is no such table.
Result<Split> read_digits(const std::filesystem::path& path);

}  // namespace crumb::tasks
