#include "analysis/rows.h"

#include <algorithm>

namespace crumb::analysis {

RowOrder::RowOrder(std::vector<std::int64_t> shape, const std::vector<bool>& summed)
    : shape_(std::move(shape)), row_steps_(shape_.size(), 0), term_steps_(shape_.size(), 0) {
  for (std::size_t i = shape_.size(); i-- > 0;) {
    std::size_t& count = summed[i] ? length_ : rows_;
    (summed[i] ? term_steps_ : row_steps_)[i] = count;
    count *= static_cast<std::size_t>(shape_[i]);
  }
  if (std::ranges::find(shape_, 0) != shape_.end()) rows_ = 0;
}

void RowOrder::for_each(const Visit& visit) const {
  std::vector<std::int64_t> place(shape_.size(), 0);
  for (std::size_t element = 0; element < rows_ * length_; ++element) {
    std::size_t row = 0, term = 0;
    for (std::size_t i = 0; i < place.size(); ++i) {
      row += row_steps_[i] * static_cast<std::size_t>(place[i]);
      term += term_steps_[i] * static_cast<std::size_t>(place[i]);
    }
    visit(element, row, term, place);
    for (std::size_t i = place.size(); i-- > 0;) {
      if (++place[i] < shape_[i]) break;
      place[i] = 0;
    }
  }
}

}  // namespace crumb::analysis
