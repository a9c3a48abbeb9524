#include "formats/checkpoint/quantized/scaled_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/files/text.h"
#include "formats/checkpoint/quantized/modules.h"
#include "formats/checkpoint/quantized/quantized_matrix.h"
#include "formats/checkpoint/quantized/scale_names.h"

namespace crumb {
namespace {

using quantized::FoundScale;
using quantized::ScaledWeight;
using quantized::ScaleRole;
using quantized::tensor_failure;

constexpr std::uint64_t kUsualBlock = 128;

std::optional<CodeMeaning> meaning_of(DType dtype) {
  switch (dtype) {
    case DType::kI8: return CodeMeaning::kSigned;
    case DType::kF8E4M3: return CodeMeaning::kE4M3;
    case DType::kF8E5M2: return CodeMeaning::kE5M2;
    case DType::kF8E4M3Fnuz: return CodeMeaning::kE4M3Fnuz;
    case DType::kF8E5M2Fnuz: return CodeMeaning::kE5M2Fnuz;
    default: return std::nullopt;
  }
}

/// The type that values have.
std::optional<DType> result_of(DType scale) {
  switch (scale) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: return scale;
    case DType::kU8:
    case DType::kF8E8M0: return DType::kBF16;
    default: return std::nullopt;
  }
}

std::string beside_text(const TensorEntry& scale, const TensorEntry& weight) {
  return "the tensor " + quote_text(scale.name) + " beside a weight of type " +
         std::string(dtype_name(weight.dtype));
}

class ScaledModelMaker {
 public:
  ScaledModelMaker(const std::vector<TensorEntry>& tensors, const std::vector<InputFile>& files,
                   const std::optional<ScaleBlock>& block)
      : tensors_(tensors), block_(block) {
    for (const InputFile& file : files) shared_.push_back(std::make_shared<const InputFile>(file));
  }

  Result<DequantizedModel> make() {
    for (const ScaledWeight& weight : quantized::find_scaled_weights(tensors_))
      if (Status added = add(weight); !added.ok()) return added.failure();
    if (done_.empty()) return Failure{"it holds no weights of 8 bits with scales beside them"};
    for (const TensorEntry& tensor : tensors_) {
      const std::string_view last = quantized::part_name(tensor.name).last;
      if (done_.contains(&tensor)) continue;
      if (quantized::is_activation_scale(last)) {
        model_.skipped.push_back({tensor.name, "of a quantizer of activations, which is left out"});
      } else if (quantized::is_scale_mark(last)) {
        model_.skipped.push_back({tensor.name, "a mark of scaled weights, which are read"});
      } else {
        model_.tensors.push_back(tensor);
      }
    }
    describe();
    return std::move(model_);
  }

 private:
  Status add(const ScaledWeight& scaled) {
    const TensorEntry& weight = *scaled.weight;
    const TensorEntry* scale = nullptr;
    for (const FoundScale& found : scaled.scales) {
      if (found.role == ScaleRole::kActivation) continue;
      if (found.role == ScaleRole::kUnknown)
        return Failure{
            "what " + quantized::found_text(*found.tensor) + " of " + quote_text(found.tensor->name) +
            " makes of " + quote_text(weight.name) + " (" + quantized::found_text(weight) +
            ") is not known; read are weight_scale, weight_scale_inv, scale_weight and qscale_weight"};
      if (scale != nullptr)
        return tensor_failure(found.tensor->name, "there is " + quote_text(scale->name) + ", too");
      scale = found.tensor;
    }
    if (scale == nullptr)
      return tensor_failure(weight.name, "it is " + quantized::found_text(weight) +
                                             " without a scale, but beside " +
                                             quote_text(scaled.scales.front().tensor->name));
    return add_product(weight, *scale);
  }

  Status add_product(const TensorEntry& weight, const TensorEntry& scale) {
    const std::optional<CodeMeaning> meaning = meaning_of(weight.dtype);
    if (!meaning)
      return tensor_failure(weight.name, "it is " + quantized::found_text(weight) +
                                             ", codes that weight_scale alone does not explain");
    const std::optional<DType> result = result_of(scale.dtype);
    if (!result)
      return tensor_failure(scale.name,
                            "it is " + quantized::found_text(scale) + ", expected F32, F16, BF16 or F8_E8M0");
    for (const TensorEntry* tensor : {&weight, &scale})
      if (!quantized::lies_in_order(*tensor))
        return tensor_failure(tensor->name, "it is stored in another order than row by row");
    QuantizedLayout layout;
    layout.rows = matrix_rows(weight.shape);
    layout.cols = layout.row_bytes = matrix_cols(weight.shape);
    layout.bits = 8;
    layout.meaning = *meaning;
    layout.scale = scale.dtype;
    layout.result = *result;
    if (!spread(weight, scale, layout))
      return tensor_failure(
          scale.name, "its shape " + shape_text(scale.shape) + " fits neither the rows nor blocks of " +
                          quote_text(weight.name) + ", " + quantized::found_text(weight) +
                          (block_ ? "; the configuration says blocks of " + std::to_string((*block_)[0]) +
                                        " x " + std::to_string((*block_)[1])
                                  : ""));
    TensorEntry made = weight;
    made.dtype = layout.result;
    const Result<std::uint64_t> bytes = tensor_byte_size(made.dtype, made.shape);
    if (!bytes.ok()) return tensor_failure(made.name, bytes.failure().message);
    made.bytes = bytes.value();
    made.place = {};
    made.place.offset = weight.place.offset;
    made.place.stored = weight.bytes + scale.bytes;
    made.place.decoded = made.bytes;
    made.place.coding = StorageCoding::kComputed;
    made.place.computed =
        make_quantized_matrix(layout, {.codes = {shared_[weight.input], weight.place.offset},
                                       .scales = {shared_[scale.input], scale.place.offset}});
    names_.insert(std::string(quantized::part_name(scale.name).last));
    results_.insert(std::string(dtype_name(layout.result)));
    ++products_;
    done_.insert(&weight);
    done_.insert(&scale);
    model_.tensors.push_back(std::move(made));
    return {};
  }

  /// Which scale each row and column has. False where the shapes do not say it.
  bool spread(const TensorEntry& weight, const TensorEntry& scale, QuantizedLayout& layout) const {
    const std::vector<std::uint64_t>& shape = weight.shape;
    std::vector<std::uint64_t> leading = scale.shape;
    while (!leading.empty() && leading.back() == 1) leading.pop_back();
    layout.group = std::max<std::uint64_t>(layout.cols, 1);
    const bool is_leading =
        leading.size() < shape.size() && std::equal(leading.begin(), leading.end(), shape.begin());
    if (leading.empty() || is_leading) {
      std::uint64_t count = 1;
      for (const std::uint64_t size : leading) count *= size;  // a part of an accepted shape's product
      layout.scale_rows = count == 0 ? 1 : std::max<std::uint64_t>(layout.rows / count, 1);
      return scale.dtype != DType::kU8;
    }
    const std::size_t axes = shape.size();
    const bool same_outside = axes >= 2 && scale.shape.size() == axes &&
                              std::equal(shape.begin(), shape.end() - 2, scale.shape.begin());
    if (!same_outside || layout.meaning == CodeMeaning::kSigned) return false;
    const std::uint64_t rows = shape[axes - 2], cols = shape[axes - 1];
    const std::uint64_t down = scale.shape[axes - 2], across = scale.shape[axes - 1];
    if (rows == 0 || cols == 0 || down == 0 || across == 0) return false;
    const ScaleBlock usual = block_.value_or(ScaleBlock{kUsualBlock, kUsualBlock});
    ScaleBlock found{};
    if (groups_of(rows, usual[0]) == down && groups_of(cols, usual[1]) == across) {
      found = usual;
    } else if (!block_ && rows % down == 0 && cols % across == 0) {
      found = {rows / down, cols / across};
    } else {
      return false;
    }
    // Of several matrices the rows are counted through.
    if (axes > 2 && rows % found[0] != 0) return false;
    // Powers of two in plain bytes are those of MX formats.
    if (scale.dtype == DType::kU8 && !(found[0] == 1 && found[1] == 32)) return false;
    layout.scale_rows = found[0];
    layout.group = found[1];
    layout.groups = across;
    return true;
  }

  void describe() {
    const auto list = [](const std::set<std::string>& all, const char* between) {
      std::string text;
      for (const std::string& one : all) text += (text.empty() ? "" : between) + one;
      return text;
    };
    model_.what = "scales beside weights of 8 bits (" + list(names_, ", ") + ") make of " +
                  std::to_string(products_) + (products_ == 1 ? " tensor" : " tensors") + ", in " +
                  list(results_, " and ");
  }

  const std::vector<TensorEntry>& tensors_;
  std::vector<std::shared_ptr<const InputFile>> shared_;
  std::optional<ScaleBlock> block_;
  std::set<const TensorEntry*> done_;
  std::set<std::string> names_, results_;
  std::uint64_t products_ = 0;
  DequantizedModel model_;
};

}  // namespace

std::optional<std::string> find_scaled_weight(const std::vector<TensorEntry>& tensors) {
  const std::vector<ScaledWeight> found = quantized::find_scaled_weights(tensors);
  if (!found.empty())
    return "it holds " + beside_text(*found.front().scales.front().tensor, *found.front().weight);
  // ComfyUI's mark alone.
  const auto mark = std::ranges::find_if(tensors, [](const TensorEntry& tensor) {
    return quantized::part_name(tensor.name).last == "scaled_fp8";
  });
  if (mark == tensors.end()) return std::nullopt;
  const auto weight = std::ranges::find_if(tensors, [&](const TensorEntry& tensor) {
    return &tensor != &*mark && meaning_of(tensor.dtype) && is_floating(tensor.dtype);
  });
  if (weight == tensors.end()) return std::nullopt;
  return "it holds the mark " + quote_text(mark->name) + " of scaled weights, and the weight " +
         quote_text(weight->name) + " of type " + std::string(dtype_name(weight->dtype)) + " without a scale";
}

Result<DequantizedModel> scaled_model(const std::vector<TensorEntry>& tensors,
                                      const std::vector<InputFile>& files,
                                      const std::optional<ScaleBlock>& block) {
  return ScaledModelMaker(tensors, files, block).make();
}

}  // namespace crumb
