// crumb verify: is a packed file whole and sound? Do the accumulators of a network hold its sums?
#include <iostream>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/text/number.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/verb.h"
#include "cli/inspect/verify_accumulator.h"
#include "cli/output.h"
#include "graph/packed/crumb_graph.h"
#include "quant/packed/packed_check.h"

namespace crumb::cli {
namespace {

void verify_file(const std::string& path) {
  const CrumbFile file = CrumbFile::open(path).take();
  check_packed_file(file).take(quote_text(path));
  const bool is_graph = graph::holds_graph(file.header());
  if (is_graph) graph::graph_of(file).take(quote_text(path));
  std::cout << path << ": sound, " << (is_graph ? "a graph, " : "") << megabytes(file.size()) << ", "
            << count_text(file.header().tensors.size(), "tensor") << ", "
            << count_text(file.header().files.size(), "file") << "\n";
}

struct VerifyFlags {
  VerifyAccumulatorFlags accumulators;
  std::string bits;  ///< what stands behind --accumulator
  bool counts = false;
};

/// `--accumulator MODEL` leaves BITS out.
void sort_out_bits(VerifyFlags& options) {
  if (options.bits.empty()) return;
  if (const auto bits = parse_number<int>(options.bits)) {
    options.accumulators.bits = bits;
  } else if (options.accumulators.path.empty()) {
    options.accumulators.path = options.bits;
  } else {
    throw usage_error("--accumulator " + quote_text(options.bits) +
                      ": expected a number of bits, or nothing");
  }
}

void verify_verb(VerifyFlags& options) {
  sort_out_bits(options);
  const VerifyAccumulatorFlags& accumulators = options.accumulators;
  if (accumulators.path.empty()) throw usage_error("give the file to verify");
  if (options.counts) return verify_accumulators(accumulators);
  const bool more = accumulators.json || !accumulators.ranges.empty() || !accumulators.witness.empty();
  if (more) throw usage_error("--json, --input-range and --witness are for --accumulator");
  verify_file(accumulators.path);
}

}  // namespace

void add_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyFlags>();
  VerifyAccumulatorFlags& accumulators = options->accumulators;
  CLI::App* verb = app.add_subcommand(
      "verify", "Check every checksum, range and shape of a packed file, or the accumulators of a network");
  verb->add_option("file", accumulators.path, "A packed file; with --accumulator an ONNX file, too")
      ->type_name("FILE");
  CLI::Option* bits =
      verb->add_option(
              "--accumulator", options->bits,
              "Recompute the worst sums of every layer from its codes and input types, and check its "
              "certificate; with BITS, whether constrained layers fit so many")
          ->type_name("BITS")
          ->group("Accumulators");
  bits->expected(0, 1);
  verb->add_option("--input-range", accumulators.ranges,
                   "NAME=lo:hi, whole numbers that an input holds where the file does not say, once for each")
      ->type_name("NAME=LO:HI")
      ->group("Accumulators");
  verb->add_option("--witness", accumulators.witness,
                   "A folder for one model of each layer, and the input that drives its sums furthest (.npy)")
      ->type_name("FOLDER")
      ->group(kOutputFlags);
  verb->add_flag("--json", accumulators.json, "Print JSON")->group(kOutputFlags);
  verb->footer(
      "Exit code 1 and what was found where, when anything is wrong.\n\nExamples:\n  crumb verify "
      "minilm.crumb\n"
      "  crumb verify digits.onnx --accumulator 8");
  verb->callback([options, bits] {
    options->counts = bits->count() > 0;
    verify_verb(*options);
  });
}

}  // namespace crumb::cli
