// Constants that have their codes already, while stages change a network in floats: codes are of the numbers that they were found
// for, and of no others.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Whether the plan has codes of that constant.
bool has_codes(const Setting& setting, const std::string& constant);

/// What the quantized network will have for it: what its codes mean, what a stage settled, or the graph's own.
graph::Tensor numbers_of(const Setting& setting, const std::string& constant);

/// The quantized network gets these numbers for the constant, or what its spec makes of them; the graph, which is in floats, stays.
void settle_constant(Setting& setting, const std::string& constant, graph::Tensor numbers);

/// Each constant that is to become codes has them from here on, those of rounding where no stage chose others; the network, too, and
/// what was settled.
void settle_codes(Setting& setting, graph::Graph& network);

/// Of all constants with codes, and of those that were settled, what these are of.
class SettledCodes {
 public:
  explicit SettledCodes(const Setting& setting);

  /// Throws Error where a constant has other numbers now, and the codes, or what was settled, of before: the stage would have made
  /// another network.
  void expect_good(const Setting& setting, const Stage& stage) const;

 private:
  struct Settled {
    graph::Tensor numbers;
    std::shared_ptr<const QuantizedTensor>
        codes;  ///< held, so that no others can come to lie where they did; null: settled in floats
  };
  std::map<std::string, Settled> settled_;
};

}  // namespace crumb::ptq
