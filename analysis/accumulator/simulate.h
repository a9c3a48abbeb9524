// Layers computed in registers of P bits: integer codes times integer inputs, one addition after the other.
//
// A row's terms are added in the order of the weight's summed axes (channels before the kernel's), the bias first where
// it lies inside. The tiles of a certificate are registers of their own; one that is wider (outer_accumulator_bits) adds
// up what they hold in the end. What a certificate says about widths and sums plays no part. Without LibTorch;
// RegisterEngine (register_engine.h) runs whole graphs so.
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

/// Windows over the spatial axes of [N, C, D...]; of a transposed convolution, over its result. One entry for an axis.
struct WindowSteps {
  std::vector<std::int64_t> input, output;
  std::vector<std::int64_t> strides, dilations;
  std::vector<std::int64_t>
      begin;  ///< padding before; of a transposed convolution what its full result loses there
};

/// How a layer's registers fared.
struct OverflowReport {
  struct First {
    std::size_t result;               ///< row-major
    std::size_t channel;              ///< of the layer's rows
    std::optional<std::size_t> tile;  ///< nothing: the only one
    std::int64_t sum;
    std::size_t terms, of;  ///< of the register's terms, those that are in the sum
    int bits;
  };
  std::int64_t results = 0, overflowed = 0;  ///< sums computed, and those with an overflow on the way
  std::int64_t additions = 0;                ///< that overflowed
  std::optional<First> first;                ///< of the first such result
};

class SimulatedLayer {
 public:
  /// Codes, or a range of a computed weight, an input range and scale are there, one scale for each row, and worst sums
  /// within kMostSimulatedSum: why_not_simulated() is empty.
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
  /// Of each channel: a result is its sum times this.
  const std::vector<double>& result_scale() const { return result_scale_; }

  /// value / (scale * unit). Throws Error, which names the layer, where one is no such whole number, or outside of the
  /// range that the graph says.
  std::vector<std::int64_t> input_codes(std::span<const double> values) const;
  /// The same of a computed weight's values.
  std::vector<std::int64_t> weight_codes(std::span<const double> values) const;
  /// Of the same, whole numbers less their zero point already: throws Error where one is out of range.
  void check_inputs(std::span<const std::int64_t> codes) const;
  void check_weights(std::span<const std::int64_t> codes) const;

  /// Whether the weight is computed: then set_codes() comes before each product.
  bool has_computed_weight() const { return weight_range_.has_value(); }
  /// [channels, length], the terms in the order of the weight's summed axes; `shape`: weight_shape().
  void set_codes(std::vector<std::int64_t> codes, std::vector<std::int64_t> shape);

  /// inputs: [rows, length]. sums: [rows, channels], of channels [first, first + channels).
  void multiply(std::span<const std::int64_t> inputs, std::size_t first, std::size_t channels,
                std::span<std::int64_t> sums, int threads = 0);

  /// kConvolution, kTransposed. inputs: [samples, C, input...]; sums: [samples, M, output...].
  void convolve(std::span<const std::int64_t> inputs, const WindowSteps& steps, std::span<std::int64_t> sums,
                int threads = 0);

  /// Since the beginning; `first` is the earliest call's.
  const OverflowReport& report() const { return report_; }
  /// "layer 'fc' (Gemm), output channel 3: ..." Precondition: report().first.
  std::string text_of_overflow() const;
  const SimulatedRegister& inner() const { return inner_; }

 private:
  struct Register {
    std::size_t begin = 0, end = 0, tile = 0;  ///< places in order_
  };
  /// The registers whose terms meet in one result.
  struct Part {
    std::size_t begin = 0, end = 0;  ///< in registers_
  };

  class Windows;

  /// Not before there are codes: a file may claim a computed weight of more terms than memory holds.
  void order_terms();
  std::vector<std::int64_t> on_grid(std::span<const double> values, double step, IntegerRange range,
                                    const char* what) const;
  void check_range(std::span<const std::int64_t> codes, IntegerRange range, const char* what) const;
  /// `inputs`: of every place in order_. part: one of parts_; parts_.size(): a result that no term reaches.
  std::int64_t sum(std::size_t channel, std::size_t part, std::span<const std::int64_t> inputs,
                   std::size_t result, OverflowReport& report) const;
  /// Calls work(i, report) for every i below count, and puts the reports together.
  using Work = std::function<void(std::size_t i, OverflowReport& report)>;
  void run(std::size_t count, int threads, const Work& work);

  std::string name_, op_;
  const graph::ProductRule* rule_;
  ProductLayer::Kind kind_;
  std::size_t weight_at_;
  bool weight_first_;
  std::vector<std::int64_t> weight_shape_, strides_, dilations_;
  std::size_t groups_, channels_, length_;
  std::vector<std::int64_t> codes_;  ///< [channels, length], terms as order_ has them
  std::vector<std::size_t> order_;   ///< places to terms
  std::vector<std::uint32_t> part_;  ///< of each term; empty: there is one
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

/// A graph's layers in registers.
struct AccumulatorSimulation {
  struct Product {
    std::string output;                     ///< the value that the layer's node makes
    std::string bias_sum;                   ///< what an Add makes of it and a bias that lies inside, or ""
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

/// Tiles are the certificates'; a bias is where the layer has it. `constrained_only`: the layers whose certificate says that
/// training kept them within a width. Throws Error as ProductLayers does, and where no layer can be simulated; for bits
/// outside of 2 to 63.
AccumulatorSimulation simulate_accumulators(const graph::Graph& graph, int bits, OverflowMode mode,
                                            const GivenRanges& ranges = {}, bool constrained_only = false);

}  // namespace crumb::analysis
