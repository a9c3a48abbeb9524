#include "ptq/weighed_codebook.h"

#include "quant/codebook_search.h"

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
  find_codebook(scales, rows, [&](std::size_t row, std::size_t column) {
    return moments.at(row / rows_of_group).diagonal()[static_cast<Eigen::Index>(column)];
  });
}

}  // namespace crumb::ptq
