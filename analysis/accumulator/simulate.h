// Simulates layers in registers of P bits: integer codes times integer inputs, one addition after the other.
//
// A row's terms are added in the order of the weight's summed axes (channels before the kernel's), after the
// bias where it is inside. The tiles of a certificate are registers of their own; at the end a wider one
// (outer_accumulator_bits) adds them up. What a certificate says about widths and sums is not used. This
// needs no LibTorch; RegisterEngine (register_engine.h) runs whole graphs this way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/accumulator/layers.h"
#include "quant/accumulator/simulated_register.h"

namespace crumb::analysis {

/// Windows over the spatial axes of [N, C, D...]; of a transposed convolution, over its result. One entry for
/// an axis.
struct WindowSteps {
  std::vector<std::int64_t> input, output;
  std::vector<std::int64_t> strides, dilations;
  std::vector<std::int64_t>
      begin;  ///< padding before; for a transposed convolution, what is cut off from its full result
};

/// The overflows of a layer's registers.
struct OverflowReport {
  struct First {
    std::size_t result;               ///< row-major
    std::size_t channel;              ///< of the layer's rows
    std::optional<std::size_t> tile;  ///< nothing: the only one
    std::int64_t sum;
    std::size_t terms, of;  ///< of the register's terms, and how many of them are in the sum
    int bits;
  };
  std::int64_t results = 0, overflowed = 0;  ///< sums computed, and those with an overflow on the way
  std::int64_t additions = 0;                ///< that overflowed
  std::optional<First> first;                ///< of the first such result
};

class SimulatedLayer {
 public:
  /// Precondition: why_not_simulated() is empty. That is, the layer has codes or the range of a computed
  /// weight, an input range and scale, one scale for each row, and worst sums within kMostSimulatedSum.
  SimulatedLayer(const ProductLayer& layer, std::size_t tile, const SimulatedRegister& inner);

  const std::string& name() const { return name_; }
  const std::string& op() const { return op_; }
  const graph::ProductRule& rule() const { return *rule_; }
  ProductLayer::Kind kind() const { return kind_; }
  std::size_t weight_at() const { return weight_at_; }  ///< ProductLayer's
  bool weight_first() const { return weight_first_; }
  const std::vector<std::int64_t>& weight_shape() const { return weight_shape_; }  ///< ProductLayer's
  std::size_t channels() const { return channels_; }
  std::size_t length() const { return length_; }
  bool bias_inside() const { return !bias_.empty(); }
  /// For each channel: a result is its sum times this.
  const std::vector<double>& result_scale() const { return result_scale_; }

  /// value / (scale * unit). Throws Error, which names the layer, where one is not such a whole number, or is
  /// outside of the range that the graph says.
  std::vector<std::int64_t> input_codes(std::span<const double> values) const;
  /// The same for the values of a computed weight.
  std::vector<std::int64_t> weight_codes(std::span<const double> values) const;
  /// For integers minus their zero point: throws Error where one is out of range.
  void check_inputs(std::span<const std::int64_t> codes) const;
  void check_weights(std::span<const std::int64_t> codes) const;

  /// Whether the weight is computed: set_codes() must then come before each product.
  bool has_computed_weight() const { return weight_range_.has_value(); }
  /// [channels, length], the terms in the order of the weight's summed axes; `shape`: weight_shape().
  void set_codes(std::vector<std::int64_t> codes, std::vector<std::int64_t> shape);

  /// inputs: [rows, length]. sums: [rows, channels], of channels [first, first + channels).
  void multiply(std::span<const std::int64_t> inputs, std::size_t first, std::size_t channels,
                std::span<std::int64_t> sums, int threads = 0);

  /// kConvolution, kTransposed. inputs: [samples, C, input...]; sums: [samples, M, output...].
  void convolve(std::span<const std::int64_t> inputs, const WindowSteps& steps, std::span<std::int64_t> sums,
                int threads = 0);

  /// Since construction; `first` is from the earliest call.
  const OverflowReport& report() const { return report_; }
  /// "layer 'fc' (Gemm), output channel 3: ..." Precondition: report().first.
  std::string text_of_overflow() const;
  const SimulatedRegister& inner() const { return inner_; }

 private:
  struct Register {
    std::size_t begin = 0, end = 0, tile = 0;  ///< indices into order_
  };
  /// The registers whose terms belong to one result.
  struct Part {
    std::size_t begin = 0, end = 0;  ///< in registers_
  };

  class Windows;

  /// Called once there are codes: a file may claim a computed weight with more terms than memory holds.
  void order_terms();
  std::vector<std::int64_t> on_grid(std::span<const double> values, double step, IntegerRange range,
                                    const char* what) const;
  void check_range(std::span<const std::int64_t> codes, IntegerRange range, const char* what) const;
  /// `inputs`: one for each index of order_. part: an index of parts_, or parts_.size() for a result without
  /// terms.
  std::int64_t sum(std::size_t channel, std::size_t part, std::span<const std::int64_t> inputs,
                   std::size_t result, OverflowReport& report) const;
  /// Calls work(i, report) for every i below count, and adds up the reports.
  using Work = std::function<void(std::size_t i, OverflowReport& report)>;
  void run(std::size_t count, int threads, const Work& work);

  std::string name_, op_;
  const graph::ProductRule* rule_;
  ProductLayer::Kind kind_;
  std::size_t weight_at_;
  bool weight_first_;
  std::vector<std::int64_t> weight_shape_, strides_, dilations_;
  std::size_t groups_, channels_, length_;
  std::vector<std::int64_t> codes_;  ///< [channels, length], terms in the order of order_
  std::vector<std::size_t> order_;   ///< indices of terms, in the order of addition
  std::vector<std::uint32_t> part_;  ///< of each term; empty: there is only one
  std::vector<Register> registers_;
  std::vector<Part> parts_;
  std::vector<std::int64_t> bias_;
  std::vector<double> result_scale_;
  IntegerRange range_;
  std::optional<IntegerRange> weight_range_;
  double input_step_, weight_step_;
  SimulatedRegister inner_, outer_;
  std::size_t tile_;
  OverflowReport report_;
};

/// The layers of a graph in registers.
struct AccumulatorSimulation {
  struct Product {
    std::string output;    ///< the value that the layer's node makes
    std::string bias_sum;  ///< the output of an Add that adds a bias which is inside of the product, or ""
    std::shared_ptr<SimulatedLayer> layer;  ///< its report grows as the graph runs
  };
  struct Skipped {
    std::string name, op, reason;
  };
  std::vector<Product> products;
  std::vector<Skipped> skipped;  ///< products that run as usual, and why
};

/// Why a layer has no integer sums that could be simulated; "" where it has.
std::string why_not_simulated(const ProductLayer& layer);

/// Tiles are the certificates'; a bias is where the layer has it. `constrained_only`: the layers whose
/// certificate says that training kept them within a width. Throws Error as ProductLayers does, and where no
/// layer can be simulated; for bits outside of 2 to 63.
AccumulatorSimulation simulate_accumulators(const graph::Graph& graph, int bits, OverflowMode mode,
                                            const GivenRanges& ranges = {}, bool constrained_only = false);

}  // namespace crumb::analysis
