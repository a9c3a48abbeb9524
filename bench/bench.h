// What the benchmarks of crumb-bench share: options, timing side by side, tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace crumb::bench {

struct Options {
  std::string spec = "int4:group=128", shape = "4096x4096", shapes;
  std::string input, crumb, python, llama;
  std::vector<std::string> specs = {"int8:group=32", "int4:group=32", "mxfp4", "nvfp4", "int3:group=64"};
  std::vector<int> threads = {1, 2}, batch = {1, 64};
  int repeats = 9;
  std::vector<std::string> layers, input_shapes;  ///< of convolutions; NAME=SIZES of a network's inputs
  bool json = false, made = false;
  bool cold = false, fast = false;
  std::string layout = "rows";  ///< of codes: rows or tiles
};

struct NamedShape {
  std::string name;  ///< the shape itself where it has no other
  std::vector<uint64_t> shape;
};

/// The shapes of --shapes FILE, lines "name RxC" with comments after '#', or the one of --shape.
std::vector<NamedShape> shapes_of(const Options& options);

struct Timing {
  double best = 0, median = 0;  ///< seconds; 0 where nothing was timed
};

/// Times each work `repeats` times, in turns, so that what else the machine does meets all alike; the first
/// turn does not count. An empty work is left out.
std::vector<Timing> time_in_turns(int repeats, const std::vector<std::function<void()>>& works);

/// The same for works that say themselves how many seconds they took.
std::vector<Timing> self_timed_in_turns(int repeats, const std::vector<std::function<double()>>& works);

/// GB/s; "-" where nothing was timed.
std::string speed(double gigabytes, double seconds);
/// "-" where nothing was timed.
std::string milliseconds(double seconds);
/// `other` over `ours`: how many times as fast ours is; "-" where the other was not timed.
std::string times_as_fast(const Timing& other, const Timing& ours, int digits);

/// Every thread of this process, those to come and child processes too, on the first `cpus` of the processors
/// that it was started on.
void pin_to(int cpus);

/// Normally distributed, standard deviation 0.02, the same at every call.
std::vector<float> normal_values(size_t count);

/// Copies with as many threads.
void copy_bytes(const std::vector<float>& from, std::vector<float>& to, int threads);

/// The crumb command that --crumb names, or the one beside this program.
std::filesystem::path crumb_beside(const Options& options);

/// Runs a program, whose standard output is nobody's. Throws Error where it fails.
void run(const std::vector<std::string>& arguments);

/// The Python that --python names, or the one that scripts/setup makes.
std::string python_of(const Options& options);

/// Rows of cells, printed as a table or, with --json, as an array of objects.
class Table {
 public:
  Table(const Options& options, std::vector<std::string> head) : json_(options.json) {
    rows_.push_back(std::move(head));
  }
  void add(const std::vector<std::string>& cells) { rows_.push_back(cells); }
  void print() const;

 private:
  bool json_;
  std::vector<std::vector<std::string>> rows_;
};

void quantize_bench(const Options& options);
void dequantize_bench(const Options& options);
void distortion_bench(const Options& options);
void multiply_bench(const Options& options);
void convolution_bench(const Options& options);
void checkpoint_bench(const Options& options);
void graph_bench(const Options& options);
void runtime_bench(const Options& options);
void ptq_bench(const Options& options);
void qat_bench(const Options& options);
void lm_bench(const Options& options);

}  // namespace crumb::bench
