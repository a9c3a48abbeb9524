// crumb-bench ptq: rounding one matrix by GPTQ, the inputs' second moments given, against the same algorithm in LibTorch's operators
// with as many threads, and against what the machine's float32 GEMM would take for the multiplications in it.
#include <Eigen/Core>
#include <cmath>
#include <memory>
#include <random>

#include "base/error.h"
#include "bench/bench.h"
#include "bench/ptq_job.h"
#include "bench/torch_job.h"
#include "cli/output.h"
#include "ptq/rounding/feedback.h"
#include "ptq/rounding/output_error.h"
#include "quant/codes/fixed_scales.h"

namespace crumb::bench {
namespace {

constexpr float kCorrelation = 0.9F;  // of neighbouring inputs

/// Moments of inputs whose neighbours are correlated, from twice as many samples as there are.
std::vector<float> drawn_moments(std::size_t size) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Eigen::MatrixXf x(static_cast<Eigen::Index>(2 * size), static_cast<Eigen::Index>(size));
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    float last = normal(random);
    for (Eigen::Index i = 0; i < x.cols(); ++i)
      x(t, i) = last = kCorrelation * last + std::sqrt(1 - kCorrelation * kCorrelation) * normal(random);
  }
  const Eigen::MatrixXf moments = x.transpose() * x;
  return {moments.data(), moments.data() + moments.size()};
}

}  // namespace

void ptq_bench(const Options& options) {
  const QuantSpec spec = QuantSpec::parse(options.spec);
  Table table(options, {"work", "spec", "shape", "threads", "ours median s", "LibTorch median s",
                        "times as fast", "share of the GEMM rate", "error over LibTorch's"});
  for (const NamedShape& shape : shapes_of(options)) {
    const MatrixShape matrix = matrix_shape(shape.shape).take();
    const std::vector<std::uint64_t> sizes = {matrix.rows, matrix.cols};
    PtqWork work{.rows = matrix.rows, .columns = matrix.cols, .group = spec.encoding(sizes).block_cols};
    if (spec.number->grid != Grid::kInteger || !spec.number->is_signed || spec.zero != ZeroPoint::kNone ||
        spec.range != Range::kNarrow || matrix.cols % work.group != 0 || spec.encoding(sizes).block_rows != 1)
      throw usage_error("ptq: the comparison is for signed integers by channel or by whole groups");
    work.weights = normal_values(matrix.size());
    work.moments = drawn_moments(matrix.cols);
    work.most = spec.number->largest_value(spec.range);
    const FixedScales scales(spec, work.weights, sizes, "w");
    for (std::uint64_t block = 0; block < scales.blocks(); ++block)
      work.scales.push_back(scales.scale(block));
    const auto size = static_cast<Eigen::Index>(matrix.cols);
    const Eigen::MatrixXd moments =
        Eigen::Map<const Eigen::MatrixXf>(work.moments.data(), size, size).cast<double>();
    for (const int threads : options.threads) {
      std::vector<std::uint8_t> codes;
      std::vector<float> theirs;
      std::vector<std::function<void()>> works = {[&] {
        const auto feedback = ptq::Feedback::of(moments, work.damping, false);
        codes = ptq::codes_with_feedback(scales, {0, work.rows}, work.weights, *feedback, threads);
      }};
      if (has_torch()) works.emplace_back([&] { theirs = gptq_in_torch(work, threads); });
      const std::vector<Timing> timings = time_in_turns(options.repeats, works);
      const double ours_lost =
          ptq::output_error(scales, {0, work.rows}, work.weights, codes, moments, threads);
      std::string error = "-", share = "-";
      if (has_torch()) {
        for (std::size_t i = 0; i < theirs.size(); ++i) theirs[i] -= work.weights[i];
        error = fixed(ours_lost / ptq::output_squares(theirs, moments, threads), 5);
        // Half of rows x columns x columns, and the factor.
        const double n = static_cast<double>(work.columns),
                     operations = static_cast<double>(work.rows) * n * n + n * n * n / 3;
        constexpr std::size_t kSize = 2048;
        double best = 1e9;
        for (int i = 0; i < options.repeats; ++i)
          best = std::min(best, product_in_torch(kSize, kSize, kSize, threads));
        const double rate = 2.0 * kSize * kSize * kSize / best;
        share = fixed(100 * operations / timings[0].median / rate, 1) + " %";
      }
      const Timing torch = has_torch() ? timings[1] : Timing{};
      table.add({"gptq", options.spec, shape.name, std::to_string(threads), fixed(timings[0].median, 3),
                 has_torch() ? fixed(torch.median, 3) : "-", times_as_fast(torch, timings[0], 2), share,
                 error});
    }
  }
  table.print();
}

}  // namespace crumb::bench
