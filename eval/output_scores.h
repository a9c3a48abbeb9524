// How far what a network gives is from what the float network gives, or from what it should give.
//
//   agreement  share of rows (along the last axis) whose largest element is at the same position, the first
//              of equal ones
//   accuracy   share of rows whose largest element is at the label's position; rows whose label is -100 do
//              not count
//   kl         mean over rows of the sum of p log(p / q) in nats, p and q being the rows' softmax
//   cosine     mean over samples (along the first axis) of sum a b / sqrt(sum a^2 sum b^2); two of zeros
//              agree (1)
//   psnr       10 log10(peak^2 / mean squared error); infinite where nothing differs
//
// Rows of one element have the last two alone. All sums are float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace crumb::eval {

/// By name. What has no value is not there.
using Scores = std::map<std::string, double, std::less<>>;

/// What networks should give: classes of rows, or numbers as outputs have them; one of the two, or none.
struct Labels {
  std::vector<std::int64_t> classes;
  std::vector<float> values;  ///< of which psnr then is
};

/// Of outputs of one shape: those of a file of samples.
struct ScoreShape {
  std::size_t samples = 0;
  std::size_t width = 0;  ///< of a row
  std::size_t size = 0;   ///< numbers in all
};
using ScoreShapes = std::span<const ScoreShape>;  ///< one part of the outputs after the other

/// Throws Error where labels do not fit outputs of these shapes: says what was found and expected.
void check_labels(const Labels& labels, ScoreShapes shapes);

/// `peak`: the largest number of a psnr; none: from the least to the greatest of what is compared with.
/// Throws Error where something found is not finite. Preconditions: as many are found as expected, as the
/// shapes say, and check_labels holds.
Scores score_outputs(std::span<const float> expected, std::span<const float> found, ScoreShapes shapes,
                     const Labels& labels, std::optional<double> peak);

}  // namespace crumb::eval
