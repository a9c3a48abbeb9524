// Samples that look like pictures, as pictures. Internal to jobs.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "jobs/evaluate.h"
#include "report/report.h"

namespace crumb::jobs {

/// Arrays of [H, W], or of 1, 3 or 4 channels first or last, from 4 x 4 on; nothing for others, and where a number is
/// not finite. From black for the least number to white for the greatest; a fourth channel is left out. Large ones
/// become smaller, at most 96 pixels wide and high, each the mean of what it stands for.
std::optional<report::Picture> picture_of(const SampleInput& input);

/// Pictures, as long as a page has room for them.
class PictureBudget {
 public:
  std::vector<report::Picture> pictures_of(const std::vector<SampleInput>& inputs);
  std::size_t left_out() const { return left_out_; }

 private:
  std::size_t pixels_ = 0, left_out_ = 0;
};

}  // namespace crumb::jobs
