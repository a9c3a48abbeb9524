#include "bench/bench.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/files/text.h"
#include "base/threads/parallel.h"
#include "cli/output.h"

extern char** environ;

namespace crumb::bench {
namespace {

std::vector<uint64_t> parse_shape(const std::string& text) {
  std::vector<uint64_t> shape;
  uint64_t elements = 1;
  std::stringstream axes(text);
  for (std::string axis; std::getline(axes, axis, 'x');) {
    const bool digits =
        !axis.empty() && axis.size() < 12 && axis.find_first_not_of("0123456789") == axis.npos;
    shape.push_back(digits ? std::stoull(axis) : 0);
    const bool fits = shape.back() > 0 && elements <= (uint64_t{1} << 40) / shape.back();
    if (!fits) throw usage_error("expected a shape as in 4096x4096, found " + quote_text(text));
    elements *= shape.back();
  }
  if (shape.empty()) throw usage_error("expected a shape as in 4096x4096, found nothing");
  return shape;
}

}  // namespace

std::vector<NamedShape> shapes_of(const Options& options) {
  if (options.shapes.empty()) return {{options.shape, parse_shape(options.shape)}};
  std::ifstream file(options.shapes);
  if (!file) throw usage_error("cannot read the shapes in " + quote_text(options.shapes));
  std::vector<NamedShape> shapes;
  for (std::string line; std::getline(file, line);) {
    std::stringstream words(line.substr(0, line.find('#')));
    std::string name, shape, more;
    if (!(words >> name)) continue;
    if (!(words >> shape) || words >> more) {
      throw usage_error(options.shapes + ": expected a line 'name RxC', found " + quote_text(line));
    }
    shapes.push_back({name, parse_shape(shape)});
  }
  if (shapes.empty()) throw usage_error("there is no shape in " + quote_text(options.shapes));
  return shapes;
}

std::vector<Timing> self_timed_in_turns(int repeats, const std::vector<std::function<double()>>& works) {
  std::vector<std::vector<double>> seconds(works.size());
  for (int turn = 0; turn <= repeats; ++turn) {
    for (size_t i = 0; i < works.size(); ++i) {
      if (!works[i]) continue;
      const double took = works[i]();
      if (turn > 0) seconds[i].push_back(took);
    }
  }
  std::vector<Timing> timings;
  for (std::vector<double>& each : seconds) {
    std::ranges::sort(each);
    timings.push_back(each.empty() ? Timing{} : Timing{each.front(), each[each.size() / 2]});
  }
  return timings;
}

std::vector<Timing> time_in_turns(int repeats, const std::vector<std::function<void()>>& works) {
  std::vector<std::function<double()>> timed;
  for (const std::function<void()>& work : works) {
    timed.emplace_back();
    if (!work) continue;
    timed.back() = [&work] {
      const double start = now_seconds();
      work();
      return now_seconds() - start;
    };
  }
  return self_timed_in_turns(repeats, timed);
}

std::string milliseconds(double seconds) { return seconds > 0 ? fixed(1e3 * seconds, 3) : "-"; }

std::string speed(double gigabytes, double seconds) {
  return seconds > 0 ? fixed(gigabytes / seconds, 2) : "-";
}

std::string times_as_fast(const Timing& other, const Timing& ours, int digits) {
  return other.median > 0 && ours.median > 0 ? fixed(other.median / ours.median, digits) : "-";
}

void pin_to(int cpus) {
  static const cpu_set_t all = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) throw Error("cannot ask for this process's processors");
    return set;
  }();
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (int cpu = 0, left = cpus; cpu < CPU_SETSIZE && left > 0; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, &wanted);
    --left;
  }
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    // One that has ended meanwhile needs no place.
    (void)sched_setaffinity(std::stoi(thread.path().filename()), sizeof wanted, &wanted);
  }
}

std::vector<float> normal_values(size_t count) {
  constexpr size_t kDrawn = size_t{1} << 20;  // then over again
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = i < kDrawn ? normal(random) : values[i - kDrawn];
  return values;
}

void copy_bytes(const std::vector<float>& from, std::vector<float>& to, int threads) {
  if (from.empty()) return;
  parallel_for(from.size(), (from.size() - 1) / static_cast<size_t>(threads) + 1, threads,
               [&](size_t begin, size_t end) {
                 std::memcpy(to.data() + begin, from.data() + begin, (end - begin) * sizeof(float));
               });
}

void Table::print() const {
  if (!json_) return cli::print_table(rows_);
  cli::Json all = cli::Json::array();
  for (size_t i = 1; i < rows_.size(); ++i) {
    cli::Json row;
    for (size_t k = 0; k < rows_[0].size(); ++k) {
      const std::string& cell = rows_[i][k];
      char* end = nullptr;
      const double number = std::strtod(cell.c_str(), &end);
      const bool is_number = !cell.empty() && *end == '\0';
      row[rows_[0][k]] = cell == "-" ? cli::Json(nullptr) : is_number ? cli::Json(number) : cli::Json(cell);
    }
    all.push_back(row);
  }
  cli::print_json(all);
}

std::filesystem::path crumb_beside(const Options& options) {
  if (!options.crumb.empty()) return options.crumb;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "crumb";
}

std::string python_of(const Options& options) {
  if (!options.python.empty()) return options.python;
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value ? value : "");
  };
  std::filesystem::path cache = variable("CRUMB_CACHE");
  if (cache.empty() && !variable("XDG_CACHE_HOME").empty()) cache = variable("XDG_CACHE_HOME") / "crumb";
  if (cache.empty()) cache = variable("HOME") / ".cache/crumb";
  return cache / "python/bin/python";
}

void run(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) throw Error("cannot start " + quote_text(arguments[0]));
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error(quote_text(arguments[0]) + " " + quote_text(arguments[1]) + " failed");
}

}  // namespace crumb::bench
