#include "runtime/packed_matrix.h"

#include <algorithm>
#include <vector>

namespace crumb::runtime {
namespace {

/// Weights decoded at a time: they stay in the second-level cache while the batch passes over them.
constexpr size_t kPanelWeights = size_t{1} << 16;

}  // namespace

PackedMatrix::PackedMatrix(LoadedTensor tensor) : tensor_(std::move(tensor)), decoder_(tensor_->view()) {}

PackedMatrix::PackedMatrix(const QuantizedView& tensor) : decoder_(tensor) {}

void PackedMatrix::multiply(std::span<const float> x, size_t batch, std::span<float> y) const {
  check_multiply(x.size(), batch, y.size());
  const size_t panel_rows = std::clamp<size_t>(kPanelWeights / std::max<size_t>(cols(), 1), 1, rows());
  std::vector<float> panel(panel_rows * cols());
  std::vector<float> answers(batch * panel_rows);
  for (size_t first = 0; first < rows(); first += panel_rows) {
    const size_t count = std::min(panel_rows, rows() - first);
    for (size_t i = 0; i < count; ++i)
      decoder_.values(first + i, 0, std::span(panel).subspan(i * cols(), cols()));
    const FloatMatrix matrix(count, cols(), std::span<const float>(panel).first(count * cols()));
    const std::span<float> some = std::span(answers).first(batch * count);
    matrix.multiply(x, batch, some);
    for (size_t n = 0; n < batch; ++n) {
      std::ranges::copy(some.subspan(n * count, count),
                        y.begin() + static_cast<ptrdiff_t>(n * rows() + first));
    }
  }
}

void PackedMatrix::gather_row(size_t row, std::span<float> out) const {
  check_gather(row, out.size());
  decoder_.values(row, 0, out);
}

}  // namespace crumb::runtime
