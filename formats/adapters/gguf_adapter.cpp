#include "formats/adapters/gguf_adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/files/counted.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "formats/adapters/stored_pair.h"
#include "formats/gguf/architecture.h"
#include "formats/gguf/fields.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/hf_files.h"
#include "formats/stored_tensor.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLoraA = ".lora_a", kLoraB = ".lora_b";
constexpr std::string_view kWeight = ".weight";

/// Rows that lie interleaved within heads of n, in the checkpoint's order.
std::vector<float> in_order(const std::vector<float>& stored, std::size_t cols, std::size_t n) {
  std::vector<float> rows(stored.size());
  for (std::size_t row = 0; row < stored.size() / cols; ++row) {
    const auto from = stored.begin() + static_cast<std::ptrdiff_t>(interleaved_row(row, n) * cols);
    std::copy_n(from, cols, rows.begin() + static_cast<std::ptrdiff_t>(row * cols));
  }
  return rows;
}

class AdapterReader {
 public:
  AdapterReader(std::span<const std::byte> file, const GgufHeader& header, std::size_t head_size)
      : file_(file), header_(header), fields_(header), head_size_(head_size) {}

  Result<Adapter> read() {
    if (const Status kind = check_kind(); !kind.ok()) return kind.failure();
    if (const Status listed = list_pairs(); !listed.ok()) return listed.failure();
    Result<std::vector<LowRankUpdate>> updates = join_pairs(pairs_, kLoraA, kLoraB);
    if (!updates.ok()) return updates.failure();
    const auto alpha = static_cast<float>(fields_.number("adapter.lora.alpha").value_or(0));
    find_head_size();
    Adapter adapter{base_model(), std::move(updates.value())};
    if (!fields_.status().ok()) return fields_.status().failure();
    if (!std::isfinite(alpha))
      return Failure{"metadata 'adapter.lora.alpha' is " + number_text(alpha) + ", expected a finite number"};
    for (LowRankUpdate& update : adapter.updates) {
      if (alpha != 0) update.scale = alpha / static_cast<float>(update.rank);
      if (const Status ordered = order_rows(update); !ordered.ok()) return ordered.failure();
    }
    return adapter;
  }

 private:
  Status check_kind() {
    const std::string_view general = fields_.text("general.type").value_or("");
    const std::string_view kind = fields_.text("adapter.type").value_or("");
    const std::string_view name = fields_.text("general.architecture").value_or("");
    if (!fields_.status().ok()) return fields_.status();
    if (general.empty() || general == "model") return Failure{"this is a model, expected an adapter"};
    if (general != "adapter")
      return Failure{"metadata 'general.type' is " + quote_text(general) + ", expected 'adapter'"};
    if (kind != "lora")
      return Failure{"metadata 'adapter.type' is " + (kind.empty() ? "missing" : quote_text(kind)) +
                     ", expected 'lora'"};
    architecture_ = find_gguf_architecture(name);
    if (architecture_ == nullptr)
      return Failure{"the architecture is " + quote_text(name) + ", which Crumb does not know"};
    const GgufValue* tokens = header_.find("adapter.alora.invocation_tokens");
    if (tokens != nullptr && (tokens->type != GgufValueType::kArray || tokens->count > 0))
      return Failure{
          "metadata 'adapter.alora.invocation_tokens': this is an activated adapter, which counts only "
          "behind "
          "some tokens, expected one of plain low-rank updates"};
    return {};
  }

  Status list_pairs() {
    for (const GgufTensor& tensor : header_.tensors) {
      const std::string subject = "tensor " + quote_text(tensor.name);
      std::string_view name = tensor.name;
      const bool is_up = name.ends_with(kLoraB);
      if (!is_up && !name.ends_with(kLoraA))
        return Failure{subject +
                       (name.ends_with("norm.weight")
                            ? " is a norm that is saved whole, expected low-rank updates alone"
                            : " is none of a low-rank update, expected NAME.lora_a and NAME.lora_b")};
      name.remove_suffix(kLoraB.size());
      if (name == "token_embd.weight")
        return Failure{subject + " belongs to the update of an embedding, expected those of linear layers"};
      std::optional<std::string> module = hugging_face_name(*architecture_, name);
      if (!module || !module->ends_with(kWeight) || name.ends_with("norm.weight"))
        return Failure{subject + ": the architecture " + quote_text(architecture_->name) +
                       " has no linear layer of that name that Crumb knows"};
      module->resize(module->size() - kWeight.size());
      names_[*module] = name;
      StoredPair& pair = pairs_[*module];
      if (const Status put = put_matrix(tensor, is_up ? pair.up : pair.down); !put.ok()) return put;
    }
    return pairs_.empty() ? Status(Failure{"it holds no tensors, expected the matrices of low-rank updates"})
                          : Status();
  }

  Status put_matrix(const GgufTensor& tensor, StoredMatrix& matrix) const {
    const bool is_number = tensor.type->plain.has_value();
    if (!tensor.type->is_decoded() || (is_number && !is_adapter_type(*tensor.type->plain)))
      return Failure{"tensor " + quote_text(tensor.name) + " has the type " + std::string(tensor.type->name) +
                     ", expected F32, F16, BF16 or blocks that Crumb decodes"};
    matrix.tensor = tensor.name;
    matrix.shape = tensor.shape;
    // ggml leaves out sizes of 1 at the outer end.
    if (matrix.shape.size() == 1) matrix.shape.insert(matrix.shape.begin(), 1);
    if (is_number)
      matrix.dtype = *tensor.type->plain;
    else
      matrix.blocks = tensor.type;
    matrix.bytes = file_.subspan(tensor.offset, tensor.bytes);
    return {};
  }

  void find_head_size() {
    const std::string prefix(architecture_->name);
    const std::string length = prefix + ".attention.key_length";
    if (header_.find(length) == nullptr && header_.find(prefix + ".attention.head_count") == nullptr) return;
    const std::uint64_t said = gguf_head_size(fields_, prefix);
    if (head_size_ != 0 && said != head_size_ && fields_.status().ok())
      fields_.refuse(length, "a head has " + std::to_string(said) + " elements, and the base model's have " +
                                 std::to_string(head_size_));
    head_size_ = static_cast<std::size_t>(said);
  }

  std::string base_model() {
    for (const char* key : {"general.base_model.0.name", "general.base_model.0.repo_url"})
      if (const auto name = fields_.text(key); name && !name->empty()) return std::string(*name);
    return {};
  }

  Status order_rows(LowRankUpdate& update) const {
    const std::string& name = names_.at(update.module);
    if (!interleaves_rows(*architecture_, name)) return {};
    const std::string subject = "tensor " + quote_text(name + std::string(kLoraB));
    if (head_size_ == 0)
      return Failure{
          subject +
          ": its rows lie interleaved within heads, and the file does not say how many a head has; "
          "that takes the base model"};
    if (head_size_ % 2 != 0 || update.out % head_size_ != 0)
      return Failure{subject + " has " + count_text(update.out, "row") + ", expected whole heads of " +
                     std::to_string(head_size_) + ", an even number"};
    update.up = in_order(update.up, update.rank, head_size_);
    return {};
  }

  std::span<const std::byte> file_;
  const GgufHeader& header_;
  GgufFields fields_;
  std::size_t head_size_ = 0;
  const GgufArchitecture* architecture_ = nullptr;
  std::map<std::string, StoredPair> pairs_;
  std::map<std::string, std::string> names_;  ///< of the model's tensors, by module
};

}  // namespace

Result<Adapter> parse_gguf_adapter(std::span<const std::byte> file, std::size_t head_size) {
  const Result<GgufHeader> header = parse_gguf(file);
  if (!header.ok()) return header.failure();
  return AdapterReader(file, header.value(), head_size).read();
}

Adapter read_gguf_adapter(const fs::path& path, std::size_t head_size) {
  const MappedFile file = MappedFile::open(path).take();
  return parse_gguf_adapter(file.bytes(), head_size).take(quote_text(path.native()));
}

}  // namespace crumb
