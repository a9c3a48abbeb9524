// ONNX files as graphs: what parses is sound, is written and read again, and passes keep it sound or say why not.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "analysis/accumulator/check.h"
#include "analysis/accumulator/simulate.h"
#include "graph/control/decide.h"
#include "graph/facts/infer_datatypes.h"
#include "graph/onnx/if_nodes.h"
#include "graph/onnx/infer_shapes.h"
#include "graph/onnx/read.h"
#include "graph/onnx/schemas.h"
#include "graph/onnx/wire/domains.h"
#include "graph/onnx/write.h"
#include "graph/passes/opset.h"
#include "graph/passes/passes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_onnx.h"

namespace crumb::testing {
namespace {

namespace fs = std::filesystem;
using graph::Graph;

constexpr std::string_view kSecret = "KEEP-OUT-KEEP-OUT-KEEP-OUT";

/// A model's folder with data in it, inside a folder whose data are nobody's business.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "crumb-fuzz-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "a folder can be made");
    root_ = name;
    fs::create_directories(model() / "sub");
    std::ofstream(root_ / "outside.bin") << kSecret << kSecret;
    std::ofstream(model() / "weights.bin") << std::string(64, '\1');
    std::ofstream(model() / "sub" / "weights.bin") << std::string(64, '\2');
    fs::create_symlink("../outside.bin", model() / "link.bin");
    fs::create_symlink("..", model() / "up");
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  fs::path model() const { return root_ / "model"; }

 private:
  fs::path root_;
};

void check_sound(const Graph& made) {
  const Graph again = graph::sorted(made);
  require(std::ranges::equal(again.nodes, made.nodes, {}, &graph::Node::name, &graph::Node::name),
          "nodes stand in an order in which they can be executed");
}

void check_nothing_from_outside(const Graph& made) {
  for (const auto& [name, tensor] : made.initializers) {
    const std::string_view bytes = text_of(tensor.bytes());
    require(bytes.find(kSecret.substr(0, 8)) == std::string_view::npos, "external data stay in the folder");
  }
}

/// What `change` makes of the graph is sound, or it says why it cannot.
template <class Change>
void check_change(const Graph& from, const Change& change) {
  Graph made;
  try {
    made = change(from);
  } catch (const Error& error) {
    require(*error.what() != '\0', "an error says why");
    return;
  }
  check_sound(made);
  require(made.outputs.size() == from.outputs.size(), "the outputs stay");
}

void check_written(const Graph& made, const fs::path& folder) {
  std::string bytes;
  try {
    bytes = graph::onnx_bytes(made);
  } catch (const Error&) {
    return;  // what the graph does not hold
  }
  const Graph again = require_ok(graph::parse_onnx(bytes_of(bytes), folder), "what is written is read");
  require(again.nodes.size() == made.nodes.size() && again.initializers == made.initializers,
          "what is written is what there was");
}

/// Whatever a file claims about accumulators, counting them again ends, and so does building their registers.
void check_counted(const Graph& read) {
  try {
    analysis::check_accumulators(read);
    analysis::simulate_accumulators(read, 16, OverflowMode::kCheck);
  } catch (const Error& error) {
    require(*error.what() != '\0', "an error says why");
  }
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  static const Folder folder;
  const bool has_secret = text_of(input).find(kSecret.substr(0, 8)) != std::string_view::npos;
  const auto parsed = graph::parse_onnx(input, folder.model());
  if (!is_ok(parsed)) return;
  const Graph& read = parsed.value();
  check_sound(read);
  if (!has_secret) check_nothing_from_outside(read);
  check_written(read, folder.model());
  for (const graph::Pass& pass : graph::all_passes()) {
    if (!pass.needs_engine) check_change(read, [&](const Graph& from) { return pass.run(from, nullptr); });
  }
  for (const std::int64_t target : {std::int64_t{13}, graph::kNewestOpset}) {
    check_change(read, [&](const Graph& from) { return graph::with_opset(from, target); });
  }
  check_change(read, [](const Graph& from) { return graph::annotate_integers(graph::infer_shapes(from)); });
  check_change(read, graph::decide_control_flow);
  check_change(read, graph::with_if_nodes);
  check_counted(read);
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_onnx, data, size, most, seed);
}
