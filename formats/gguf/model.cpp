#include "formats/gguf/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "formats/gguf/architecture.h"
#include "formats/gguf/fields.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/hf_files.h"
#include "formats/gguf/rope_scaling.h"

namespace crumb {
namespace {

StoredTensor stored(const GgufTensor& tensor, std::string name) {
  StoredTensor made;
  made.name = std::move(name);
  made.shape = tensor.shape;
  made.place.offset = tensor.offset;
  made.place.stored = tensor.bytes;
  made.place.decoded = tensor.bytes;
  if (tensor.type->plain) {
    made.dtype = *tensor.type->plain;
    return made;
  }
  made.dtype = DType::kF32;
  made.place.coding = StorageCoding::kGgmlBlocks;
  made.place.blocks = tensor.type;
  made.place.decoded = tensor.bytes / tensor.type->block_bytes * tensor.type->block_elements * sizeof(float);
  return made;
}

/// A norm of float16 or bfloat16 becomes F32 before one is taken off.
void subtract_one(StoredTensor& tensor, const GgufTensor& source) {
  tensor.place.added = -1;
  if (tensor.dtype == DType::kF32) return;
  tensor.dtype = DType::kF32;
  tensor.place.coding = StorageCoding::kGgmlBlocks;
  tensor.place.blocks = source.type;
  tensor.place.decoded = source.bytes / source.type->block_bytes * sizeof(float);
}

/// The tensors that hold the scales of others, by their names.
std::map<std::string, const GgufTensor*> scale_tensors(const GgufHeader& header) {
  std::map<std::string, const GgufTensor*> scales;
  for (const GgufTensor& tensor : header.tensors)
    if (tensor.type->name == "NVFP4")
      if (const auto name = gguf_scale_name(tensor.name)) scales.emplace(*name, nullptr);
  for (const GgufTensor& tensor : header.tensors)
    if (const auto found = scales.find(tensor.name); found != scales.end()) found->second = &tensor;
  return scales;
}

/// Why Crumb cannot present the file as a Hugging Face checkpoint; empty where it can.
std::string unknown_part(const GgufHeader& header, const GgufArchitecture* architecture,
                         std::string_view name, const std::map<std::string, const GgufTensor*>& scales) {
  if (architecture == nullptr)
    return "the architecture is " + quote_text(name) + ", which Crumb does not know";
  for (const GgufTensor& tensor : header.tensors) {
    const bool is_phi3s = tensor.name == kShortRopeFactors || tensor.name == kLongRopeFactors;
    if (tensor.name == kRopeFactors || (is_phi3s && name == "phi3") || scales.contains(tensor.name) ||
        hugging_face_name(*architecture, tensor.name))
      continue;
    return "the architecture " + quote_text(name) + " has no tensor " + quote_text(tensor.name) +
           " that Crumb knows";
  }
  return {};
}

class ModelMaker {
 public:
  ModelMaker(std::span<const GgufPart> parts, const std::string& own, const GgufHeader& header)
      : parts_(parts), own_(own), header_(header), fields_(header) {}

  Result<GgufModel> make() {
    const std::optional<std::string_view> name = fields_.text("general.architecture");
    if (fields_.text("general.type") == "adapter")
      return Failure{
          "this is an adapter (metadata 'general.type'), a change to a model's weights, expected a model"};
    if (const auto parts = fields_.natural("split.count"); parts && *parts > 1 && parts_.size() == 1)
      return Failure{"this is one part of a model in " + std::to_string(*parts) +
                     " files (metadata 'split.count'), expected the others, too"};
    for (const GgufTensor& tensor : header_.tensors)
      if (!tensor.type->is_decoded())
        return Failure{"tensor " + quote_text(tensor.name) + " has the type " +
                       std::string(tensor.type->name) + ", which is not read"};
    architecture_ = name ? find_gguf_architecture(*name) : nullptr;
    if (std::string why = unknown_part(header_, architecture_, name.value_or(""), scales_); !why.empty()) {
      for (const GgufTensor& tensor : header_.tensors)
        model_.listing.tensors.push_back(placed(tensor, tensor.name));
      model_.listing.skipped.push_back({"configuration", why + ": tensors keep their GGUF names"});
    } else {
      add_tensors();
      if (fields_.status().ok()) add_files();
    }
    if (!fields_.status().ok()) return fields_.status().failure();
    if (!failure_.ok()) return failure_.failure();
    return std::move(model_);
  }

 private:
  std::string key(std::string_view name) const {
    return std::string(architecture_->name) + "." + std::string(name);
  }

  std::span<const std::byte> bytes_of(const GgufTensor& tensor) const {
    return parts_[tensor.part].bytes.subspan(tensor.offset, tensor.bytes);
  }

  StoredTensor placed(const GgufTensor& tensor, std::string name) const {
    StoredTensor made = stored(tensor, std::move(name));
    if (parts_[tensor.part].name != own_) made.file = parts_[tensor.part].name;
    return made;
  }

  void add_tensors() {
    const std::uint64_t heads = fields_.needed(key("attention.head_count"));
    const std::uint64_t shared = fields_.natural(key("attention.head_count_kv")).value_or(heads);
    for (const GgufTensor& tensor : header_.tensors) {
      if (tensor.name == kRopeFactors) {
        find_llama3(tensor);
        continue;
      }
      if (tensor.name == kShortRopeFactors || tensor.name == kLongRopeFactors) {
        (tensor.name == kLongRopeFactors ? facts_.long_factors : facts_.short_factors) =
            rope_factors(tensor, gguf_rotary_size(fields_, std::string(architecture_->name)));
        continue;
      }
      if (scales_.contains(tensor.name)) continue;
      StoredTensor made = placed(tensor, *hugging_face_name(*architecture_, tensor.name));
      if (tensor.type->name == "NVFP4") find_scale(tensor, made);
      const std::string_view part = name_in_layer(tensor.name);
      if (interleaves_rows(*architecture_, tensor.name))
        interleave(made, part.starts_with("attn_k.") ? shared : heads);
      if (architecture_->adds_one_to_norms && tensor.name.ends_with("norm.weight") && is_floating(made.dtype))
        subtract_one(made, tensor);
      if (tensor.name == "token_embd.weight" && !tensor.shape.empty())
        facts_.vocabulary = tensor.shape.front();
      facts_.has_output = facts_.has_output || tensor.name == "output.weight";
      facts_.has_attention_bias = facts_.has_attention_bias || part == "attn_q.bias";
      facts_.has_mlp_bias = facts_.has_mlp_bias || part == "ffn_up.bias";
      model_.listing.tensors.push_back(std::move(made));
    }
  }

  void interleave(StoredTensor& tensor, std::uint64_t heads) {
    const std::uint64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
    if (heads == 0 || rows % heads != 0 || rows / heads % 2 != 0 || tensor.shape.size() > 2)
      return refuse("tensor " + quote_text(tensor.name) + ": its shape is " + shape_text(tensor.shape) +
                    ", expected rows for " + std::to_string(heads) + " heads of an even size");
    if (rows != 0) tensor.place.interleaved_rows = rows / heads;
  }

  void find_scale(const GgufTensor& tensor, StoredTensor& made) {
    const auto name = gguf_scale_name(tensor.name);
    const auto found = name ? scales_.find(*name) : scales_.end();
    if (found == scales_.end() || found->second == nullptr) return;
    const GgufTensor& scale = *found->second;
    std::array<float, 1> value{};
    if (scale.type->plain == DType::kF32 && scale.bytes == sizeof(float))
      widen_to_float(DType::kF32, bytes_of(scale), value);
    if (!(value[0] >= 0) || !std::isfinite(value[0]))
      refuse("tensor " + quote_text(scale.name) + ": it is " + std::string(scale.type->name) + " " +
             shape_text(scale.shape) + ", expected one F32 number of 0 or more");
    made.place.block_scale = value[0];
  }

  /// One for each two elements of a rotary embedding; none where the tensor is refused.
  std::vector<float> rope_factors(const GgufTensor& tensor, std::uint64_t rotary_size) {
    const std::uint64_t count = tensor.bytes / sizeof(float);
    if (tensor.type->plain != DType::kF32 || count != rotary_size / 2 || count == 0 || count > 4096) {
      refuse("tensor " + quote_text(tensor.name) + ": it is " + std::string(tensor.type->name) + " " +
             shape_text(tensor.shape) + ", expected F32 [" + std::to_string(rotary_size / 2) + "]");
      return {};
    }
    std::vector<float> factors(count);
    widen_to_float(DType::kF32, bytes_of(tensor), factors);
    return factors;
  }

  void find_llama3(const GgufTensor& tensor) {
    const std::vector<float> factors =
        rope_factors(tensor, gguf_head_size(fields_, std::string(architecture_->name)));
    if (factors.empty() || std::ranges::all_of(factors, [](float factor) { return factor == 1; })) return;
    facts_.rope = find_llama3_scaling(factors, fields_.number(key("rope.freq_base")).value_or(1e4));
    const auto divides = [](float factor) { return factor > 0 && std::isfinite(factor); };
    if (!facts_.rope && !std::ranges::all_of(factors, divides))
      return refuse("tensor " + quote_text(tensor.name) + ": it divides by what is no number above 0");
    if (!facts_.rope) facts_.short_factors = facts_.long_factors = factors;  // of texts of all lengths
  }

  void refuse(std::string why) {
    if (failure_.ok()) failure_ = Failure{std::move(why)};
  }

  void add_files() {
    model_.files.push_back({"config.json", make_config(fields_, *architecture_, facts_)});
    model_.files.push_back({"generation_config.json", make_generation_config(fields_)});
    Result<std::string> tokenizer = make_tokenizer(header_);
    Result<std::string> config = make_tokenizer_config(header_);
    if (!tokenizer.ok() || !config.ok()) {
      model_.listing.skipped.push_back(
          {"tokenizer", (tokenizer.ok() ? config.failure() : tokenizer.failure()).message});
      return;
    }
    if (fields_.text("tokenizer.ggml.model") == "gpt2" && header_.find("tokenizer.ggml.pre") == nullptr)
      model_.listing.skipped.push_back({"tokenizer.ggml.pre",
                                        "the file does not say how its vocabulary splits text into words; "
                                        "llama.cpp's default is taken, which may not be the model's"});
    model_.files.push_back({"tokenizer.json", std::move(tokenizer.value())});
    model_.files.push_back({"tokenizer_config.json", std::move(config.value())});
  }

  std::span<const GgufPart> parts_;
  const std::string& own_;
  const GgufHeader& header_;
  GgufFields fields_;
  std::map<std::string, const GgufTensor*> scales_ = scale_tensors(header_);
  const GgufArchitecture* architecture_ = nullptr;
  GgufTensorFacts facts_;
  GgufModel model_;
  Status failure_;
};

}  // namespace

Result<GgufModel> read_gguf_model(std::span<const std::byte> file) {
  const GgufPart whole{"", file};
  return read_gguf_model(std::span(&whole, 1), whole.name);
}

Result<GgufModel> read_gguf_model(std::span<const GgufPart> parts, const std::string& own) {
  const Result<GgufHeader> header = parse_gguf_parts(parts);
  if (!header.ok()) return header.failure();
  return ModelMaker(parts, own, header.value()).make();
}

}  // namespace crumb
