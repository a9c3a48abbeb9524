#include "quant/quantizer.h"

#include "formats/dtype.h"
#include "quant/slices/slice_quantizer.h"

namespace crumb {

QuantizedTensor quantize(const QuantSpec& spec, std::span<const float> values,
                         std::span<const uint64_t> shape, const QuantizeOptions& options) {
  const uint64_t count = matrix_shape(shape).take("tensor '" + std::string(options.name) + "'").size();
  if (values.size() != count) {
    throw Error("tensor '" + std::string(options.name) + "': " + std::to_string(values.size()) +
                " values given for shape " + shape_text(shape));
  }
  SpanStream whole(values);
  if (options.stack_axes == 0) return quantize_slices(spec, shape, whole, count, {}, options);
  CodeBytes codes;
  const SliceSink keep = [&](std::span<const float>, const QuantizedView& matrix) {
    codes.insert(codes.end(), matrix.codes.begin(), matrix.codes.end());
  };
  QuantizedTensor made =
      quantize_slices(spec, shape, whole, count, options.codes ? keep : SliceSink(), options);
  made.codes = std::move(codes);
  return made;
}

void fake_quantize(const QuantSpec& spec, std::span<const float> values, std::span<const uint64_t> shape,
                   std::span<float> out, const QuantizeOptions& options) {
  dequantize(quantize(spec, values, shape, options).view(), out, options.threads);
}

double bits_per_weight(uint64_t stored_bytes, uint64_t weights) {
  return weights == 0 ? 0.0 : 8.0 * static_cast<double>(stored_bytes) / static_cast<double>(weights);
}

}  // namespace crumb
