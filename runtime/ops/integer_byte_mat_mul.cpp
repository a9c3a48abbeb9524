// Matrix products of bytes (lower/domain.h): outputs are the columns of vectors, which the weights lie in;
// rows are those of the input.
#include <algorithm>
#include <memory>

#include "base/threads/parallel.h"
#include "runtime/integer/byte_products.h"
#include "runtime/integer/byte_weights.h"
#include "runtime/ops/integer_bytes.h"
#include "runtime/ops/integer_sums.h"

namespace crumb::runtime {
namespace {

using integer::kGroup;
using integer::kLanes;
using integer::kVectorBytes;

constexpr std::size_t kVectorsOfBlock = 4;  // what a tile has
constexpr std::size_t kRowsOfBlock = 48;
constexpr std::size_t kColumnsOfBlock = kVectorsOfBlock * kLanes;

class ByteMatMul {
 public:
  explicit ByteMatMul(const NodeFacts& facts)
      : weights_(*facts.constant(1)),
        outputs_(static_cast<std::size_t>(std::max<std::int64_t>(facts.int_or("outputs", 0), 0))),
        terms_(static_cast<std::size_t>(std::max<std::int64_t>(facts.int_or("terms", 0), 0))) {
    const auto least = static_cast<int>(facts.int_or("least", 0)),
               most = static_cast<int>(facts.int_or("most", 255)),
               zero = static_cast<int>(facts.int_or("zero", 0));
    const integer::Bytes bytes = integer::bytes_of(least, most);
    groups_ = integer::groups_of(terms_);
    vectors_ = integer::vectors_of(outputs_);
    constexpr std::size_t kMost = std::size_t{1} << 31;
    if (bytes.most < 0 || bytes.most > 255 || outputs_ > kMost || terms_ > kMost ||
        weights_.size() != vectors_ * groups_ * kVectorBytes)
      facts.fail("it is no product of bytes");
    offset_ = static_cast<std::uint8_t>(bytes.offset);
    const std::vector<std::int8_t> rows = integer::rows_of_vectors(weights_.values<std::int8_t>(), groups_);
    starts_ = integer::starts_of(rows, groups_, zero - bytes.offset, vectors_ * kLanes);
    way_ = integer::way_of(rows, groups_, bytes.most);
    finish_ = Finish::of(facts, outputs_);
  }

  void run(Call& call) const {
    const Array x = call.in(0);
    with_codes(call, x, []<class T>() {});
    if (x.rank() < 1 || x.dim(x.rank() - 1) != static_cast<std::int64_t>(terms_))
      call.fail("cannot multiply " + text_of(x) + " by rows of " + std::to_string(terms_));
    Ints shape = x.shape();
    shape.back() = static_cast<std::int64_t>(outputs_);
    Array& made = call.make(0, finish_.type(), shape);
    if (made.size() == 0) return;
    const std::size_t rows = made.size() / outputs_;
    call.spend({rows, outputs_, terms_});
    const int threads = threads_for(call, made.size() * terms_);
    Array held;
    const auto* from = reinterpret_cast<const std::uint8_t*>(x.data());
    const std::size_t width = groups_ * kGroup;
    if (offset_ != 0 || width != terms_) {
      held = Array(ElementType::kUint8, {static_cast<std::int64_t>(rows * width)});
      less_offset(from, rows, held.writable<std::uint8_t>().data());
      from = held.values<std::uint8_t>().data();
    }
    const std::size_t across = (vectors_ + kVectorsOfBlock - 1) / kVectorsOfBlock;
    const std::size_t down = (rows + kRowsOfBlock - 1) / kRowsOfBlock;
    // Column by column, so that a block of weights stays where it is near.
    const auto workers = static_cast<std::size_t>(std::max(threads, 1));
    const std::size_t grain = std::max<std::size_t>(1, across * down / (4 * workers));
    parallel_for(across * down, workers == 1 ? across * down : grain, threads,
                 [&](std::size_t begin, std::size_t end) {
                   for (std::size_t i = begin; i < end; ++i)
                     block(from, i % down * kRowsOfBlock, rows, i / down * kVectorsOfBlock, made);
                 });
  }

 private:
  void less_offset(const std::uint8_t* x, std::size_t rows, std::uint8_t* to) const {
    const std::size_t width = groups_ * kGroup;
    for (std::size_t r = 0; r < rows; ++r, x += terms_, to += width) {
      for (std::size_t k = 0; k < terms_; ++k) to[k] = static_cast<std::uint8_t>(x[k] - offset_);
      std::fill(to + terms_, to + width, std::uint8_t{0});
    }
  }

  void block(const std::uint8_t* x, std::size_t first, std::size_t rows, std::size_t vector,
             Array& made) const {
    alignas(64) std::int32_t sums[kRowsOfBlock * kColumnsOfBlock];
    const std::size_t count = std::min(kRowsOfBlock, rows - first);
    const std::size_t column = vector * kLanes, columns = std::min(kColumnsOfBlock, outputs_ - column);
    integer::multiply_bytes(way_, integer::InVectors::kWeights,
                            {.rows = count,
                             .vectors = std::min(kVectorsOfBlock, vectors_ - vector),
                             .groups = groups_,
                             .row = reinterpret_cast<const std::byte*>(x + first * groups_ * kGroup),
                             .row_stride = groups_ * kGroup,
                             .vector = weights_.data() + vector * groups_ * kVectorBytes,
                             .start = starts_.data() + column,
                             .y = sums,
                             .y_stride = kColumnsOfBlock});
    for (std::size_t r = 0; r < count; ++r) {
      finish_.put(integer::Channels::kEach, column, {sums + r * kColumnsOfBlock, columns}, made,
                  (first + r) * outputs_ + column);
    }
  }

  Array weights_;  ///< in vectors
  std::size_t outputs_, terms_, groups_ = 0, vectors_ = 0;
  std::uint8_t offset_ = 0;
  std::vector<std::int32_t> starts_;
  integer::Way way_;
  Finish finish_;
};

}  // namespace

Kernel byte_mat_mul(const NodeFacts& facts) {
  return [layer = std::make_shared<const ByteMatMul>(facts)](Call& call) { layer->run(call); };
}

}  // namespace crumb::runtime
