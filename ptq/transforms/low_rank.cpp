#include "ptq/transforms/low_rank.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "formats/half.h"
#include "graph/adapters.h"
#include "graph/quantized_constant.h"
#include "ptq/matrices/linear_matrices.h"
#include "ptq/matrices/nearest_of_rank.h"

namespace crumb::ptq {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using graph::LinearProduct;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr const char* kName = "low_rank";

/// The result for one matrix.
struct Made {
  LowRankUpdate update;
  graph::Tensor rest;  ///< with the graph's axes
  LayerReport report;
};

/// Returns the matrix as [out, in].
MatrixXd matrix_of(const graph::Tensor& tensor, bool is_transposed) {
  const std::vector<float> values = tensor.to_floats();
  const Eigen::Map<const Matrix> lying(values.data(), tensor.shape().at(0), tensor.shape().at(1));
  if (is_transposed) return lying.cast<double>();
  return lying.transpose().cast<double>();
}

graph::Tensor tensor_of(const MatrixXd& matrix, bool is_transposed) {
  Matrix lying = matrix.cast<float>();
  if (!is_transposed) lying = Matrix(lying.transpose());
  return graph::Tensor::floats({lying.rows(), lying.cols()},
                               {lying.data(), static_cast<std::size_t>(lying.size())});
}

/// Returns the numbers as the adapter stores them.
Matrix as_kept(const MatrixXd& matrix) {
  return matrix.cast<float>().unaryExpr([](float x) { return bf16_to_float(float_to_bf16(x)); });
}

std::vector<float> numbers(const Matrix& matrix) { return {matrix.data(), matrix.data() + matrix.size()}; }

Made split(const LinearMatrix& matrix, const graph::Tensor& tensor, Index rank, int iterations) {
  const LinearProduct& product = matrix.products[0];
  const MatrixXd whole = matrix_of(tensor, product.is_transposed);
  const double size = std::max(whole.squaredNorm(), std::numeric_limits<double>::min());
  const auto rounded = [&](const graph::Tensor& rest) {
    return matrix_of(
        graph::quantize_constant(*matrix.constant->spec, rest, matrix.constant->axes, product.weight, 1)
            .value(),
        product.is_transposed);
  };
  Made made;
  made.report = {.layer = product.weight,
                 .before = (whole - rounded(tensor)).squaredNorm() / size,
                 .after = std::numeric_limits<double>::infinity()};
  MatrixXd codes = MatrixXd::Zero(whole.rows(), whole.cols());
  for (int i = 0; i < iterations; ++i) {
    const LowRankFactors factors = nearest_of_rank(whole - codes, rank);
    const Matrix up = as_kept(factors.up), down = as_kept(factors.down);
    const MatrixXd taken = up.cast<double>() * down.cast<double>();
    graph::Tensor rest = tensor_of(whole - taken, product.is_transposed);
    codes = rounded(rest);
    const double error = (whole - taken - codes).squaredNorm() / size;
    if (!(error < made.report.after)) continue;
    made.report.after = error;
    made.rest = std::move(rest);
    made.update = {.module = product.module,
                   .rank = static_cast<std::size_t>(rank),
                   .in = product.in,
                   .out = product.out,
                   .down = numbers(down),
                   .up = numbers(up)};
  }
  return made;
}

}  // namespace

StageReport low_rank(const Stage& stage, Setting& setting) {
  const auto rank = static_cast<std::size_t>(stage.value("rank"));
  const int iterations = static_cast<int>(stage.value("iterations"));
  LinearMatrices found = open_linear_matrices(setting);
  const std::vector<LinearMatrix>& matrices = found.matrices;
  if (matrices.empty())
    throw Error("the stage low_rank finds no linear layer that becomes codes and has none yet" +
                found.why_not());
  std::vector<Made> made(matrices.size());
  parallel_for(matrices.size(), 1, setting.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const LinearProduct& product = matrices[i].products[0];
      const std::size_t own = std::min({rank, product.in, product.out});
      made[i] = split(matrices[i], setting.graph.initializers.at(product.weight), static_cast<Index>(own),
                      iterations);
    }
  });
  StageReport report{
      .stage = to_string(stage), .measure = "matrices", .layers = {}, .notes = std::move(found.notes)};
  Adapter adapter;
  for (Made& one : made) {
    setting.graph.initializers[one.report.layer] = std::move(one.rest);
    adapter.updates.push_back(std::move(one.update));
    report.layers.push_back(std::move(one.report));
  }
  std::ranges::sort(adapter.updates, {}, &LowRankUpdate::module);
  std::vector<graph::Branch> beside;
  setting.graph =
      graph::add_adapter(std::move(setting.graph), adapter, kName, graph::AdapterType::kBfloat16, &beside);
  for (const graph::Branch& one : beside) setting.plan.follow(one);
  return report;
}

}  // namespace crumb::ptq
