// crumb verify: is a packed file whole and sound?
#include <iostream>

#include "cli/output.h"
#include "cli/verb.h"
#include "formats/io/text.h"
#include "models/graph/crumb/crumb_graph.h"
#include "quant/packed_check.h"

namespace crumb::cli {
namespace {

void verify_verb(const std::string& path) {
  const CrumbFile file = CrumbFile::open(path).take();
  check_packed_file(file).take(quote_text(path));
  const bool is_graph = graph::holds_graph(file.header());
  if (is_graph) graph::graph_of(file).take(quote_text(path));
  std::cout << path << ": sound, " << (is_graph ? "a graph, " : "") << megabytes(file.size()) << ", "
            << file.header().tensors.size() << " tensors, " << file.header().files.size() << " files\n";
}

}  // namespace

void add_verify(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("verify", "Check every checksum, range and shape of a packed file");
  verb->add_option("file", *path, "The packed file")->required();
  verb->footer(
      "Exit code 1 and what was found where, when anything is wrong.\n\nExample:\n  crumb verify "
      "minilm.crumb");
  verb->callback([path] { verify_verb(*path); });
}

}  // namespace crumb::cli
