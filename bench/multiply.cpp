// crumb-bench multiply: a packed matrix against the same matrix in float32, one thread.
#include "bench/bench.h"
#include "cli/output.h"
#include "quant/quantizer.h"
#include "runtime/packed_matrix.h"

namespace crumb::bench {

void multiply_bench(const Options& options) {
  Table table(options,
              {"work", "spec", "shape", "batch", "packed GFLOP/s", "float GFLOP/s", "packed over float"});
  for (const NamedShape& shape : shapes_of(options)) {
    const MatrixShape matrix = matrix_shape(shape.shape).take();
    const size_t rows = matrix.rows, cols = matrix.cols;
    const std::vector<float> values = normal_values(matrix.size());
    const runtime::FloatMatrix dense(rows, cols, std::span<const float>(values));
    const QuantizedTensor tensor = quantize(QuantSpec::parse(options.spec), values, shape.shape);
    const runtime::PackedMatrix packed(tensor.view());
    for (const int batch : options.batch) {
      const auto n = static_cast<size_t>(batch);
      const std::vector<float> x = normal_values(n * cols);
      std::vector<float> y(n * rows);
      const std::vector<Timing> timings = time_in_turns(
          options.repeats, {[&] { dense.multiply(x, n, y); }, [&] { packed.multiply(x, n, y); }});
      const double operations = 2e-9 * static_cast<double>(n * rows * cols);
      table.add({"multiply", options.spec, shape.name, std::to_string(batch),
                 speed(operations, timings[1].median), speed(operations, timings[0].median),
                 times_as_fast(timings[0], timings[1], 3)});
    }
  }
  table.print();
}

}  // namespace crumb::bench
