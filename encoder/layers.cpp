#include "encoder/layers.h"

#include "base/error.h"
#include "encoder/elementwise.h"
#include "runtime/packed_matrix.h"

namespace crumb::encoder {
namespace {

std::string shown(const std::vector<size_t>& shape) {
  std::string text = "[";
  for (const size_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

void check_shape(const models::WeightSource& source, const std::string& name,
                 const std::vector<size_t>& expected) {
  if (!source.has(name)) {
    throw Error(source.describe() + " has no tensor " + name +
                ", which its configuration asks for with shape " + shown(expected));
  }
  const auto found = source.shape(name);
  if (found != expected) {
    throw Error(source.describe() + ": tensor " + name + " has shape " + shown(found) +
                ", its configuration asks for " + shown(expected));
  }
}

}  // namespace

std::unique_ptr<runtime::Matrix> load_matrix(const models::WeightSource& source, const std::string& name,
                                             size_t rows, size_t cols) {
  check_shape(source, name, {rows, cols});
  if (auto packed = source.packed(name)) return std::make_unique<runtime::PackedMatrix>(std::move(*packed));
  return std::make_unique<runtime::FloatMatrix>(rows, cols, source.floats(name));
}

std::vector<float> load_vector(const models::WeightSource& source, const std::string& name, size_t size) {
  check_shape(source, name, {size});
  return source.floats(name);
}

Linear Linear::load(const models::WeightSource& source, const std::string& name, size_t in, size_t out,
                    bool with_bias) {
  Linear linear;
  linear.weight = load_matrix(source, name + ".weight", out, in);
  if (with_bias) linear.bias = load_vector(source, name + ".bias", out);
  return linear;
}

void Linear::apply(std::span<const float> x, size_t batch, std::span<float> y) const {
  weight->multiply(x, batch, y);
  if (!bias.empty()) add_bias_rows(y, bias);
}

LayerNorm LayerNorm::load(const models::WeightSource& source, const std::string& name, size_t width,
                          float epsilon) {
  const bool early = !source.has(name + ".weight") && source.has(name + ".gamma");
  LayerNorm norm;
  norm.weight = load_vector(source, name + (early ? ".gamma" : ".weight"), width);
  norm.bias = load_vector(source, name + (early ? ".beta" : ".bias"), width);
  norm.epsilon = epsilon;
  return norm;
}

void LayerNorm::apply(std::span<float> rows) const { layer_norm_rows(rows, weight, bias, epsilon); }

}  // namespace crumb::encoder
