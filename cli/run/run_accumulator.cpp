#include "cli/run/run_accumulator.h"

#include <iostream>
#include <map>

#include "base/files/text.h"
#include "base/text/nearest_name.h"
#include "base/text/number.h"
#include "cli/flags/flag_group.h"
#include "cli/inspect/verify_accumulator.h"
#include "cli/output.h"

namespace crumb::cli {
namespace {

constexpr std::size_t kMostLayers = 20;  // layers that are listed at most

int bits_of(const std::string& text) {
  const auto bits = parse_number<int>(text);
  if (!bits || *bits < 2 || *bits > kMostAccumulatorBits) {
    throw usage_error("--accumulator " + quote_text(text) + ": expected a number of bits, 2 to " +
                      std::to_string(kMostAccumulatorBits));
  }
  return *bits;
}

OverflowMode mode_of(const std::string& text) {
  static const std::map<std::string, OverflowMode> kModes = {
      {"check", OverflowMode::kCheck}, {"wrap", OverflowMode::kWrap}, {"saturate", OverflowMode::kSaturate}};
  const auto found = kModes.find(text.empty() ? "check" : text);
  if (found == kModes.end()) {
    const std::vector<std::string> names{"check", "wrap", "saturate"};
    throw usage_error("--overflow: " + unknown_name("mode", text, names));
  }
  return found->second;
}

}  // namespace

void add_accumulator_flags(CLI::App& verb, RunAccumulatorFlags& options) {
  verb.add_option("--accumulator", options.bits,
                  "Add up the products of quantized layers in simulated registers of so many bits")
      ->type_name("BITS")
      ->group("Accumulators");
  verb.add_option("--overflow", options.overflow,
                  "What an overflow does: check, an error that names layer, channel and sum; wrap or "
                  "saturate (check)")
      ->type_name("check|wrap|saturate")
      ->group("Accumulators");
  verb.add_flag("--constrained-only", options.constrained_only,
                "Only the layers whose certificate says that training kept them within a width")
      ->group("Accumulators");
  verb.add_option("--input-range", options.ranges,
                  "NAME=lo:hi, the integers of an input that says nothing about them")
      ->type_name("NAME=LO:HI")
      ->group("Accumulators");
}

analysis::AccumulatorSimulation simulate_accumulators(const graph::Graph& graph,
                                                      const RunAccumulatorFlags& options) {
  analysis::AccumulatorSimulation simulation =
      analysis::simulate_accumulators(graph, bits_of(options.bits), mode_of(options.overflow),
                                      read_input_ranges(options.ranges), options.constrained_only);
  for (std::size_t i = 0; i < simulation.skipped.size() && i < kMostLayers; ++i) {
    const auto& one = simulation.skipped[i];
    std::cerr << "note: " << printable(one.name + " (" + one.op + ") is not simulated: " + one.reason)
              << "\n";
  }
  if (simulation.skipped.size() > kMostLayers)
    std::cerr << "note: nor are " << simulation.skipped.size() - kMostLayers << " more\n";
  return simulation;
}

void note_overflows(const analysis::AccumulatorSimulation& simulation) {
  std::int64_t sums = 0, overflowed = 0;
  for (const auto& product : simulation.products) {
    const analysis::OverflowReport& report = product.layer->report();
    sums += report.results;
    overflowed += report.overflowed;
    if (report.first) std::cerr << "note: " << printable(product.layer->text_of_overflow()) << "\n";
  }
  std::cerr << "note: " << simulation.products.size()
            << (simulation.products.size() == 1 ? " layer" : " layers") << " in accumulators of "
            << simulation.products.front().layer->inner().bits() << " bits: " << overflowed << " of " << sums
            << " sums overflowed\n";
}

}  // namespace crumb::cli
