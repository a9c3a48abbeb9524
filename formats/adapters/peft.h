// Low-rank adapters in a folder, as the `peft` package (0.21) writes and reads them:
//
//   adapter_config.json         peft_type "LORA", r, lora_alpha, use_rslora, rank_pattern, alpha_pattern, ...
//   adapter_model.safetensors   base_model.model.MODULE.lora_A.weight [rank, in], ....lora_B.weight [out,
//                               rank], in F32, F16 or BF16; with ".default" before ".weight" from older
//                               versions
//
// The scale is lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora. rank_pattern and alpha_pattern give
// modules an r or lora_alpha of their own: by the first key in the file's order that, as a regular
// expression, matches the whole name or all that follows one of its dots; else by the key that is the name
// itself.
//
// In addition, PEFT stores whole tensors of the base: the head or the embeddings that an adapter's target is
// (base_model.model.MODULE.base_layer.weight), modules_to_save (base_model.model.MODULE.weight, from older
// versions MODULE.modules_to_save.default.weight), biases. They say nothing new if training left them as they
// were; whoever knows the base checks that (CheckCopy).
//
// Refused by name: everything that computes something else than W x + scale up (down x) (DoRA, QA-LoRA,
// activated LoRA, ...), initializations that change the base's weights, matrices that are transposed in the
// base, tensors that are none of the above. target_modules and similar fields are ignored: modules that have
// tensors are adapted.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/adapters/adapter.h"
#include "formats/adapters/base_copy.h"
#include "formats/dtype.h"

namespace crumb {

inline constexpr const char* kPeftConfig = "adapter_config.json";
inline constexpr const char* kPeftTensors = "adapter_model.safetensors";

/// From the bytes of the two files. Copies of the base's tensors are refused by name without `check`. A
/// Failure begins with the file's name.
Result<Adapter> parse_peft(std::string_view config, std::span<const std::byte> tensors,
                           const CheckCopy& check = {});

/// Throws Error, which names the path.
Adapter read_peft(const std::filesystem::path& folder, const CheckCopy& check = {});

struct PeftOptions {
  DType dtype = DType::kF32;    ///< F32, F16 or BF16, to which the matrices are rounded
  std::string base_model = {};  ///< base_model_name_or_path; empty: Adapter::base, none where that is empty
  std::string task_type = "CAUSAL_LM";  ///< as PEFT names it; empty: none
};

/// Encoders have none: PEFT's classes for tasks want heads, and without a task the adapter fits any model.
inline std::string peft_task_of(bool is_encoder) { return is_encoder ? "" : PeftOptions().task_type; }

/// Writes the two files, from which PeftModel.from_pretrained computes the same. The folder is made where it
/// is missing; it then appears whole or not at all (base/files/new_folder.h), also where it held an adapter
/// before. In a folder with other files, those stay and the adapter's files are added: an old configuration
/// is removed before the tensors are replaced, and the new one comes last, so that no interrupted run leaves
/// what looks like a whole adapter. Throws Error: check_adapter()'s; no updates; numbers beyond the type;
/// those of OutputFile.
void write_peft(const Adapter& adapter, const std::filesystem::path& folder, const PeftOptions& options = {});

}  // namespace crumb
