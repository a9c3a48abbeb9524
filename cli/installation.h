// Which parts of Crumb are on this machine, and which are missing: what crumb doctor prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace crumb::cli {

struct Installation {
  /// A part that is a file of its own.
  struct Part {
    std::string path, version;
  };
  /// A part that is missing, which jobs need it, and what installs it.
  struct Lack {
    std::string what;
    std::vector<std::string> needed_by;  ///< command lines, or parts of them
    std::string command;
  };
  /// A part that is there and cannot be used.
  struct Fault {
    std::string what, command;
  };

  Part crumb;
  std::optional<Part> libcrumb;
  std::string onnx, protobuf;
  std::optional<Part> engine;  ///< with LibTorch's version
  std::vector<std::string> devices;
  std::vector<std::string> sets_there, sets_used;  ///< instruction sets, from the least
  int threads = 0, processors = 0;
  std::string data;  ///< the folder of data sets
  std::vector<std::string> data_sets;
  std::vector<Lack> lacks;
  std::vector<Fault> faults;
};

Installation find_installation();

}  // namespace crumb::cli
