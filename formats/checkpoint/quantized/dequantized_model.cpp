#include "formats/checkpoint/quantized/dequantized_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/text.h"
#include "formats/checkpoint/quantized/bitsandbytes.h"
#include "formats/checkpoint/quantized/scaled_weights.h"
#include "formats/checkpoint/quantized/schemes.h"

namespace crumb {
namespace {

using quantized::Decoding;
using quantized::Method;
using quantized::Module;

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// The last part of a tensor's name, and what is before its dot.
std::pair<std::string_view, std::string_view> parted(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {std::string_view(name).substr(0, dot), std::string_view(name).substr(dot + 1)};
}

Result<std::unique_ptr<Method>> method_of(const nlohmann::json& config) {
  if (!config.is_object()) return Failure{"its configuration of the quantization is no JSON object"};
  const Result<std::string> name = quantized::text_of(config, "quant_method", "");
  if (!name.ok()) return name.failure();
  if (name.value() == "compressed-tensors") return quantized::compressed_tensors_method(config);
  if (name.value() == "gptq") return quantized::gptq_method(config);
  if (name.value() == "awq") return quantized::awq_method(config);
  if (name.value() == "auto-round" || name.value() == "intel/auto-round")
    return quantized::auto_round_method(config);
  return Failure{(name.value().empty() ? "it has no quant_method"
                                       : "quant_method " + quote_text(name.value()) + " is not read") +
                 "; read are " + std::string(kReadQuantizations)};
}

class ModelMaker {
 public:
  ModelMaker(const Method& method, const std::vector<TensorEntry>& tensors,
             const std::vector<InputFile>& files)
      : method_(method), tensors_(tensors), files_(files) {
    for (const InputFile& file : files) shared_.push_back(std::make_shared<const InputFile>(file));
  }

  Result<DequantizedModel> make() {
    find_modules();
    for (const TensorEntry& tensor : tensors_) {
      const auto [module, part] = parted(tensor.name);
      const bool is_quantized = modules_.contains(std::string(module));
      if (is_quantized && contains(method_.reading().taken, part)) continue;
      if (contains(method_.reading().others, part)) {
        model_.skipped.push_back({tensor.name, "of a quantizer of activations, which is left out"});
      } else if (contains(method_.reading().taken, part) && part != "weight") {
        return quantized::tensor_failure(tensor.name, "there are no codes that it belongs to");
      } else {
        model_.tensors.push_back(tensor);
      }
    }
    for (const auto& [name, module] : modules_)
      if (Status added = add(module); !added.ok()) return added.failure();
    if (modules_.empty()) return Failure{"it holds no tensors of " + method_.reading().method};
    describe();
    return std::move(model_);
  }

 private:
  void find_modules() {
    for (const TensorEntry& tensor : tensors_) {
      const auto [module, part] = parted(tensor.name);
      if (!contains(method_.reading().taken, part)) continue;
      Module& found = modules_[std::string(module)];
      found.name = module;
      found.tensors.emplace(part, &tensor);
    }
    std::erase_if(modules_, [&](const auto& entry) {
      return std::ranges::none_of(method_.reading().codes, [&](const std::string& part) {
        // A weight is quantized where it has a scale.
        const Module& module = entry.second;
        return module.find(part) != nullptr && (part != "weight" || module.find("weight_scale") != nullptr);
      });
    });
  }

  QuantizedPart part(const Module& module, const std::string& name) const {
    if (name.empty()) return {};
    const TensorEntry& tensor = *module.find(name);
    return {shared_[tensor.input], tensor.place.offset};
  }

  Status add(const Module& module) {
    const Result<Decoding> decoding = method_.decode(module, files_);
    if (!decoding.ok()) return decoding.failure();
    const QuantizedLayout& layout = decoding.value().layout;
    TensorEntry made;
    made.name = module.name.empty() ? "weight" : module.name + ".weight";
    made.dtype = layout.result;
    made.shape = {layout.rows, layout.cols};
    const Result<std::uint64_t> bytes = tensor_byte_size(made.dtype, made.shape);
    if (!bytes.ok()) return quantized::tensor_failure(made.name, bytes.failure().message);
    made.bytes = bytes.value();
    const TensorEntry& codes = *module.find(decoding.value().codes);
    made.input = codes.input;
    for (const auto& [name, stored] : module.tensors) made.place.stored += stored->bytes;
    made.place.offset = codes.place.offset;
    made.place.decoded = made.bytes;
    made.place.coding = StorageCoding::kComputed;
    made.place.computed = make_quantized_matrix(layout, {.codes = part(module, decoding.value().codes),
                                                         .scales = part(module, decoding.value().scales),
                                                         .zeros = part(module, decoding.value().zeros),
                                                         .index = part(module, decoding.value().index),
                                                         .global = part(module, decoding.value().global)});
    results_.insert(std::string(dtype_name(layout.result)));
    model_.tensors.push_back(std::move(made));
    return {};
  }

  void describe() {
    std::string types;
    for (const std::string& type : results_) types += (types.empty() ? "" : " and ") + type;
    model_.what = method_.reading().method + " computes of " + std::to_string(modules_.size()) +
                  (modules_.size() == 1 ? " quantized matrix" : " quantized matrices") + ", in " + types;
  }

  const Method& method_;
  const std::vector<TensorEntry>& tensors_;
  const std::vector<InputFile>& files_;
  std::vector<std::shared_ptr<const InputFile>> shared_;
  std::map<std::string, Module> modules_;
  std::set<std::string> results_;
  DequantizedModel model_;
};

/// Of a configuration that says no more than that there are scales: the sizes of blocks, where it has them.
Result<std::optional<ScaleBlock>> scale_block(const nlohmann::json& config) {
  const auto found = config.find("weight_block_size");
  if (found == config.end() || found->is_null()) return std::optional<ScaleBlock>();
  const bool good =
      found->is_array() && found->size() == 2 && std::ranges::all_of(*found, [](const auto& size) {
        return size.is_number_unsigned() && size.template get<std::uint64_t>() > 0;
      });
  if (!good) return Failure{"weight_block_size is no list of two sizes"};
  return std::optional(ScaleBlock{(*found)[0].get<std::uint64_t>(), (*found)[1].get<std::uint64_t>()});
}

/// Whether scales lie beside the weights under names that explain themselves.
Result<bool> is_scaled(const nlohmann::json& config) {
  if (!config.is_object()) return false;
  const Result<std::string> method = quantized::text_of(config, "quant_method", "");
  if (!method.ok()) return method.failure();
  if (method.value() == "fp8" || method.value() == "fbgemm_fp8") return true;
  if (method.value() != "modelopt") return false;
  const Result<std::string> algorithm = quantized::text_of(config, "quant_algo", "");
  if (!algorithm.ok()) return algorithm.failure();
  if (algorithm.value().starts_with("FP8")) return true;
  return Failure{"quant_algo " + quote_text(algorithm.value()) + " of modelopt is not read; read is FP8"};
}

}  // namespace

Result<DequantizedModel> dequantized_model(const nlohmann::json& config,
                                           const std::vector<TensorEntry>& tensors,
                                           const std::vector<InputFile>& files) {
  const Result<bool> scaled = is_scaled(config);
  if (!scaled.ok()) return scaled.failure();
  if (scaled.value()) {
    const Result<std::optional<ScaleBlock>> block = scale_block(config);
    if (!block.ok()) return block.failure();
    return scaled_model(tensors, files, block.value());
  }
  if (config.is_object() && config.value("quant_method", nlohmann::json()) == "bitsandbytes")
    return bitsandbytes_model(tensors, files);
  const Result<std::unique_ptr<Method>> method = method_of(config);
  if (!method.ok()) return method.failure();
  return ModelMaker(*method.value(), tensors, files).make();
}

}  // namespace crumb
