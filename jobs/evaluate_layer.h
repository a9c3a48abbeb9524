// What the layers of a quantized model lose against a float baseline: what crumb eval --layers measures.
//
// A layer is a node that multiplies by constant weights, or takes rows of a table, where the model quantizes
// its weights or its input, or has other weights than the baseline without saying how they came about
// ("changed": GGUF files, which are read as floats; models that were pruned or trained). Distances are SQNR in dB: infinite where nothing is lost, NaN where a number that
// is not finite is compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace crumb::jobs {

struct EvaluateLayer {
  std::string name;  ///< the baseline's node, or what it gives where it has no name; unmatched: the model's
  std::string op;    ///< of the same node: Conv, MatMul, Gather
  std::string weights;  ///< how they are quantized: "int4:channel", "float32", "changed"
  std::string input;    ///< how its input is quantized: "uint8", "int8:token"; "" where it is not
  /// The weights' names in the baseline, as patterns of recipes take them; empty where it is not matched.
  std::vector<std::string> constants;
  std::uint64_t weight_count = 0;  ///< numbers

  // Nothing where the baseline has no such layer, or there are no samples.
  std::optional<double> weights_sqnr_db;  ///< its weights against the baseline's
  /// The network's result against the baseline's where this layer alone is quantized: it has the model's
  /// weights, and takes its input through the model's quantizer. Of several outputs the mean of their noise
  /// over signal.
  std::optional<double> alone_db;
  /// What the layer gives, its bias added, in the model, with all before it quantized, against what it gives
  /// in the baseline.
  std::optional<double> accumulated_db;

  // Of the model on the samples; nothing where no sample reached it, or its input is no float.
  std::optional<double> low, high;  ///< the least and greatest number that it takes in, before its quantizer
  std::optional<double> clipped;    ///< percent of these numbers that are beyond the quantizer's codes
  /// Output channels, and those of them that are 0 in all samples, behind the activation function where the
  /// layer has one. Nothing where what it gives has no channels: of tables and recurrent layers.
  std::optional<std::uint64_t> channels, dead_channels;

  // Nothing where inputs or weights are no integers (crumb verify --accumulator says why).
  std::optional<int> bits_needed;  ///< of the accumulator, by its codes and its input's range
  std::optional<int> bits_there;   ///< that the file certifies, else 32
};

/// What the model gains where one layer is put back.
struct LayerAdvice {
  std::string layer;   ///< EvaluateLayer::name
  std::string set;     ///< flags of crumb quantize, quoted for a shell: "--set 'conv1.weight=int8:channel'"
  double sqnr_db = 0;  ///< of the network's result then, on the layers' samples
  double gain_db = 0;  ///< more than now
  std::int64_t bytes = 0;  ///< by which codes of weights grow; scales are not counted
};

/// Of one model.
struct EvaluateLayers {
  std::size_t samples = 0;            ///< the first of the data, that layers were measured on
  std::optional<double> sqnr_db;      ///< of the network's result, on these
  std::vector<EvaluateLayer> layers;  ///< by alone_db, the worst first; those without it come last
  std::vector<LayerAdvice> advice;    ///< by gain_db, the best first; none where nothing gains
  /// SQNR of the network's result with all of the advice; nothing where there is one piece of it, or none.
  std::optional<double> advised_db;
};

}  // namespace crumb::jobs
