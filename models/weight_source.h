// The one seam between a network and its weights: tensors and text files by the checkpoint's own names,
// wherever they lie. What is behind a tensor (float32, packed codes) is not the network's business.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/packed/packed_tensor.h"
#include "quant/tensor_source.h"

namespace crumb::models {

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// Of all tensors, sorted.
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(std::string_view name) const = 0;

  /// Of a tensor that the source has. These three throw Error, which names it, where it is missing or
  /// damaged.
  virtual std::vector<size_t> shape(std::string_view name) const = 0;

  /// float32 values, dequantized where it is quantized, row-major.
  virtual std::vector<float> floats(std::string_view name) const = 0;

  /// What gives these values later, also when this source is gone; null where that cannot be.
  virtual std::function<std::vector<float>()> later(std::string_view) const { return nullptr; }

  /// Its codes in memory of their own; nothing where it is not quantized.
  virtual std::optional<QuantizedTensor> codes(std::string_view name) const = 0;

  /// The text of a file of the checkpoint ("config.json", "1_Pooling/config.json"); nothing where there is no
  /// such file.
  virtual std::optional<std::string> file(std::string_view relative_path) const = 0;

  /// Why there is no configuration, where there is none and the file says what it is of: "the architecture is
  /// 'mamba', which Crumb does not know". Empty otherwise.
  virtual std::string why_unconfigured() const { return ""; }

  /// The checkpoint that is open, which lives as long as this; null for a packed file.
  virtual const Checkpoint* checkpoint() const { return nullptr; }

  /// What this is, for messages: "folder 'all-MiniLM-L6-v2'", "file 'minilm.crumb'".
  virtual std::string describe() const = 0;
};

/// A Hugging Face folder, any other checkpoint or a packed file. Throws Error, which names it: what is wrong,
/// and which other tool quantized it.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

/// The same of what is open, for callers who say in front of an Error whose it is: messages begin with what
/// is wrong. The source must outlive it.
std::unique_ptr<WeightSource> weights_of(const TensorSource& source);

/// The same of what stays open as long as any of its weights is to be read (WeightSource::later).
std::unique_ptr<WeightSource> weights_on(std::shared_ptr<const TensorSource> source);

}  // namespace crumb::models
