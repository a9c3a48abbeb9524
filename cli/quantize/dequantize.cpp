// crumb dequantize: converts a packed file, a GGUF file, or a folder that another tool quantized, to float
// safetensors.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "cli/flags/dtype_flag.h"
#include "cli/flags/flag_group.h"
#include "cli/flags/threads_flag.h"
#include "cli/flags/verb.h"
#include "cli/notes.h"
#include "cli/output.h"
#include "export/folder/float_source.h"
#include "formats/safetensors/safetensors.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/folder_output.h"
#include "jobs/language/adapter_files.h"
#include "models/configured_network.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::cli {
namespace {

using exporting::FloatSource;

struct DequantizeFlags {
  std::string input, output, shard, dtype;
  int threads = 0;
};

/// A later run recognizes the file by its writer.
const std::map<std::string, std::string> kMetadata = {{"format", "pt"}, {"writer", "crumb dequantize"}};

void write_float_folder(const DequantizeFlags& options, uint64_t shard_bytes,
                        const exporting::FolderContent& source) {
  const exporting::FolderReport report = jobs::write_folder_with_notes(
      source, options.output,
      {.shard_bytes = shard_bytes, .threads = options.threads, .input = options.input, .metadata = kMetadata},
      "dequantizing", options.shard, terminal());
  std::cout << options.output << ": " << count_text(report.tensors, "tensor") << " in "
            << count_text(report.files, "file") << "\n";
}

void write_file(const DequantizeFlags& options, const exporting::FolderContent& source) {
  SafetensorsWriter writer(options.output, source.tensors(), kMetadata);
  const std::filesystem::path parent = std::filesystem::path(options.output).parent_path();
  Progress progress("dequantizing", "tensors", writer.tensors().size(), 0);
  size_t done = 0;
  for (const TensorDescription& tensor : writer.tensors()) {
    check_interrupt();
    source.read_tensor(tensor.name, parent.empty() ? "." : parent, options.threads,
                       [&](std::span<const std::byte> bytes) { writer.write(tensor.name, bytes); });
    progress.update(++done, 0);
  }
  writer.commit();
  std::cout << options.output << ": " << count_text(writer.tensors().size(), "tensor") << "\n";
}

void dequantize_verb(DequantizeFlags options) {
  uint64_t shard_bytes = jobs::shard_bytes_of(options.shard, terminal());
  if (shard_bytes > 0 || !options.output.ends_with(".safetensors")) {
    jobs::claim_folder(options.input, options.output, terminal());
  } else {
    refuse_overwriting_inputs({options.input}, options.output);
    claim_output(options.output);
  }
  const FloatSource source(options.input);
  if (const Checkpoint* checkpoint = source.source().checkpoint())
    jobs::note_reading(*checkpoint, terminal());
  if (shard_bytes == 0 && !options.output.ends_with(".safetensors")) {
    options.shard = jobs::kUsualShard;
    shard_bytes = jobs::shard_bytes_of(options.shard, terminal());
  }
  if (const auto tensor = shard_bytes > 0 ? jobs::adapter_tensor_in(options.input) : std::nullopt)
    Notes().say(
        "the adapter beside its matrices (" + quote_text(*tensor) +
        ") is no part of a folder's network: crumb export --to adapter writes it by itself, and crumb merge "
        "puts it into the matrices");
  if (source.unused_head()) Notes().say(models::note_of_unused_head(*source.unused_head()));
  const std::string cost =
      jobs::write_with_dtype(source, options.dtype, terminal(), [&](const exporting::FolderContent& content) {
        if (shard_bytes > 0)
          write_float_folder(options, shard_bytes, content);
        else
          write_file(options, content);
      });
  if (!cost.empty()) Notes().say(cost);
}

}  // namespace

void add_dequantize(CLI::App& app) {
  auto options = std::make_shared<DequantizeFlags>();
  CLI::App* verb = app.add_subcommand(
      "dequantize", "Turn codes into floats: a packed file, GGUF, or what others quantized");
  verb->add_option("input", options->input,
                   "The packed file, a .gguf file, or what compressed-tensors, GPTQ, AWQ, AutoRound, "
                   "bitsandbytes or FP8 "
                   "tools quantized")
      ->type_name("MODEL")
      ->required();
  verb->add_option("-o,--output", options->output,
                   "The .safetensors file to write, or a name without that ending: the model folder")
      ->type_name("FILE|FOLDER")
      ->group(kOutputFlags)
      ->required();
  verb->add_option(
          "--shard", options->shard,
          "Of a folder: safetensors files of at most this size (2GB, 500MiB; a tensor is never cut), and "
          "an index; 5GB else")
      ->type_name("SIZE")
      ->group(kOutputFlags);
  add_dtype_flag(*verb, options->dtype);
  add_threads_flag(*verb, options->threads, "Threads (those the machine has)");
  verb->footer(
      "Names are the original ones; floating tensors become float32 (or what --dtype says), others keep "
      "their "
      "type.\n"
      "In a folder the configuration and tokenizer files are written too; a folder that exists must be "
      "empty or\n"
      "hold what an earlier such run left. The index comes last: without it the folder is not complete.\n\n"
      "Examples:\n  crumb dequantize minilm.crumb -o minilm.safetensors\n"
      "  crumb dequantize minilm.crumb -o minilm-float\n"
      "  crumb dequantize SmolLM2-135M-Instruct.Q4_1.gguf -o smollm2\n"
      "  crumb dequantize Llama-3-8B-AWQ -o llama-float");
  verb->callback([options] { dequantize_verb(*options); });
}

}  // namespace crumb::cli
