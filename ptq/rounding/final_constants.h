// Constants with final codes or values, while stages change the float network: these belong to the floats
// from which they were made, and to no others.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "ptq/stages.h"

namespace crumb::ptq {

/// Whether the plan has codes of that constant.
bool has_codes(const Setting& setting, const std::string& constant);

/// Returns its values in the quantized network: those of its codes, those that a stage set, or the graph's.
graph::Tensor numbers_of(const Setting& setting, const std::string& constant);

/// Gives the constant these values in the quantized network, or their codes if it has a spec. The graph,
/// which is float, does not change.
void set_final_values(Setting& setting, const std::string& constant, graph::Tensor numbers);

/// Gives each constant of the plan with a spec its codes, by rounding if no stage chose any. Puts them, and
/// the values that stages set, into `network`.
void finish_constants(Setting& setting, graph::Graph& network);

/// Remembers the floats of all constants with final codes or values.
class FinalConstants {
 public:
  explicit FinalConstants(const Setting& setting);

  /// Throws Error where a constant has other floats now, and still its codes or values: the stage would
  /// change the network that they belong to.
  void expect_good(const Setting& setting, const Stage& stage) const;

 private:
  struct Final {
    graph::Tensor numbers;
    std::shared_ptr<const QuantizedTensor>
        codes;  ///< held, so that no other tensor can get their address; null: the constant has final values
  };
  std::map<std::string, Final> final_;
};

}  // namespace crumb::ptq
