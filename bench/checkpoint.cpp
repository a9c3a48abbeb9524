// crumb-bench checkpoint: `crumb quantize` over a whole checkpoint, against reading its files once and against
// copying them (read and write), all warm, in turns.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/files/text.h"
#include "bench/bench.h"
#include "bench/temporary_folder.h"
#include "cli/output.h"

namespace crumb::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBuffer = size_t{1} << 20;

std::vector<fs::path> files_of(const fs::path& input) {
  if (!fs::is_directory(input)) return {input};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(input)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

/// Reads a file through; writes what it read to `target` where there is one.
void read_through(const fs::path& file, const fs::path* target) {
  static std::vector<char> buffer(kBuffer);
  const auto close = [](std::FILE* f) { std::fclose(f); };
  using File = std::unique_ptr<std::FILE, decltype(close)>;
  const File in(std::fopen(file.c_str(), "rb"), close);
  if (!in) throw Error("cannot read " + quote_text(file.string()));
  std::setvbuf(in.get(), nullptr, _IONBF, 0);
  const File out(target ? std::fopen(target->c_str(), "wb") : nullptr, close);
  if (target && !out) throw Error("cannot write " + quote_text(target->string()));
  if (out) std::setvbuf(out.get(), nullptr, _IONBF, 0);
  while (const size_t count = std::fread(buffer.data(), 1, kBuffer, in.get())) {
    if (out && std::fwrite(buffer.data(), 1, count, out.get()) != count) {
      throw Error("cannot write " + quote_text(target->string()));
    }
  }
}

}  // namespace

void checkpoint_bench(const Options& options) {
  if (options.input.empty()) throw usage_error("checkpoint: expected --input with a checkpoint");
  const fs::path crumb = crumb_beside(options);
  const std::vector<fs::path> files = files_of(options.input);
  double gigabytes = 0;
  for (const fs::path& file : files) gigabytes += static_cast<double>(fs::file_size(file)) / 1e9;
  const TemporaryFolder folder;
  Table table(options, {"work", "spec", "input", "GB", "threads", "best s", "median s", "best GB/s",
                        "median GB/s", "read s", "times reading", "cp s", "times cp"});
  for (const int threads : options.threads) {
    const auto read_all = [&](bool copies) {
      for (size_t i = 0; i < files.size(); ++i) {
        const fs::path target = folder.path() / std::to_string(i);
        read_through(files[i], copies ? &target : nullptr);
        if (copies) fs::remove(target);
      }
    };
    const fs::path output = folder.path() / "out.crumb";
    const std::vector<Timing> timings = time_in_turns(
        options.repeats, {[&] { read_all(false); }, [&] { read_all(true); },
                          [&] {
                            run({crumb.string(), "quantize", options.input, "-o", output.string(),
                                 "--weights", options.spec, "--threads", std::to_string(threads)});
                            fs::remove(output);
                          }});
    const Timing &read = timings[0], &copy = timings[1], &own = timings[2];
    table.add({"checkpoint", options.spec, fs::path(options.input).filename().string(), fixed(gigabytes, 3),
               std::to_string(threads), fixed(own.best, 3), fixed(own.median, 3), speed(gigabytes, own.best),
               speed(gigabytes, own.median), fixed(read.median, 3), times_as_fast(own, read, 2),
               fixed(copy.median, 3), times_as_fast(own, copy, 2)});
  }
  table.print();
}

}  // namespace crumb::bench
