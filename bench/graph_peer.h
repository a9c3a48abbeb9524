// Another executor of graphs, in a process of its own: bench/graph_peers.py, which times itself.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace crumb::bench {

class GraphPeer {
 public:
  /// Starts `python graph_peers.py KIND ...` and waits until it is ready or says why it is not. `folder` takes the
  /// tensors on their way.
  GraphPeer(const std::string& python, const std::string& kind, const std::filesystem::path& model,
            int threads, const std::vector<graph::Tensor>& inputs, const std::filesystem::path& folder);
  ~GraphPeer();
  GraphPeer(const GraphPeer&) = delete;
  GraphPeer& operator=(const GraphPeer&) = delete;

  const std::string& absent() const { return absent_; }    ///< why there is no such executor; empty: there is
  const graph::Tensor& output() const { return output_; }  ///< the first, of the same inputs

  /// Seconds that so many runs take. Throws Error where the process has ended.
  double run(int times);

 private:
  std::string read_line();

  int child_ = 0;
  int to_ = -1, from_ = -1;
  std::string absent_;
  graph::Tensor output_;
};

}  // namespace crumb::bench
