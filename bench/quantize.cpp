// crumb-bench quantize, dequantize, distortion: GB/s of float32, against copying the same bytes and against
// the same job written with LibTorch's operators, with as many threads.
#include <algorithm>
#include <cstdio>

#include "bench/bench.h"
#include "bench/torch_job.h"
#include "cli/output.h"
#include "quant/distortion.h"
#include "quant/loops/loops.h"
#include "quant/quantizer.h"

namespace crumb::bench {
namespace {

using Work = std::function<void(int threads)>;

/// One row a number of threads.
void add_rows(Table& table, const Options& options, const char* what, const NamedShape& shape,
              const std::vector<float>& values, const Work& ours, const Work& theirs) {
  const double gigabytes = static_cast<double>(values.size() * sizeof(float)) / 1e9;
  std::vector<float> target(values.size());
  for (const int threads : options.threads) {
    std::vector<std::function<void()>> works{[&] { copy_bytes(values, target, threads); },
                                             [&] { ours(threads); }, nullptr};
    if (theirs) works[2] = [&] { theirs(threads); };
    const std::vector<Timing> timings = time_in_turns(options.repeats, works);
    const Timing &copy = timings[0], &own = timings[1], &torch = timings[2];
    table.add({what, options.spec, shape.name, std::string(loops().name), std::to_string(threads),
               speed(gigabytes, own.best), speed(gigabytes, own.median), speed(gigabytes, copy.median),
               times_as_fast(copy, own, 3), speed(gigabytes, torch.median), times_as_fast(torch, own, 1)});
  }
}

Table make_table(const Options& options) {
  return {options,
          {"work", "spec", "shape", "loops", "threads", "best GB/s", "median GB/s", "copy GB/s",
           "share of copy", "LibTorch GB/s", "times LibTorch"}};
}

/// The job in LibTorch, if there is one; says why not, and checks once that it does the same.
std::unique_ptr<TorchJob> torch_job(const QuantSpec& spec, const QuantizedTensor& tensor,
                                    const std::vector<float>& values) {
  std::unique_ptr<TorchJob> job =
      make_torch_job(spec, values, tensor.layout.matrix.rows, tensor.layout.matrix.cols);
  if (!job) {
    std::fprintf(
        stderr, "crumb-bench: %s\n",
        has_torch()
            ? "no LibTorch version of this spec is written (int2 to int8, absmax, by group or channel are)"
            : "built without LibTorch: nothing to compare with");
    return job;
  }
  job->quantize(1);
  const uint64_t differ = job->differing_bytes(tensor.codes, tensor.scales);
  if (differ > 0) {
    std::fprintf(stderr, "crumb-bench: LibTorch's codes and scales differ from ours in %llu bytes\n",
                 static_cast<unsigned long long>(differ));
  }
  return job;
}

void tensor_bench(const Options& options, bool back) {
  const QuantSpec spec = QuantSpec::parse(options.spec);
  Table table = make_table(options);
  for (const NamedShape& shape : shapes_of(options)) {
    const std::vector<float> values = normal_values(matrix_shape(shape.shape).take().size());
    const QuantizedTensor tensor = quantize(spec, values, shape.shape);
    const std::unique_ptr<TorchJob> job = torch_job(spec, tensor, values);
    if (back) {
      std::vector<float> out(values.size());
      if (job) {
        dequantize(tensor.view(), out, 1);
        job->dequantize(1);
        if (const uint64_t differ = job->differing_values(out); differ > 0) {
          std::fprintf(stderr, "crumb-bench: LibTorch restores %llu other values\n",
                       static_cast<unsigned long long>(differ));
        }
      }
      // Both write into memory that they have written to before.
      add_rows(
          table, options, "dequantize", shape, values,
          [&](int threads) { dequantize(tensor.view(), out, threads); },
          job ? Work([&](int threads) { job->dequantize(threads); }) : nullptr);
    } else {
      // Both make their results anew each time.
      add_rows(
          table, options, "quantize", shape, values,
          [&](int threads) {
            quantize(spec, values, shape.shape, {threads, ""});
          },
          job ? Work([&](int threads) { job->quantize(threads); }) : nullptr);
    }
  }
  table.print();
}

}  // namespace

void quantize_bench(const Options& options) { tensor_bench(options, false); }

void dequantize_bench(const Options& options) { tensor_bench(options, true); }

void distortion_bench(const Options& options) {
  Table table = make_table(options);
  for (const NamedShape& shape : shapes_of(options)) {
    const std::vector<float> values = normal_values(matrix_shape(shape.shape).take().size());
    std::vector<float> others(values.size());
    fake_quantize(QuantSpec::parse(options.spec), values, shape.shape, others);
    add_rows(
        table, options, "distortion", shape, values,
        [&](int threads) { distortion(values, others, threads); }, nullptr);
  }
  table.print();
}

}  // namespace crumb::bench
