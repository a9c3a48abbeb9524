#include "quant/row_source.h"

#include <algorithm>
#include <vector>

namespace crumb {
namespace {

class TensorRows final : public RowSource {
 public:
  explicit TensorRows(std::shared_ptr<const QuantizedTensor> tensor)
      : tensor_(std::move(tensor)), decoder_(tensor_->unchecked_view()) {}

  uint64_t rows() const override { return decoder_.rows(); }
  uint64_t cols() const override { return decoder_.cols(); }
  uint64_t bytes() const override { return tensor_->layout.total_bytes(); }
  void decode(uint64_t first, std::span<float> out) const override {
    tensor_->check_codes();
    for (; !out.empty(); out = out.subspan(cols())) decoder_.values(first++, 0, out.first(cols()));
  }

 private:
  std::shared_ptr<const QuantizedTensor> tensor_;
  RowDecoder decoder_;
};

}  // namespace

std::shared_ptr<const RowSource> rows_of(std::shared_ptr<const QuantizedTensor> tensor) {
  return std::make_shared<const TensorRows>(std::move(tensor));
}

void decode_elements(const RowSource& source, uint64_t first, std::span<float> out) {
  std::vector<float> row;
  while (!out.empty()) {
    const uint64_t cols = source.cols(), at = first / cols, inside = first % cols;
    uint64_t run = out.size() / cols * cols;  // whole rows
    if (inside == 0 && run > 0) {
      source.decode(at, out.first(run));
    } else {
      run = std::min<uint64_t>(out.size(), cols - inside);
      row.resize(cols);
      source.decode(at, row);
      std::copy_n(row.begin() + static_cast<ptrdiff_t>(inside), run, out.begin());
    }
    out = out.subspan(run);
    first += run;
  }
}

}  // namespace crumb
