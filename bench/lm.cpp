#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/files/text.h"
#include "bench/bench.h"

namespace crumb::bench {
namespace {

constexpr const char* kLmScript = CRUMB_SOURCE_DIR "/bench/lm.py";

template <class Items, class Text>
std::string joined(const Items& items, const Text& text) {
  std::string line;
  for (const auto& item : items) line += (line.empty() ? "" : ",") + text(item);
  return line;
}

}  // namespace

void lm_bench(const Options& options) {
  std::vector<std::string> arguments = {
      python_of(options),
      kLmScript,
      crumb_beside(options),
      options.input,
      "--threads",
      joined(options.threads, [](int threads) { return std::to_string(threads); }),
      "--repeats",
      std::to_string(options.repeats),
      "--specs",
      joined(options.specs, [](const std::string& spec) { return spec; })};
  if (!options.llama.empty()) arguments.insert(arguments.end(), {"--llama", options.llama});
  arguments.insert(arguments.end(), {"--layout", options.layout});
  if (options.json) arguments.emplace_back("--json");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  throw Error("cannot start " + quote_text(arguments[0]) + ": " + std::strerror(errno));
}

}  // namespace crumb::bench
