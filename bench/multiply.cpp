// crumb-bench multiply: a packed matrix against the same matrix in float32, and what the stage outliers puts beside it against the
// packed one; one thread.
#include "bench/bench.h"
#include "cli/output.h"
#include "graph/quantized_constant.h"
#include "graph/sparse_products.h"
#include "quant/quantizer.h"
#include "quant/recipe/stages.h"
#include "runtime/ops/held_matrix.h"

namespace crumb::bench {
namespace {

/// As many numbers among zeros as the stage outliers keeps, spread evenly.
graph::SparseMatrix few_numbers(std::size_t rows, std::size_t columns) {
  const double share = parse_stage("outliers").value("share");
  const auto step = static_cast<std::size_t>(1 / share);
  graph::SparseMatrix made{.rows = static_cast<std::int64_t>(rows),
                           .columns = static_cast<std::int64_t>(columns)};
  for (std::size_t place = step / 2; place < rows * columns; place += step)
    made.places.push_back(static_cast<std::int64_t>(place));
  made.numbers = normal_values(made.places.size());
  return made;
}

}  // namespace

void multiply_bench(const Options& options) {
  Table table(options, {"work", "spec", "shape", "batch", "packed GFLOP/s", "float GFLOP/s",
                        "packed over float", "outliers over packed"});
  for (const NamedShape& shape : shapes_of(options)) {
    const MatrixShape matrix = matrix_shape(shape.shape).take();
    const size_t rows = matrix.rows, cols = matrix.cols;
    const std::vector<float> values = normal_values(matrix.size());
    const graph::QuantizedConstant constant{
        .tensor = std::make_shared<const QuantizedTensor>(quantize(
            QuantSpec::parse(options.spec), values, std::vector<std::uint64_t>{matrix.rows, matrix.cols})),
        .axes = {0, 1}};
    const runtime::Array floats = runtime::Array::of(constant.value());
    const graph::Node node{.name = "product", .op = "Gemm"};
    const auto axes = runtime::MatrixOrder::kOutputsTerms;
    const auto dense = runtime::HeldMatrix::of({.node = node, .constants = {nullptr, &floats}}, 1, axes);
    const auto packed = runtime::HeldMatrix::of({.node = node, .packed = &constant}, 1, axes);
    const graph::SparseMatrix few = few_numbers(rows, cols);
    const auto sparse = runtime::HeldMatrix::of({.node = node, .sparse = &few}, 1, axes);
    for (const int batch : options.batch) {
      const auto n = static_cast<size_t>(batch);
      const std::vector<float> x = normal_values(n * cols);
      std::vector<float> y(n * rows);
      const runtime::exact::Products product{
          .rows = n, .x = x.data(), .x_stride = cols, .y = y.data(), .y_row = rows};
      const std::vector<Timing> timings = time_in_turns(
          options.repeats, {[&] { dense->multiply(product, 0, 1); }, [&] { packed->multiply(product, 0, 1); },
                            [&] { sparse->multiply(product, 0, 1); }});
      const double operations = 2e-9 * static_cast<double>(n * rows * cols);
      table.add({"multiply", options.spec, shape.name, std::to_string(batch),
                 speed(operations, timings[1].median), speed(operations, timings[0].median),
                 times_as_fast(timings[0], timings[1], 3), times_as_fast(timings[1], timings[2], 3)});
    }
  }
  table.print();
}

}  // namespace crumb::bench
