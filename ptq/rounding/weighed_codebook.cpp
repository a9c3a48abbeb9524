#include "ptq/rounding/weighed_codebook.h"

#include "quant/search/codebook_search.h"

namespace crumb::ptq {

void find_codebook(FixedScales& scales, std::span<const float> rows, const Importance& importance) {
  const std::size_t columns = scales.columns();
  std::vector<float> values;
  std::vector<double> weights;
  double all = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t row = i / columns, column = i % columns;
    const auto scale = static_cast<double>(scales.scale(scales.block_of(row, column)));
    if (!(scale > 0)) continue;
    weights.push_back(scale * scale * importance(row, column));
    values.push_back(static_cast<float>(static_cast<double>(rows[i]) / scale));
    all += weights.back();
  }
  if (all > 0)
    scales.set_codebook(learn_codebook(values, weights, scales.encoding().number->bits, scales.codebook()));
}

void find_codebook(FixedScales& scales, std::span<const float> rows, std::size_t rows_of_group,
                   const std::vector<Eigen::MatrixXd>& moments) {
  double reached = 0, sum = 0;
  for (const Eigen::MatrixXd& one : moments) {
    sum += one.diagonal().sum();
    reached += one.diagonal().sum() > 0 ? static_cast<double>(one.rows()) : 0;
  }
  // In a group without samples, all columns count like the mean of the others: the codebook is shared.
  const double mean = reached > 0 ? sum / reached : 1;
  find_codebook(scales, rows, [&](std::size_t row, std::size_t column) {
    const auto inputs = moments.at(row / rows_of_group).diagonal();
    return inputs.sum() > 0 ? inputs[static_cast<Eigen::Index>(column)] : mean;
  });
}

}  // namespace crumb::ptq
