// crumb-bench: how fast, as ratios measured in the same run.
//
//   crumb-bench quantize   --spec int4:group=128 --shape 4096x4096 --threads 1,2 [--repeats 9] [--json]
//   crumb-bench dequantize (the same options)
//   crumb-bench multiply   --spec int4:group=128 --shape 1536x384 --batch 1,64 [--repeats 9] [--json]
//
// quantize and dequantize: GB/s of float32, and the ratio to a memory copy of the same bytes by as many
// threads. multiply: a packed matrix against the same matrix in float32, one thread. Best and median of the
// repeats; the machine's other work is noise, so look at the ratios.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/output.h"
#include "formats/error.h"
#include "quant/loops/loops.h"
#include "quant/parallel.h"
#include "quant/quantizer.h"
#include "runtime/packed_matrix.h"

namespace crumb::bench {
namespace {

struct Options {
  std::string spec = "int4:group=128", shape = "4096x4096";
  std::vector<int> threads = {1, 2}, batch = {1, 64};
  int repeats = 9;
  bool json = false;
};

struct Timing {
  double best = 0, median = 0;  ///< seconds
};

Timing time(int repeats, const std::function<void()>& work) {
  work();  // warm
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const double start = cli::now_seconds();
    work();
    seconds.push_back(cli::now_seconds() - start);
  }
  std::ranges::sort(seconds);
  return {seconds.front(), seconds[seconds.size() / 2]};
}

std::vector<uint64_t> parse_shape(const std::string& text) {
  std::vector<uint64_t> shape;
  std::stringstream axes(text);
  for (std::string axis; std::getline(axes, axis, 'x');) shape.push_back(std::stoull(axis));
  return shape;
}

std::vector<float> normal_values(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

class Table {
 public:
  Table(const Options& options, std::vector<std::string> head) : json_(options.json) {
    rows_.push_back(std::move(head));
  }

  void add(const std::vector<std::string>& cells) { rows_.push_back(cells); }

  void print() const {
    if (!json_) return cli::print_table(rows_);
    cli::Json all = cli::Json::array();
    for (size_t i = 1; i < rows_.size(); ++i) {
      cli::Json row;
      for (size_t k = 0; k < rows_[0].size(); ++k) row[rows_[0][k]] = rows_[i][k];
      all.push_back(row);
    }
    cli::print_json(all);
  }

 private:
  bool json_;
  std::vector<std::vector<std::string>> rows_;
};

void copy_bytes(const std::vector<float>& from, std::vector<float>& to, int threads) {
  parallel_for(from.size(), (from.size() - 1) / static_cast<size_t>(threads) + 1, threads,
               [&](size_t begin, size_t end) {
                 std::memcpy(to.data() + begin, from.data() + begin, (end - begin) * sizeof(float));
               });
}

/// Times work(threads) against a copy of the same floats.
void against_copy(const Options& options, const char* what, const std::vector<float>& values,
                  const std::function<void(int)>& work) {
  Table table(options, {"work", "spec", "shape", "loops", "threads", "best GB/s", "median GB/s", "copy GB/s",
                        "share of copy"});
  const double gigabytes = static_cast<double>(values.size() * sizeof(float)) / 1e9;
  std::vector<float> target(values.size());
  for (const int threads : options.threads) {
    const Timing copy = time(options.repeats, [&] { copy_bytes(values, target, threads); });
    const Timing ours = time(options.repeats, [&] { work(threads); });
    table.add({what, options.spec, options.shape, std::string(loops().name), std::to_string(threads),
               cli::fixed(gigabytes / ours.best, 2), cli::fixed(gigabytes / ours.median, 2),
               cli::fixed(gigabytes / copy.median, 2), cli::fixed(copy.median / ours.median, 3)});
  }
  table.print();
}

void quantize_bench(const Options& options, bool back) {
  const QuantSpec spec = QuantSpec::parse(options.spec);
  const std::vector<uint64_t> shape = parse_shape(options.shape);
  const std::vector<float> values = normal_values(matrix_shape(shape).take().size());
  if (!back) {
    return against_copy(options, "quantize", values, [&](int threads) {
      quantize(spec, values, shape, {threads, ""});
    });
  }
  const QuantizedTensor tensor = quantize(spec, values, shape);
  std::vector<float> out(values.size());
  against_copy(options, "dequantize", values, [&](int threads) { dequantize(tensor.view(), out, threads); });
}

void multiply_bench(const Options& options) {
  const std::vector<uint64_t> shape = parse_shape(options.shape);
  const std::vector<float> values = normal_values(matrix_shape(shape).take().size());
  const size_t rows = shape.at(0), cols = shape.at(1);
  const runtime::FloatMatrix dense(rows, cols, std::span<const float>(values));
  const QuantizedTensor tensor = quantize(QuantSpec::parse(options.spec), values, shape);
  const runtime::PackedMatrix packed(tensor.view());
  Table table(options,
              {"work", "spec", "shape", "batch", "packed GFLOP/s", "float GFLOP/s", "packed over float"});
  for (const int batch : options.batch) {
    const auto n = static_cast<size_t>(batch);
    const std::vector<float> x = normal_values(n * cols);
    std::vector<float> y(n * rows);
    const Timing theirs = time(options.repeats, [&] { dense.multiply(x, n, y); });
    const Timing ours = time(options.repeats, [&] { packed.multiply(x, n, y); });
    const double operations = 2e-9 * static_cast<double>(n * rows * cols);
    table.add({"multiply", options.spec, options.shape, std::to_string(batch),
               cli::fixed(operations / ours.median, 2), cli::fixed(operations / theirs.median, 2),
               cli::fixed(theirs.median / ours.median, 3)});
  }
  table.print();
}

void add(CLI::App& app, const char* name, const char* summary, std::function<void(const Options&)> work) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(name, summary);
  verb->add_option("--spec", options->spec, "The quantizer");
  verb->add_option("--shape", options->shape, "The tensor, as in 4096x4096");
  verb->add_option("--threads", options->threads, "Numbers of threads, as in 1,2")->delimiter(',');
  verb->add_option("--batch", options->batch, "Numbers of vectors (multiply), as in 1,64")->delimiter(',');
  verb->add_option("--repeats", options->repeats, "Timed runs of each")->check(CLI::Range(1, 1000));
  verb->add_flag("--json", options->json, "Print JSON");
  verb->callback([options, work] { work(*options); });
}

}  // namespace
}  // namespace crumb::bench

int main(int argc, char** argv) {
  using namespace crumb::bench;
  CLI::App app("Crumb's benchmarks: ratios measured in one run", "crumb-bench");
  app.require_subcommand(1);
  add(app, "quantize", "Quantizing against copying the same bytes",
      [](const Options& o) { quantize_bench(o, false); });
  add(app, "dequantize", "Dequantizing against copying", [](const Options& o) { quantize_bench(o, true); });
  add(app, "multiply", "A packed matrix product against the float one", multiply_bench);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crumb-bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
