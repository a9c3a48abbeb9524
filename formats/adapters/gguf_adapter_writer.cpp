#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "formats/adapters/gguf_adapter.h"
#include "formats/adapters/stored_pair.h"
#include "formats/gguf/architecture.h"
#include "formats/gguf/writer.h"
#include "formats/stored_tensor.h"

namespace crumb {
namespace {

namespace fs = std::filesystem;

float scale_of(float alpha, std::size_t rank) { return alpha / static_cast<float>(rank); }

/// Whether llama.cpp can have that alpha: 0 means something else there, and what is near 0 leaves no scale to
/// others.
bool is_alpha(float alpha) { return std::isnormal(alpha); }

/// The alphas that give a scale, as near as float32 comes to them: the whole number first.
std::array<float, 4> alphas_of(float scale, std::size_t rank) {
  constexpr float kEnd = std::numeric_limits<float>::infinity();
  const double alpha = static_cast<double>(scale) * static_cast<double>(rank);
  const auto nearest = static_cast<float>(alpha);
  return {static_cast<float>(std::round(alpha)), nearest, std::nextafter(nearest, -kEnd),
          std::nextafter(nearest, kEnd)};
}

/// The alpha that gives most updates their very scale; of several the largest, so that what it leaves is
/// small.
float common_alpha(const Adapter& adapter) {
  std::map<std::pair<float, std::size_t>, std::size_t> counts;  // of each scale and rank
  for (const LowRankUpdate& update : adapter.updates) ++counts[{update.scale, update.rank}];
  const auto fitting = [&](float alpha) {
    std::size_t count = 0;
    for (const auto& entry : counts)
      if (is_alpha(alpha) && scale_of(alpha, entry.first.second) == entry.first.first) count += entry.second;
    return count;
  };
  float best = static_cast<float>(adapter.updates.front().rank);
  std::size_t most = 0;
  for (const auto& entry : counts) {
    const std::array<float, 4> alphas = alphas_of(entry.first.first, entry.first.second);
    const float alpha = *std::ranges::max_element(alphas, {}, fitting);
    const std::size_t count = fitting(alpha);
    if (count < most || count == 0 || (count == most && std::abs(alpha) <= std::abs(best))) continue;
    most = count;
    best = alpha;
  }
  return best;
}

std::uint32_t file_type(DType dtype) {  // LLAMA_FTYPE
  return dtype == DType::kF32 ? 0 : dtype == DType::kF16 ? 1 : 32;
}

const GgmlType& ggml_type_of(DType dtype) {
  return *std::ranges::find(ggml_types(), std::optional(dtype), &GgmlType::plain);
}

class AdapterWriter {
 public:
  AdapterWriter(const Adapter& adapter, const GgufAdapterOptions& options)
      : adapter_(with_common_alpha(adapter)),
        options_(options),
        architecture_(architecture_of(options.model_type)),
        alpha_(common_alpha(adapter)) {
    for (const LowRankUpdate& update : adapter_.updates) names_.push_back(name_of(update));
  }

  void write(const fs::path& path) const {
    std::vector<std::vector<std::byte>> data;
    GgufPlan plan{metadata(), {}};
    const GgmlType& type = ggml_type_of(options_.dtype);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const LowRankUpdate& update = adapter_.updates[i];
      const std::string down = names_[i] + ".lora_a", up = names_[i] + ".lora_b";
      plan.tensors.push_back({down, &type, {update.rank, update.in}});
      plan.tensors.push_back({up, &type, {update.out, update.rank}});
      data.push_back(narrowed(update.down, options_.dtype, down));
      data.push_back(narrowed(stored_up(update, names_[i]), options_.dtype, up));
    }
    GgufWriter writer(path, std::move(plan));
    for (const std::vector<std::byte>& bytes : data) writer.append(bytes);
    (void)writer.finish();
  }

 private:
  static const GgufArchitecture& architecture_of(const std::string& model_type) {
    if (const GgufArchitecture* found = find_gguf_architecture_of(model_type)) return *found;
    std::string known;
    for (const GgufArchitecture& architecture : gguf_architectures())
      known += (known.empty() ? "" : ", ") + std::string(architecture.model_type);
    throw Error("an adapter of a model of the type " + quote_text(model_type) +
                " cannot be written to GGUF, known are " + known);
  }

  std::string name_of(const LowRankUpdate& update) const {
    const std::string subject = "the update of " + quote_text(update.module);
    const std::optional<std::string> name = gguf_name(architecture_, update.module + ".weight");
    if (!name || name->ends_with("norm.weight"))
      throw Error(subject + ": GGUF's architecture " + std::string(architecture_.name) +
                  " has no linear layer of that name");
    if (*name == "token_embd.weight")
      throw Error(subject + ": llama.cpp has another form for those of embeddings, which is not written");
    const std::size_t head = options_.head_size;
    if (interleaves_rows(architecture_, *name) && (head == 0 || head % 2 != 0 || update.out % head != 0))
      throw Error(subject + " has " + count_text(update.out, "output") + ", expected whole heads of " +
                  (head == 0 ? "the base model's size, which was not given" : std::to_string(head)) +
                  ", an even number");
    return *name;
  }

  std::vector<GgufPair> metadata() const {
    std::vector<GgufPair> pairs = {{"general.architecture", std::string(architecture_.name)},
                                   {"general.type", std::string("adapter")},
                                   {"general.file_type", file_type(options_.dtype)}};
    const std::string& base = options_.base_model.empty() ? adapter_.base : options_.base_model;
    if (!base.empty()) {
      pairs.push_back({"general.base_model.count", std::uint32_t{1}});
      pairs.push_back({"general.base_model.0.name", base});
    }
    pairs.push_back({"adapter.type", std::string("lora")});
    pairs.push_back({"adapter.lora.alpha", alpha_});
    if (options_.head_size != 0)
      pairs.push_back({std::string(architecture_.name) + ".attention.key_length",
                       static_cast<std::uint32_t>(options_.head_size)});
    return pairs;
  }

  /// In the file's order of rows.
  std::vector<float> stored_up(const LowRankUpdate& update, const std::string& name) const {
    const std::size_t n = interleaves_rows(architecture_, name) ? options_.head_size : 0;
    std::vector<float> stored(update.up.size());
    for (std::size_t row = 0; row < update.out; ++row) {
      const std::size_t from = n == 0 ? row : deinterleaved_row(row, n);
      for (std::size_t col = 0; col < update.rank; ++col)
        stored[row * update.rank + col] = update.up[from * update.rank + col];
    }
    return stored;
  }

  const Adapter adapter_;
  const GgufAdapterOptions& options_;
  const GgufArchitecture& architecture_;
  std::vector<std::string> names_;  ///< of the model's tensors, update by update
  float alpha_;
};

}  // namespace

Adapter with_common_alpha(Adapter adapter) {
  const float alpha = common_alpha(adapter);
  for (LowRankUpdate& update : adapter.updates) {
    const float given = scale_of(alpha, update.rank);
    if (given == update.scale) continue;
    const double left = static_cast<double>(update.scale) / static_cast<double>(given);
    for (float& x : update.up) x = static_cast<float>(static_cast<double>(x) * left);
    update.scale = given;
  }
  return adapter;
}

void write_gguf_adapter(const Adapter& adapter, const fs::path& path, const GgufAdapterOptions& options) {
  check_written_type(options.dtype);
  check_adapter(adapter);
  if (adapter.updates.empty()) throw Error("an adapter without updates cannot be written");
  if (!is_utf8(options.base_model)) throw usage_error("the name of a base model must be UTF-8");
  if (options.head_size > 0x7fffffff)
    throw usage_error("a head of so many elements cannot be written to GGUF");
  AdapterWriter(adapter, options).write(path);
}

}  // namespace crumb
