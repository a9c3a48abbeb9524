#include "bench/graph_peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/files/text.h"
#include "graph/onnx/array_files.h"

extern char** environ;

namespace crumb::bench {
namespace {

constexpr const char* kScript = CRUMB_SOURCE_DIR "/bench/graph_peers.py";

}  // namespace

GraphPeer::GraphPeer(const std::string& python, const std::string& kind, const std::filesystem::path& model,
                     int threads, const std::vector<graph::Tensor>& inputs,
                     const std::filesystem::path& folder) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> arguments = {python, kScript, kind, model.string(), std::to_string(threads)};
  arguments.reserve(arguments.size() + inputs.size() + 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back((folder / ("input_" + std::to_string(i) + ".npy")).string());
    graph::write_array(arguments.back(), inputs[i]);
  }
  const std::filesystem::path output = folder / "output.npy";
  arguments.push_back(output.string());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw Error("cannot make pipes");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const int failed = posix_spawn(&child_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (failed) {
    child_ = 0;
    absent_ = "cannot start " + quote_text(python);
    return;
  }
  const std::string said = read_line();
  if (said == "ready") {
    output_ = graph::read_array(output);
  } else {
    absent_ = said.starts_with("absent ") ? said.substr(7) : "it ended before it was ready";
  }
}

GraphPeer::~GraphPeer() {
  close(to_);
  close(from_);
  int status = 0;
  while (child_ && waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
}

std::string GraphPeer::read_line() {
  std::string line;
  for (char c = 0; read(from_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

double GraphPeer::run(int times) {
  const std::string ask = std::to_string(times) + "\n";
  const bool asked = write(to_, ask.data(), ask.size()) == static_cast<ssize_t>(ask.size());
  const std::string said = asked ? read_line() : "";
  if (said.empty()) throw Error("bench/graph_peers.py ended before its time");
  return std::strtod(said.c_str(), nullptr);
}

}  // namespace crumb::bench
