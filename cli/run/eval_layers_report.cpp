#include "cli/run/eval_layers_report.h"

#include <iostream>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "cli/output.h"

namespace crumb::cli {
namespace {

std::string decibels(const std::optional<double>& value) { return value ? fixed(*value, 2) : "-"; }

std::string range_text(const jobs::EvaluateLayer& layer) {
  if (!layer.low || !layer.high) return "-";
  return number_text(static_cast<float>(*layer.low)) + " to " + number_text(static_cast<float>(*layer.high));
}

}  // namespace

void print(const jobs::EvaluateLayers& layers) {
  if (layers.layers.empty()) return;
  std::cout << "layers, by what they cost alone, on " << count_text(layers.samples, "sample");
  if (layers.sqnr_db) std::cout << "; together SQNR " << fixed(*layers.sqnr_db, 2) << " dB";
  std::cout << "\n";
  std::vector<std::vector<std::string>> rows{{"layer", "weights", "input", "weights dB", "alone dB",
                                              "accumulated dB", "takes in", "clipped %", "dead",
                                              "accumulator"}};
  for (const jobs::EvaluateLayer& layer : layers.layers)
    rows.push_back(
        {printable(layer.name), layer.weights, layer.input.empty() ? "-" : layer.input,
         decibels(layer.weights_sqnr_db), decibels(layer.alone_db), decibels(layer.accumulated_db),
         range_text(layer), layer.clipped ? fixed(*layer.clipped, 2) : "-",
         layer.channels ? std::to_string(*layer.dead_channels) + "/" + std::to_string(*layer.channels) : "-",
         layer.bits_needed ? std::to_string(*layer.bits_needed) + "/" + std::to_string(*layer.bits_there)
                           : "-"});
  print_table(std::move(rows));
  if (layers.advice.empty()) return;
  std::cout << "put back, for crumb quantize:\n";
  for (const jobs::LayerAdvice& advice : layers.advice)
    std::cout << "  " << printable(advice.set) << "   # SQNR " << fixed(advice.sqnr_db, 2) << " dB, "
              << fixed(advice.gain_db, 2) << " more; " << advice.bytes << " bytes of codes more\n";
  if (layers.advised_db) std::cout << "  all of these: SQNR " << fixed(*layers.advised_db, 2) << " dB\n";
}

}  // namespace crumb::cli
