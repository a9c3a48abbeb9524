#include "ptq/transforms/outliers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "graph/sparse_products.h"
#include "ptq/matrices/linear_matrices.h"
#include "ptq/rounding/rounding_errors.h"

namespace crumb::ptq {
namespace {

using graph::LinearProduct;
using graph::SparseMatrix;
using graph::Tensor;

constexpr std::int64_t kLeastOpset = 11;  // of the operators that are added
constexpr double kBytes = 4;              // of a number and its gap

LinearMatrices matrices_of(const Setting& setting) {
  LinearMatrices found = open_linear_matrices(setting);
  if (found.matrices.empty())
    throw Error("the stage outliers finds no matrix of a linear layer that becomes codes" + found.why_not());
  for (const LinearMatrix& matrix : found.matrices)
    if (graph::has_sparse(setting.graph, matrix.products[0]))
      throw Error("the matrix " + quote_text(matrix.constant->value) +
                  " has numbers beside its codes already");
  if (setting.graph.opset() < kLeastOpset)
    throw Error("the stage outliers needs operator set 11 or later, found " +
                std::to_string(setting.graph.opset()));
  return found;
}

/// Returns the indices of the largest sizes that are not below 0, ascending.
std::vector<std::size_t> indices_of_largest(const std::vector<float>& sizes, std::size_t count) {
  std::vector<std::size_t> indices(sizes.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  const auto end = indices.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(indices.begin(), end, indices.end(), [&](std::size_t a, std::size_t b) {
    return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b;
  });
  indices.erase(end, indices.end());
  std::erase_if(indices, [&](std::size_t index) { return sizes[index] < 0; });
  std::ranges::sort(indices);
  return indices;
}

/// Returns the matrix minus the stored numbers at some indices, in its own layout; it is read when the result
/// is read.
Tensor without(const Tensor& matrix, std::vector<std::size_t> indices, std::vector<float> numbers) {
  auto read = [matrix, indices = std::move(indices), numbers = std::move(numbers)] {
    std::vector<float> values = matrix.to_floats();
    for (std::size_t i = 0; i < indices.size(); ++i) values[indices[i]] -= numbers[i];
    return values;
  };
  if (matrix.is_unread()) return Tensor::unread(matrix.shape(), std::move(read));
  return Tensor::floats(matrix.shape(), read());
}

class Split {
 public:
  Split(Setting& setting, double share) : setting_(setting), share_(share) {}

  LayerReport split(const LinearMatrix& whole) {
    const LinearProduct& like = whole.products[0];
    const Tensor matrix = setting_.graph.initializers.at(like.weight);
    const std::vector<float> values = matrix.to_floats();
    std::vector<float> sizes(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      // Numbers that 16 bits cannot hold stay.
      sizes[i] = std::isfinite(graph::as_kept({values[i]})[0]) ? std::fabs(values[i]) : -1;
    const auto count = static_cast<std::size_t>(std::llround(share_ * static_cast<double>(values.size())));
    const std::vector<std::size_t> indices = indices_of_largest(sizes, count);
    std::vector<float> numbers;
    for (const std::size_t index : indices) numbers.push_back(values[index]);
    numbers = graph::as_kept(numbers);
    const RoundingLoss before = rounding_loss(*whole.constant, matrix, setting_.threads);
    setting_.graph.initializers[like.weight] = without(matrix, indices, numbers);
    const RoundingLoss after =
        rounding_loss(*whole.constant, setting_.graph.initializers[like.weight], setting_.threads);
    const double all = std::max(before.all, std::numeric_limits<double>::min());
    if (!indices.empty())
      for (const graph::Branch& one :
           graph::add_sparse(setting_.graph, whole.products, sparse_of(like, indices, numbers)))
        setting_.plan.follow(one);
    kept_ += indices.size();
    return {.layer = like.weight, .before = before.lost / all, .after = after.lost / all};
  }

  std::size_t kept() const { return kept_; }

 private:
  static SparseMatrix sparse_of(const LinearProduct& like, const std::vector<std::size_t>& indices,
                                const std::vector<float>& numbers) {
    std::vector<std::pair<std::int64_t, float>> entries;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const std::size_t index =
          like.is_transposed ? indices[i] % like.in * like.out + indices[i] / like.in : indices[i];
      entries.emplace_back(static_cast<std::int64_t>(index), numbers[i]);
    }
    std::ranges::sort(entries);
    SparseMatrix made{.rows = static_cast<std::int64_t>(like.in),
                      .columns = static_cast<std::int64_t>(like.out),
                      .places = {},
                      .numbers = {}};
    for (const auto& [index, number] : entries) {
      made.places.push_back(index);
      made.numbers.push_back(number);
    }
    return made;
  }

  Setting& setting_;
  double share_;
  std::size_t kept_ = 0;
};

}  // namespace

void check_share(const Stage& stage, const Setting&) {
  const double share = stage.value("share");
  if (!(share < 1))
    throw usage_error("the stage outliers keeps a share of the weights, below 1, found share=" +
                      number_text(share));
}

StageReport outliers(const Stage& stage, Setting& setting) {
  const double share = stage.value("share");
  LinearMatrices found = matrices_of(setting);
  StageReport report{
      .stage = to_string(stage), .measure = "matrices", .layers = {}, .notes = std::move(found.notes)};
  Split split(setting, share);
  for (const LinearMatrix& matrix : found.matrices) {
    check_interrupt();
    report.layers.push_back(split.split(matrix));
  }
  setting.graph = graph::sorted(std::move(setting.graph));
  report.notes.push_back(std::to_string(split.kept()) + " weights stay numbers beside the codes, " +
                         number_text(kBytes * static_cast<double>(split.kept()) / 1e6) + " MB");
  return report;
}

}  // namespace crumb::ptq
