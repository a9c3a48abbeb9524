// crumb-bench multiply: a packed matrix against the same matrix in float32, against what this machine reads
// in a second and what it computes, and what the stage outliers puts beside it against the packed one.
#include <algorithm>
#include <cstring>

#include "base/threads/parallel.h"
#include "bench/bench.h"
#include "cli/output.h"
#include "graph/quantized_constant.h"
#include "graph/sparse_products.h"
#include "quant/codes/code_layout.h"
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

constexpr std::size_t kCold = std::size_t{1} << 30;  // bytes that no cache keeps
constexpr double kLeastSeconds = 2e-3;               // of a sample

/// Copies of a matrix, one after the other: one where it may stay in caches, else as many as no cache keeps.
struct Copies {
  std::vector<std::shared_ptr<const runtime::HeldMatrix>> matrices;
  std::size_t next = 0;

  void multiply(const runtime::exact::Products& product, int threads, runtime::Promise promise) {
    matrices[next]->multiply(product, 0, threads, promise);
    next = (next + 1) % matrices.size();
  }
};

template <class Make>
Copies copies_of(std::size_t bytes, bool cold, const Make& make) {
  Copies made;
  const std::size_t count = cold ? kCold / std::max<std::size_t>(bytes, 1) + 1 : 1;
  for (std::size_t i = 0; i < count; ++i) made.matrices.push_back(make());
  return made;
}

/// Seconds of one of as many runs as take kLeastSeconds.
std::function<double()> timed(std::function<void()> work) {
  const Timing once = time_in_turns(1, {work})[0];
  const auto runs = static_cast<int>(std::min(1e4, kLeastSeconds / std::max(once.best, 1e-9))) + 1;
  return [work = std::move(work), runs] {
    return time_in_turns(1, {[&] {
                           for (int i = 0; i < runs; ++i) work();
                         }})[0]
               .best /
           runs;
  };
}

/// Reads every byte, as fast as the C library can.
void read_all(const std::vector<char>& bytes, int threads) {
  parallel_for(bytes.size(), std::max<std::size_t>(bytes.size() / static_cast<std::size_t>(threads), 1),
               threads, [&](std::size_t begin, std::size_t end) {
                 if (std::memchr(bytes.data() + begin, 1, end - begin)) throw Error("a byte that was 0 is 1");
               });
}

/// Floating-point operations a second at which floats of the first caches are multiplied.
std::function<double()> peak_work(int threads, double& operations) {
  constexpr std::size_t kRows = 192, kColumns = 192, kTerms = 256;
  const auto x = std::make_shared<std::vector<float>>(normal_values(kRows * kTerms));
  const auto w = std::make_shared<std::vector<float>>(normal_values(kColumns * kTerms));
  const auto y = std::make_shared<std::vector<float>>(kRows * kColumns * static_cast<std::size_t>(threads));
  operations = 2e-9 * kRows * kColumns * kTerms * threads;
  return timed([=] {
    parallel_for(static_cast<std::size_t>(threads), 1, threads, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        runtime::exact::multiply({.rows = kRows,
                                  .columns = kColumns,
                                  .terms = kTerms,
                                  .x = x->data(),
                                  .x_stride = kTerms,
                                  .w = w->data(),
                                  .w_stride = kTerms,
                                  .y = y->data() + i * kRows * kColumns,
                                  .y_row = kColumns},
                                 1);
    });
  });
}

std::string share(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", part / whole);
  return text;
}

}  // namespace

void multiply_bench(const Options& options) {
  Table table(options, {"work", "spec", "shape", "batch", "threads", "packed GFLOP/s", "float GFLOP/s",
                        "packed over float", "packed GB/s", "of this machine's reading", "of its products",
                        "outliers over packed"});
  const auto promise = options.fast ? runtime::Promise::kFast : runtime::Promise::kExact;
  const CodeLayout layout = options.layout == "tiles" ? CodeLayout::kTiles : CodeLayout::kRows;
  for (const NamedShape& shape : shapes_of(options)) {
    const MatrixShape matrix = matrix_shape(shape.shape).take();
    const size_t rows = matrix.rows, cols = matrix.cols;
    const QuantizedTensor tensor =
        in_layout(quantize(QuantSpec::parse(options.spec), normal_values(matrix.size()),
                           std::vector<std::uint64_t>{matrix.rows, matrix.cols})
                      .view(),
                  options.spec, layout);
    const double bytes = static_cast<double>(tensor.layout.total_bytes());
    const graph::Node node{.name = "product", .op = "Gemm"};
    const auto axes = runtime::MatrixOrder::kOutputsTerms;
    const auto of_codes = [&] {
      const graph::QuantizedConstant constant{.tensor = std::make_shared<const QuantizedTensor>(tensor),
                                              .axes = {0, 1}};
      return runtime::HeldMatrix::of({.node = node, .packed = &constant}, 1, axes);
    };
    const graph::Tensor values = graph::QuantizedConstant{
        .tensor = std::make_shared<const QuantizedTensor>(tensor),
        .axes = {0, 1}}.value();
    const auto of_floats = [&] {
      const runtime::Array floats = runtime::Array::of(values);
      return runtime::HeldMatrix::of({.node = node, .constants = {nullptr, &floats}}, 1, axes);
    };
    Copies packed = copies_of(static_cast<std::size_t>(bytes), options.cold, of_codes);
    Copies dense = copies_of(matrix.size() * sizeof(float), options.cold, of_floats);
    const graph::SparseMatrix few = few_numbers(rows, cols);
    const auto sparse = runtime::HeldMatrix::of({.node = node, .sparse = &few}, 1, axes);
    const std::vector<char> memory(options.cold ? kCold : static_cast<std::size_t>(bytes));
    for (const int threads : options.threads) {
      for (const int batch : options.batch) {
        const auto n = static_cast<size_t>(batch);
        const std::vector<float> x = normal_values(n * cols);
        std::vector<float> y(n * rows);
        const runtime::exact::Products product{
            .rows = n, .x = x.data(), .x_stride = cols, .y = y.data(), .y_row = rows};
        double peak_operations = 0;
        const std::vector<Timing> timings =
            self_timed_in_turns(options.repeats, {timed([&] { dense.multiply(product, threads, promise); }),
                                                  timed([&] { packed.multiply(product, threads, promise); }),
                                                  timed([&] { sparse->multiply(product, 0, threads); }),
                                                  timed([&] { read_all(memory, threads); }),
                                                  peak_work(threads, peak_operations)});
        const double operations = 2e-9 * static_cast<double>(n * rows * cols);
        const double reading = 1e-9 * static_cast<double>(memory.size()) / timings[3].median;
        table.add({"multiply", options.spec, shape.name, std::to_string(batch), std::to_string(threads),
                   speed(operations, timings[1].median), speed(operations, timings[0].median),
                   times_as_fast(timings[0], timings[1], 3), speed(1e-9 * bytes, timings[1].median),
                   share(1e-9 * bytes / timings[1].median, reading),
                   share(operations / timings[1].median, peak_operations / timings[4].median),
                   times_as_fast(timings[1], timings[2], 3)});
      }
    }
  }
  table.print();
}

}  // namespace crumb::bench
